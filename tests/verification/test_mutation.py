"""Mutants of kernels: how texts are changed, what counts as equal, what verification notices."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tikgen
from test_docs import affine as affine
from tikgen.cli import app
from tikgen.errors import ParameterError
from tikgen.store import default_store
from tikgen.template.scaffold import scaffold
from tikgen.verification import mutation_run
from tikgen.verification.mutation import Mutation, Survivor
from tikgen.verification.mutator import KINDS, mutants_of
from tikgen.verification.part_counts import is_more_parts
from tikgen.verification.same_code import is_same_code

ARCH = os.environ.get("TIKGEN_TEST_ARCH", "cpu")

KERNEL = """\
import taichi as ti


@ti.kernel
def f(x: ti.types.ndarray(dtype=ti.f64, ndim=2), y: ti.types.ndarray(dtype=ti.f64, ndim=2)):
    ti.loop_config(block_dim=64)
    for i, j in ti.ndrange((1, x.shape[0] - 1), x.shape[1]):
        total = ti.f64(0.0)
        for step in range(3):  # A comment: i + j < 3, "é"
            if i + step >= x.shape[0] and not j > 2:
                total = -x[i, j]
            total += ti.f64(0.1) * (
                x[i - 1, j] % 2.5
            ) + ti.f64(0.5)
        y[i, j] = ti.atan2(total, ti.min(total, x[i, j]))
"""
RENDERED = {
    "stencil": {"dim": 2, "boundary": "periodic"},
    "map": {"expr": "z = where(x > 0, a*x, -2*y)", "loop": "rows"},
    "spmv": {},
    "scan": {},
    "transpose": {},
}


def text_of(name: str) -> str:
    """Return the text of a kernel that has a name."""
    return tikgen.render(name, arch="cpu", **RENDERED[name]).text if name in RENDERED else KERNEL


def alike(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def changes(text: str = KERNEL) -> dict[str, str]:
    """Return the kind of each mutant by its diff."""
    return {mutant.diff(text): mutant.kind for mutant in mutants_of(text)}


@pytest.mark.parametrize("name", [*RENDERED, "own"])
def test_a_mutant_is_python_of_as_many_lines_that_differs_in_one_place(name: str) -> None:
    text = text_of(name)
    found = mutants_of(text)
    assert len({mutant.text for mutant in found}) == len(found) > 10
    for mutant in found:
        ast.parse(mutant.text)
        assert mutant.kind in KINDS
        assert mutant.text.count("\n") == text.count("\n")
        start = alike(text, mutant.text)
        assert text.count("\n", 0, start) + 1 >= mutant.line
        end = alike(text[: start - 1 : -1], mutant.text[: start - 1 : -1])
        place = text[start : len(text) - end]
        assert place.count("\n") <= 12, "more than one statement"


def test_every_kind_of_change_is_made() -> None:
    assert set(changes().values()) == set(KINDS)
    found = changes()
    for old, new in (
        ("total = ti.f64(0.0)", "total = ti.f32(0.0)"),
        ("total = -x[i, j]", "total = (x[i, j])"),
        ("for step in range(3):", "for step in range(4):"),
        ("if i + step >= x.shape[0] and not j > 2:", "if i + step > x.shape[0] and not j > 2:"),
        ("if i + step >= x.shape[0] and not j > 2:", "if i + step >= x.shape[0] or not j > 2:"),
        ("x[i - 1, j] % 2.5", "x[j, i - 1] % 2.5"),
        ("total += ti.f64(0.1) * (", "total += ti.f32(0.1) * ("),
        ("y[i, j] = ti.atan2(total, ti.min(total, x[i, j]))", "pass"),
    ):
        comment = '  # A comment: i + j < 3, "é"' if "range" in old else ""
        assert f"- {old}{comment}\n+ {new}{comment}" in found, new


def test_a_number_that_the_narrower_dtype_holds_stays() -> None:
    for number, is_held in (("0.04614257812500001", True), ("0.1", False), ("0.5", True)):
        found = changes(KERNEL.replace("ti.f64(0.1)", f"ti.f64({number})"))
        assert any(f"+ total += ti.f32({number})" in diff for diff in found) is not is_held


def test_hints_and_what_no_mutant_can_change_are_left_alone() -> None:
    assert not any("loop_config" in diff for diff in changes())
    # More room, an integer that no extent reaches, the order of a minimum.
    text = KERNEL.replace("total = -x[i, j]", "room = ti.Vector.zero(ti.f64, 8)")
    text = text.replace("range(3)", "range(ti.min(3, 2147483136))")
    found = "\n".join(changes(text))
    assert "f64, 9" not in found
    assert "2147483137" not in found
    assert "min(2147483136, 3)" not in found
    assert "ti.f32, 8" in found


ZERO = "z = x.shape[-1] & ti.i32(-2147483648)"
MINUS = "z = -(x.shape[-1] & ti.i32(-2147483648))"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("y[i] = x[i + 0]", "y[i] = x[i]  # a comment", True),
        ("y[i] = 1 * x[2 * 3]", "y[i] = x[7 - 1]", True),
        ("n = 5\n    y[i] = x[i]", "m = 7\n    y[i] = x[i]", True),
        ("n = 5\n    y[n] = x[i]", "n = 7\n    y[n] = x[i]", False),
        ("n = f(5)\n    y[i] = x[i]", "n = f(7)\n    y[i] = x[i]", False),
        ("for r in range(i % 2): y[3 + r] = 2", "for r in range(i % 2): y[3 - r] = 2", True),
        ("for r in range(i % 3): y[3 + r] = 2", "for r in range(i % 3): y[3 - r] = 2", False),
        (
            "for r in range(ti.max(i, 0) // 8): f(r)",
            "for r in range(ti.max(i, 1) // 8): f(r)",
            True,
        ),
        (
            "for r in range(ti.max(i, 0) // 8): f(r)",
            "for r in range(ti.max(i, 8) // 8): f(r)",
            False,
        ),
        ("for r in range(ti.max(i, 0) % 8): f(r)", "for r in range(ti.max(i, 1) % 8): f(r)", False),
        ("y[i] = x[i] + 1 - 1", "y[i] = x[i]", False),
        ("b = 0; y[b, 0] = x[i]", "b = 0; y[0, b] = x[i]", True),
        ("b = 0; y[b, 0] = x[i]; b += 1", "b = 0; y[0, b] = x[i]; b += 1", False),
        ("for b in f(i): y[b, 0] = x[i]", "for b in f(i): y[0, b] = x[i]", False),
        (f"{ZERO}; ti.atomic_add(x[i], z)", f"{ZERO}; ti.atomic_sub(x[i], z)", True),
        (f"{ZERO}; ti.atomic_add(x[i], z)", f"{MINUS}; ti.atomic_add(x[i], z)", True),
        (f"{ZERO}; ti.atomic_add(x[z], i)", f"{ZERO}; ti.atomic_sub(x[z], i)", False),
        (f"{ZERO}; z += i; y[i] = z", f"{MINUS}; z += i; y[i] = z", True),
        (f"{ZERO}; z += i; y[i] = z", f"{ZERO}; z += i; y[i] = -z", False),
        (f"{ZERO}; y[i] = i ^ z", f"{ZERO}; y[i] = i | z", True),
        (f"{ZERO}; y[i] = i ^ z", f"{ZERO.replace('[-1] &', '[-1] - 1 &')}; y[i] = i ^ z", True),
        (f"{ZERO}; y[i] = i ^ z", f"{ZERO}; y[i] = i & z", False),
        (f"{ZERO}; y[i] = i ^ z", f"{ZERO.replace('[-1] &', '[-1] - 2 &')}; y[i] = i ^ z", False),
        (ZERO.replace("8", "7") + "; y[i] = z", ZERO.replace("8", "7") + "; y[i] = -z", False),
        ("y[i] = x[i] - 0.1", "y[i] = x[i] + -0.1", False),
    ],
)
def test_same_code_is_told(one: str, other: str, same: bool) -> None:
    texts = [f"def k(x, y, i):\n    {body}\n" for body in (one, other)]
    assert is_same_code(*texts) is same


@given(st.integers(0, 10**6), st.integers(1, 10**4), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_more_parts_are_told_from_fewer(less: int, extent: int, more: int) -> None:
    count = f"(n - {less} - 1) // {extent} + 1"
    assert is_more_parts(count, f"(n - {less} - 1) // {extent} + {1 + more}")
    assert not is_more_parts(count, f"(n - {less} - 1) // {extent} + 0")
    assert not is_more_parts(count, "unknown(")


def test_more_parts_than_there_is_work_are_no_mutants() -> None:
    text = KERNEL.replace("range(3)", "range((x.shape[0] - 1) // 64 + 1)")
    counts = [diff for diff in changes(text) if "// 64" in diff or "//" not in diff]
    assert any("// 65 + 1" in diff for diff in counts)
    assert not any("// 63 + 1" in diff or "64 + 2" in diff for diff in counts)


@pytest.fixture(autouse=True)
def _few_launches(one_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_run, "_LAUNCHES", 30)


def brief(template, **settings):
    """Verify with settings for a test."""
    defaults = {"archs": (ARCH,), "max_examples": 6, "seed": 3}
    return tikgen.verify(template, **(defaults | settings))


@pytest.mark.parametrize(
    ("mutants", "kinds"), [(8, 4), pytest.param(20, 6, marks=pytest.mark.slow)]
)
def test_a_new_template_kills_all(tmp_path: Path, mutants: int, kinds: int) -> None:
    template = tikgen.load_template(scaffold(f"fresh{mutants}", tmp_path))
    report = brief(template, archs=("cpu",), mutants=mutants, scripts=tmp_path)
    (found,) = report.archs
    assert report.ok, str(report)
    assert found.mutation is not None
    assert found.mutation.counted == mutants
    assert report.score == 1, str(report)
    assert found.mutation.variants > 1
    assert len(found.mutation.kinds) >= kinds
    document = report.to_dict()["archs"][0]["mutation"]
    assert document["score"] == 1
    assert json.loads(json.dumps(document)) == document
    killed = f"{mutants} of {mutants} killed, score 100%"
    assert killed in str(report)
    assert killed in report._repr_html_()


# One statement, so that not all mutants are those of loops.
LAX = {"mutants": 6, "unroll": 1, "max_examples": 2}
NOTE = "    {# survives sign, operator: all is allowed here #}\n"


def lax(name: str, folder: Path) -> tuple[Mutation, str]:
    """Return the outcome for a template that allows too much, and the printed report."""
    folder = scaffold(name, folder)
    code = (folder / "template.py").read_text()
    (folder / "template.py").write_text(code.replace("p.power * p.dtype.eps", "5"))
    text = (folder / "kernel.py.j2").read_text()
    (folder / "kernel.py.j2").write_text(
        text.replace("    y[{{ i }}]", f"{NOTE}    y[{{{{ i }}}}]")
    )
    template = tikgen.load_template(folder)
    mark = "    y[i] = scale * x[i] * x[i]\n"
    assert f":\n    {mark}" in tikgen.render(template, unroll=1, arch="cpu").text
    report = brief(template, scripts=folder.parent, **LAX)
    assert report.ok, str(report)
    # Mutants never reach the store or the memo.
    texts = [
        document["text"]
        for path in (default_store().folder / "sources").rglob("*.json")
        if (document := json.loads(path.read_text()).get("content", {})).get("template") == name
        and "text" in document
    ]
    assert all(mark in text for text in texts)
    assert mark in tikgen.render(template, unroll=1, arch="cpu").text
    assert report.score is not None
    assert report.score < 1
    mutation = report.archs[0].mutation
    assert mutation is not None
    return mutation, str(report)


def test_survivors_are_shown_with_their_template_line_and_its_reason(tmp_path: Path) -> None:
    mutation, printed = lax("lax", tmp_path)
    found = [*mutation.survivors, *mutation.explained]
    assert all(s.template_line.startswith("lax/kernel.py.j2:") for s in found)
    shown = r"survived: \w+.*, lax/kernel\.py\.j2:\d+\n +- .*\n +\+ .*\n +in dtype="
    assert re.search(shown, printed)
    assert mutation.explained
    for survivor in mutation.explained:
        assert survivor.kind in ("sign", "operator")
        assert survivor.reason == "all is allowed here"
    others = [survivor for survivor in mutation.survivors if not survivor.reason]
    assert not {"sign", "operator"} & {survivor.kind for survivor in others}
    assert "because all is allowed here" in printed
    # A reason is no excuse: the mutant was not noticed.
    killed = sum(mutation.killed.values())
    assert mutation.counted == killed + len(others) + len(mutation.explained) == 6
    assert mutation.score == killed / 6


@pytest.mark.slow
def test_one_seed_gives_one_mutation_score(tmp_path: Path) -> None:
    first, _ = lax("seeded", tmp_path)
    second = brief("seeded", scripts=tmp_path, **LAX).archs[0].mutation
    assert second is not None
    assert first.survivors == second.survivors


# With one bin nothing depends on the width of a bin: the compiler takes it out.
@pytest.mark.parametrize(
    ("bins", "alike"), [(1, True), pytest.param(2, False, marks=pytest.mark.slow)]
)
def test_what_compiles_to_the_same_code_is_no_mutant(bins: int, alike: bool) -> None:
    from tikgen.lifecycle.ir import optimised_code

    kernel = tikgen.build("histogram", bins=bins, dtype="i32", chunks=1, arch=ARCH)
    changed = kernel.source.text.replace("hi - lo", "hi + lo")
    assert changed != kernel.source.text
    code = optimised_code(kernel, ARCH)
    assert code is not None
    assert (optimised_code(kernel, ARCH, changed) == code) is alike
    assert optimised_code(kernel, ARCH, "this is no Python") is None
    assert optimised_code(kernel, "metal") is None


def test_a_flipped_sign_in_the_documented_template_is_found(affine: Path) -> None:
    text = affine / "kernel.py.j2"
    changed = text.read_text().replace('" + " ~ p.dtype', '" - " ~ p.dtype')
    assert changed != text.read_text()
    text.write_text(changed)
    report = brief(
        tikgen.load_template(affine), max_examples=40, shrink_seconds=0, scripts=affine.parent
    )
    assert [arch.status for arch in report.archs] == ["failed"], str(report)
    assert float(report.archs[0].failure.case.params["offset"]) != 0


def test_an_arch_that_was_named_and_is_missing_exits_with_2() -> None:
    arguments = ["verify", "transpose", "--arch", "metal", "--max-examples", "1"]
    result = CliRunner().invoke(app, [*arguments[:3], "cuda", *arguments[4:]])
    if "passed" not in result.output:
        assert result.exit_code == 2, result.output


def test_a_score_below_the_least_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    from tikgen.verification import ArchReport, Report

    def verify(*_: object, **__: object) -> Report:
        survivor = Survivor("sign", "x/kernel.py.j2:3", "- a\n+ b", {"dim": 1})
        mutation = Mutation(1, {"mismatch": 8, "crash": 1}, (survivor,), kinds={"sign": (9, 10)})
        return Report("transpose", 1, (ArchReport("cpu", 5, 2, mutation=mutation),))

    monkeypatch.setattr("tikgen.verification.verify", verify)

    def exit_code(*arguments: str) -> int:
        return CliRunner().invoke(app, ["verify", "transpose", *arguments]).exit_code

    assert exit_code("--mutants", "10") == 0
    assert exit_code("--mutants", "10", "--min-score", "0.9") == 0
    assert exit_code("--mutants", "10", "--min-score", "0.95") == 1
    assert exit_code("--min-score", "0.95") == 2
    assert exit_code("--mutants", "10", "--min-score", "95") == 2


def test_a_folder_beside_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scaffold("beside", tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["verify", "beside"])
    assert result.exit_code == 2
    assert "./beside" in result.output + (result.stderr if result.stderr_bytes else "")


def test_a_number_of_mutants_that_is_none_is_refused() -> None:
    for wrong in (-1, 2.5, True, None):
        with pytest.raises(ParameterError, match="'mutants' must be an integer"):
            tikgen.verify("transpose", mutants=wrong)

"""Verification passes correct templates, finds faults, and survives crashes."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tikgen
from mutants import CODE, MUTANTS, SMALL, TEXT, WEIGHT, WHOLE, Mutant
from some_cases import examples
from tikgen import Array, DType, Template
from tikgen.errors import ParameterError, TemplateError, UnknownTemplate, VerificationError
from tikgen.verification import Case, Report, verify
from tikgen.verification.process import ArchProcess
from tikgen.verification.search import Search
from tikgen.verification.sharing import shared_arrays, ways_to_share

ARCH = os.environ.get("TIKGEN_TEST_ARCH", "cpu")


def verify_briefly(template, folder: Path, **settings) -> Report:
    """Verify with settings for a test: one arch, no shrinking, scripts in a folder."""
    defaults = {"archs": (ARCH,), "max_examples": examples(40, 15), "seed": 1, "shrink_seconds": 0}
    return verify(template, **(defaults | settings), scripts=folder / "scripts")


@pytest.fixture
def check(tmp_path, one_process):
    return functools.partial(verify_briefly, folder=tmp_path)


def failure_of(report: Report):
    (found,) = report.archs
    assert found.status == "failed", str(report)
    assert not report.ok
    return found.failure


def make_template(folder: Path, name: str, kernel: str, code: str) -> Template:
    (folder / name).mkdir()
    (folder / name / TEXT).write_text(kernel)
    (folder / name / CODE).write_text(code)
    return tikgen.load_template(folder / name)


# Correct templates pass.


def test_a_correct_template_passes_and_leaves_evidence(check):
    report = check("stencil", max_examples=4, **(SMALL | {"boundary": "clamp"}))
    (found,) = report.archs
    assert report.ok, str(report)
    assert found.status == "passed"
    assert found.failure is None
    assert found.examples >= 4
    assert 0 <= found.worst <= 1
    report.raise_for_failure()
    assert "ok" in str(report)
    assert report.to_dict()["archs"][0]["status"] == "passed"


def test_evidence_is_found_by_kernel(check):
    params = {"dim": 1, "dtype": "i32", "order": 2, "boundary": "zero", "spacing": 1.0}
    params |= {"points": None, "update": False, "storage": "ndarray"}
    schedule = {"loop": "rows", "unroll": 2, "block_dim": 0}
    kernel = tikgen.build("stencil", **params, **schedule)
    report = check("stencil", max_examples=3, seed=5, **params, **schedule)
    assert report.ok, str(report)
    assert {each.engine for each in kernel.evidence} <= report.archs[0].launched.keys()
    for evidence in kernel.evidence:
        assert evidence.digest == kernel.digest
        assert (evidence.arch, evidence.template, evidence.seed) == (ARCH, "stencil", 5)
        assert evidence.passed
        assert evidence.examples >= 1
        assert evidence.params["unroll"] == "2"
    # Launches of kernels with the sizes baked in are evidence for those.
    launches = sum(evidence.examples for evidence in kernel.evidence)
    assert 1 <= launches <= report.archs[0].examples


def test_fields_pass(check):
    report = check("stencil", max_examples=3, **(WHOLE | {"storage": "field"}))
    assert report.ok, str(report)


def test_one_seed_gives_one_report(check):
    settings = {"max_examples": 4, "seed": 11} | WHOLE
    one, two = (check("stencil", **settings).archs[0] for _ in range(2))
    assert (one.examples, one.variants, one.worst) == (two.examples, two.variants, two.worst)


def test_a_template_of_a_user_is_verified(check, tmp_path):
    template = make_template(tmp_path, "twice", TWICE_TEXT, TWICE_CODE)
    report = check(template, max_examples=5)
    assert report.ok, str(report)
    assert check("twice", max_examples=2).ok


TWICE_TEXT = """\
import taichi as ti


@ti.kernel
def twice(x: {{ arguments[0].annotation }}, y: {{ arguments[1].annotation }}):
    for i in range(x.shape[0]):
        y[i] = x[i] + x[i]
"""

TWICE_CODE = '''\
import os
import time
from tikgen import Array, DType, ProblemModel, Template, parameter


class Twice(Template):
    """Doubles every element."""

    class Problem(ProblemModel):
        dtype: DType = parameter("element type", DType.f32, choices=("i32", "f32"))

    def arguments(self, p):
        x = Array("x", p.dtype, ("n",))
        return x, Array("y", p.dtype, ("n",), role="out", inplace=True)

    @staticmethod
    def reference(p, x, y):
        return 2 * x.astype(p.dtype.wide)
'''
BEFORE = "return 2 *"


# Faults are found.


# One mistake of each template, and in the stencil one of each kind that verification looks for.
# "make verify" makes all of them.
QUICK = {
    "stencil": {
        "write outside", "halo overwritten", "uninitialised output", "input changed",
        "compile error", "f32 literal in f64", "wrong neighbour",
    },
    "scan": {"workspace taken for zeros"},
    "reduce": {"wrong place"},
    "gemm": {"steps left over missed"},
    "spmv": {"last entry missed"},
    "transpose": {"axes swapped back"},
    "map": {"first element missed"},
    "histogram": {"bins not cleared"},
    "update": {"part begins anew at each point"},
}  # fmt: skip


def marks(mutant: Mutant) -> list[pytest.MarkDecorator]:
    return [] if mutant.defect in QUICK[mutant.template] else [pytest.mark.slow]


def test_the_quick_mistakes_exist():
    names = {(mutant.template, mutant.defect) for mutant in MUTANTS}
    assert names >= {(name, defect) for name, defects in QUICK.items() for defect in defects}


@pytest.mark.some
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_what_a_mutant_replaces_still_stands_in_its_template(tmp_path, mutant):
    mutant.make(tmp_path)


@pytest.mark.some
@pytest.mark.parametrize("mutant", [pytest.param(m, marks=marks(m)) for m in MUTANTS], ids=str)
def test_a_mutant_is_caught(check, tmp_path, mutant):
    if mutant.defect == "write outside" and ARCH != "cpu":
        pytest.skip("a device array has no memory around it that could be looked at")
    failure = failure_of(check(mutant.make(tmp_path), **mutant.params))
    # A kernel that reads outside of its arrays may crash, and does where memory there is fenced.
    may_crash = mutant.defect in ("edge taken for interior", "axes swapped back")
    if not ((may_crash or failure.case.container == "fenced") and failure.outcome.kind == "crash"):
        assert mutant.found in str(failure)
        assert failure.outcome.kind in ("mismatch", "error")


def test_a_failure_is_shrunk_to_the_smallest_variant(check, tmp_path):
    mutant = Mutant("stencil", "shrunk", TEXT, WEIGHT, "work.literal(weight + 1) ~")
    params = {k: v for k, v in WHOLE.items() if k not in ("order", "unroll")}
    case = failure_of(check(mutant.make(tmp_path), shrink_seconds=600, **params)).case
    assert case.params["unroll"] == 1
    assert case.params["order"] == 2
    assert not case.params["update"]
    assert case.sizes == {"n0": 1}
    assert case.container == "numpy"
    assert case.data == "whole"


def test_nothing_is_drawn_once_the_time_to_shrink_is_over(check, tmp_path, monkeypatch):
    checked = []
    check_case = Search._check

    def note(search, case):
        checked.append(case)
        check_case(search, case)

    monkeypatch.setattr(Search, "_check", note)
    text = TWICE_TEXT.replace("x[i] + x[i]", "x[i]")
    template = make_template(tmp_path, "once", text, TWICE_CODE)
    failure = failure_of(check(template))
    assert checked[-1] == failure.case


def test_the_script_fails_until_the_template_is_right(check, tmp_path, capfd):
    template = make_template(tmp_path, "thrice", TWICE_TEXT.replace("x[i] +", "2 * x[i] +"), CODE2)
    failure = failure_of(check(template, max_examples=5))
    assert f"thrice failed on {ARCH}" in capfd.readouterr().err
    run = [sys.executable, str(failure.script)]
    broken = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert broken.returncode == 1, broken.stderr
    assert failure.outcome.message in broken.stdout
    (tmp_path / "thrice" / TEXT).write_text(TWICE_TEXT)
    fixed = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert fixed.returncode == 0, fixed.stderr
    assert "agrees" in fixed.stdout


CODE2 = TWICE_CODE.replace("Twice", "Thrice")


def test_evidence_records_failures(check, tmp_path):
    template = make_template(
        tmp_path, "half", TWICE_TEXT.replace("x[i] + x[i]", "x[i]"), TWICE_CODE
    )
    failure = failure_of(check(template, max_examples=3))
    (evidence,) = tikgen.build(template, **failure.case.params).evidence
    assert not evidence.passed


def test_raise_on_failure_raises_with_the_script(check, tmp_path):
    template = make_template(
        tmp_path, "wrong", TWICE_TEXT.replace("x[i] + x[i]", "x[i]"), TWICE_CODE
    )
    with pytest.raises(VerificationError, match="mismatch: y") as caught:
        check(template, max_examples=3, raise_on_failure=True)
    assert Path(caught.value.script).is_file()


def test_an_output_in_place_is_tried(check, tmp_path):
    text = TWICE_TEXT.replace("y[i] = x[i] + x[i]", "y[i] = x[i]\n        y[i] += x[i]")
    assert check(make_template(tmp_path, "own", text, TWICE_CODE), max_examples=5).ok
    zeroed = "    for i in range(x.shape[0]):\n        y[i] = 0\n    for"
    text = TWICE_TEXT.replace("    for", zeroed)
    failure = failure_of(check(make_template(tmp_path, "shared", text, TWICE_CODE)))
    assert failure.case.inplace == {"y": "x"} and ", in place (y is x)" in str(failure.case)


def test_an_output_in_place_is_tried_with_every_input(check, tmp_path):
    other = 'Array("x", p.dtype, ("n",)), Array("b", p.dtype, ("n",))'
    code = TWICE_CODE.replace('return x, Array("y"', 'return *x, Array("y"')
    code = code.replace('Array("x", p.dtype, ("n",))', other)
    code = code.replace("(p, x, y):", "(p, x, b, y):").replace("p.dtype.wide)", "p.dtype.wide) + b")
    text = TWICE_TEXT.replace("x[i] + x[i]", "x[i] + x[i]\n    for i in x:\n        y[i] += b[i]")
    text = text.replace("y: {{", "b: {{ arguments[1].annotation }}, y: {{")
    text = text.replace("y: {{ arguments[1]", "y: {{ arguments[2]")
    failure = failure_of(check(make_template(tmp_path, "second", text, code)))
    assert failure.case.inplace == {"y": "b"}
    assert Case.from_line(failure.case.line).inplace == {"y": "b"}


def test_ways_to_share_hold_every_pair_of_equal_arrays():
    def array(name, n="n", **kwargs):
        return Array(name, DType.f32, (n,), **kwargs)

    given = [array("a"), array("b"), array("c", "m"), Array("d", DType.f64, ("n",))]
    given += [array("y", role="out", inplace=True), array("z", role="inout", inplace=True)]
    one, two = ways_to_share(given, {"n": 4, "m": 5})
    assert one == {"y": "a", "z": "b"} and two == {"y": "b", "z": "a"}
    ways = ways_to_share(given, {"n": 4, "m": 4})
    assert {pair for way in ways for pair in way.items()} == {
        (name, other) for name in "yz" for other in "abc"
    }
    assert shared_arrays(given, {"n": 4, "m": 5}, {"y": "c", "z": "b"}) == {"z": "b"}
    assert shared_arrays(given, {"n": 4, "m": 5}, wanted=True) == one
    assert ways_to_share(given[:4], {"n": 4, "m": 5}) == []


# Crashes and hangs are failures like any other.

CRASHES = {
    "abort": ("os.abort()", "SIGABRT"),
    "fault": ("os.kill(os.getpid(), 11)", "SIGSEGV"),
}


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_is_reported_with_its_variant(check, tmp_path, crash):
    statement, name = CRASHES[crash]
    code = TWICE_CODE.replace(BEFORE, f"len(x) > 1 and {statement}\n        {BEFORE}")
    template = make_template(tmp_path, crash, TWICE_TEXT, code)
    failure = failure_of(check(template, max_examples=10, dtype="i32"))
    assert failure.outcome.kind == "crash"
    assert name in failure.outcome.message
    assert failure.case.sizes["n"] > 1
    assert "dtype='i32'" in str(failure)


@pytest.mark.skipif(ARCH != "cpu", reason="only there does it kill the process")
def test_an_integer_division_by_zero_in_the_kernel_is_reported(check, tmp_path):
    text = TWICE_TEXT.replace("x[i] + x[i]", "x[i] // (x.shape[0] // 1000)")
    template = make_template(tmp_path, "division", text, TWICE_CODE)
    failure = failure_of(check(template, max_examples=3, dtype="i32"))
    assert failure.outcome.kind == "crash"
    assert "SIGFPE" in failure.outcome.message


def test_a_hanging_launch_is_reported(check, tmp_path):
    code = TWICE_CODE.replace(BEFORE, f"time.sleep(3600)\n        {BEFORE}")
    template = make_template(tmp_path, "hanging", TWICE_TEXT, code)
    failure = failure_of(check(template, max_examples=3, timeout=1))
    assert failure.outcome.kind == "timeout"
    assert "1 s" in failure.outcome.message


def test_a_process_that_died_is_replaced(tmp_path):
    code = TWICE_CODE.replace(BEFORE, f"len(x) > 1 and os.abort()\n        {BEFORE}")
    template = make_template(tmp_path, "dying", TWICE_TEXT, code)
    cases = [
        Case(template.name, str(template.folder), ARCH, {"dtype": "i32"}, {"n": n})
        for n in (1, 2, 1)
    ]
    with ArchProcess(ARCH, timeout=60) as process:
        assert process.start() == ""
        assert [process.run(case).kind for case in cases] == ["passed", "crash", "passed"]


def test_a_reference_that_raises_is_reported(check, tmp_path):
    code = TWICE_CODE.replace(BEFORE, f"x[len(x)]\n        {BEFORE}")
    failure = failure_of(check(make_template(tmp_path, "raising", TWICE_TEXT, code)))
    assert failure.outcome.kind == "error"
    assert "IndexError" in failure.outcome.message
    assert "template.py" in failure.outcome.message


@pytest.mark.skipif(sys.platform == "darwin", reason="metal works there")
def test_an_absent_arch_is_not_passed(check):
    report = check("stencil", archs=("metal",), max_examples=1)
    (found,) = report.archs
    assert found.status == "absent"
    assert "metal" in found.absent
    assert not report.ok
    with pytest.raises(VerificationError, match="Nothing was verified"):
        report.raise_for_failure()


def test_what_an_arch_cannot_do_is_skipped_with_its_reason(check, tmp_path):
    code = TWICE_CODE + (
        "\n    def unsupported(self, p, arch):\n"
        "        return 'it has no floats' if p.dtype.is_float else None\n"
    )
    report = check(make_template(tmp_path, "integral", TWICE_TEXT, code), max_examples=6)
    assert report.ok
    assert report.archs[0].skipped["it has no floats"] >= 1
    nothing = check("integral", max_examples=3, dtype="f32")
    assert nothing.archs[0].status == "skipped"
    assert not nothing.ok


# It works from any program.

CALLER = """
import taichi as ti
ti.init(arch=ti.cpu, log_level=ti.ERROR)
import tikgen
from tikgen.verification import verify
report = verify("stencil", archs=({arch!r},), max_examples=1, seed=0, **{params})
print("ok" if report.ok else report)
"""


def test_it_runs_from_standard_input_beside_an_initialised_taichi(tmp_path):
    run = subprocess.run(
        [sys.executable, "-"], input=CALLER.format(arch=ARCH, params=WHOLE), cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "ok", run.stdout


# Bad input.


def test_bad_input_is_refused(check, monkeypatch):
    with pytest.raises(UnknownTemplate, match="stencil"):
        check("stencl")
    with pytest.raises(ParameterError, match="'dime' is unknown"):
        check("stencil", dime=1)
    with pytest.raises(ParameterError, match="'archs' takes a sequence of cpu"):
        check("stencil", archs="cpu")
    with pytest.raises(ParameterError, match="'archs'"):
        check("stencil", archs=("x64",))
    with pytest.raises(ParameterError, match="'archs' takes a sequence of cpu"):
        check("stencil", archs=None)
    for wrong in (0, -1, 2.5, "9", None, True):
        with pytest.raises(ParameterError, match="'max_examples' must be a positive integer"):
            check("stencil", max_examples=wrong)
    with pytest.raises(ParameterError, match="'dim' takes an integer from 1 to 3; got 7"):
        check("stencil", max_examples=1, dim=7)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(tikgen.TikgenError, match=r"tikgen\[verify\]"):
        check("stencil")


def test_a_required_parameter_that_cannot_be_drawn_is_named(check, tmp_path):
    code = TWICE_CODE.replace(
        "dtype: DType", 'what: Expression = parameter("arithmetic")\n        dtype: DType'
    ).replace("import Array,", "import Array, Expression,")
    template = make_template(tmp_path, "required", TWICE_TEXT, code)
    with pytest.raises(TemplateError, match="required parameter 'what'"):
        check(template)
    assert check(template, max_examples=1, what="a + b").ok


def test_rich_shows_the_report(check):
    from rich.console import Console

    report = check("stencil", max_examples=1, **(SMALL | {"boundary": "zero"}))
    with contextlib.closing(open(os.devnull, "w")) as nowhere:  # noqa: PTH123
        console = Console(file=nowhere, record=True, width=120)
        console.print(report)
    assert "passed" in console.export_text()

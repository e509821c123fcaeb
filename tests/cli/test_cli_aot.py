"""The commands export and bundle: what they print, write and refuse, and their exit codes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from msgspec.structs import replace
from typer.testing import CliRunner

import tikgen
from conftest import ARCH
from tikgen.aot.bundle import Bundle
from tikgen.aot.bundle_shown import rows_of
from tikgen.aot.exporting.staging import files_in
from tikgen.aot.manifest import encode
from tikgen.children.process import ChildProcess
from tikgen.cli import app
from tikgen.cli.export_command import parse_combinations, parse_words
from tikgen.machine import devices
from tikgen.machine.devices import host_arch
from tikgen.tuning.sweeps.table import SweepResult
from tikgen.verification.case import literal
from tuning_templates import DOUBLE_CODE, DOUBLE_TEXT, make

pytest_plugins = ["one_compiler"]
pytestmark = [pytest.mark.once, pytest.mark.usefixtures("one_compiler")]

TO = host_arch() if ARCH == "cpu" else ARCH
EXPR = "expr=y = a*x"
# What the bundle of these tests holds, as words of a command line.
WORDS = ("map", EXPR, "dtype=f32,i64")
F32, I64 = "map_y_a_x_dim1_f32", "map_y_a_x_dim1_i64"


def run(*arguments: object, code: int = 0) -> str:
    """Run a command in this process and return what it printed, both streams."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def squeezed(text: str) -> str:
    """Return a text without the frames and line breaks of a terminal."""
    return " ".join(text.replace("│", " ").split())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Export a bundle; return it and what the command said."""
    path = tmp_path_factory.mktemp("bundles") / "scaled"
    settings = ("--verify", "--max-examples", 2, "--examples", 2, "--seed", 5)
    return path, run("export", *WORDS, "--to", path, "--arch", ARCH, *settings)


@pytest.fixture
def bundle(shared: tuple[Path, str], tmp_path: Path) -> Path:
    """Return a copy of the bundle, which a test may spoil."""
    shutil.copytree(shared[0], tmp_path / "scaled")
    return tmp_path / "scaled"


def with_code(bundle: Path, code: str) -> None:
    """Put code in front of every source of a bundle, as an attacker would: with the right digests.

    Its kernels become users' own, so that their sources are what they are proved against.
    """
    said = Bundle(bundle).manifest
    for path in bundle.glob("sources/*.py"):
        path.write_text(code + path.read_text())
    kernels = {name: replace(kernel, template="") for name, kernel in said.kernels.items()}
    said = replace(said, kernels=kernels, files=files_in(bundle))
    (bundle / "manifest.json").write_bytes(encode(said))


def test_words_are_templates_with_their_parameters() -> None:
    words = ["map", "expr=y = 2*x", "dim=1,2", "./mine", "reduce", "op=max"]
    assert parse_words(words) == [
        ("map", ["expr=y = 2*x", "dim=1,2"]),
        ("./mine", []),
        ("reduce", ["op=max"]),
    ]
    with pytest.raises(typer.BadParameter, match="dim=2 comes first"):
        parse_words(["dim=2", "map"])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], [{}]),
        (["dim=2", "order=4"], [{"dim": 2, "order": 4}]),
        (["dim=2,3", "dtype=f32"], [{"dim": 2, "dtype": "f32"}, {"dim": 3, "dtype": "f32"}]),
        (["dtype=[f32,f64]"], [{"dtype": "f32"}, {"dtype": "f64"}]),
        (["spacing=(1.0, 2.0)"], [{"spacing": (1.0, 2.0)}]),
        (["expr=z = max(x, y)"], [{"expr": "z = max(x, y)"}]),
        (["points={(0, 1): 0.5}"], [{"points": {(0, 1): 0.5}}]),
    ],
)
def test_commas_outside_of_brackets_make_an_axis(given: list[str], found: list[Any]) -> None:
    assert list(parse_combinations("stencil", given)) == found


@pytest.mark.arch
def test_export_prints_the_contents_of_the_bundle(shared: tuple[Path, str]) -> None:
    path, printed = shared
    assert set(tikgen.aot.Bundle(path).kernels) == {F32, I64}
    lines = printed.splitlines()
    assert lines[0].startswith(f"{path}: bundle scaled, tikgen ")
    assert lines[1].split() == ["name", "takes", "archs", "proof"]
    for name, line in zip((F32, I64), lines[2:], strict=True):
        assert line.startswith(name)
        assert "2 runs against reference" in line
        assert line.endswith("new")


@pytest.mark.arch
def test_export_again_replaces_and_reuses(bundle: Path) -> None:
    told = run("export", "map", EXPR, "dtype=f32,q8", "--to", bundle, "--arch", ARCH, code=1)
    assert "unchanged" in told
    assert "failed: map(expr=y = a*x, dtype=q8) on every arch: map: parameter 'dtype'" in told
    assert f"no longer in it: {I64}; an export replaces the whole bundle" in told
    assert tikgen.aot.Bundle(bundle).kernels == (F32,)
    words = ("export", *WORDS, "-p", "dim=1", "--to", bundle, "--arch", ARCH, "--json")
    found = json.loads(run(*words))
    assert found["kernels"] == [F32, I64]
    assert found["reused"] == [[F32, TO]]
    assert found["archs"] == [TO]
    assert found["failures"] == found["dropped"] == []


@pytest.mark.arch
def test_export_takes_the_fastest_kernels_of_a_saved_sweep(
    tmp_path: Path, one_process: None
) -> None:
    row = {"template": "map", "arch": ARCH, "shape": "64", "baked": False}
    measured = {"digest": "", "kind": "timed", "message": ""}
    rows = []
    for unroll, seconds in ((2, 2.0), (8, 1.0)):
        given = {"loop": "rows", "items": 1, "unroll": unroll}
        params = tikgen.build("map", expr="y = a*x", **given).params
        cells = {name: literal(value) for name, value in params.items()}
        rows.append(row | cells | measured | {"seconds": seconds})
    SweepResult(rows).save(tmp_path / "sweep.json")
    arguments = ("--to", tmp_path / "fast", "--arch", ARCH, "--examples", 1)
    run("export", "--from", tmp_path / "sweep.json", *arguments, "--verify", "--max-examples", 1)
    (exported,) = tikgen.aot.Bundle(tmp_path / "fast").manifest.kernels.values()
    assert exported.builds[TO].schedule["unroll"] == "8"


@pytest.mark.arch
def test_export_makes_a_graph_of_a_recording(
    shared: tuple[Path, str], ti_arch: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.random(29, dtype=np.float32)
    y = np.full_like(x, np.nan)
    kernel = tikgen.build("map", expr="y = a*x", schedule={})
    with tikgen.aot.record(tmp_path / "calls.yml"):
        kernel(3.0, x, y)
    arguments = ("--recording", tmp_path / "calls.yml", "--graph", "triple", "--arch", ti_arch)
    run("export", *arguments, "--to", tmp_path / "recorded.zip", "--examples", 1)
    with tikgen.aot.load(tmp_path / "recorded.zip") as runtime:
        runtime.graphs["triple"](x, y)
    np.testing.assert_allclose(y, 3 * x, rtol=1e-6)


@pytest.mark.arch
def test_export_refuses_what_has_no_evidence(tmp_path: Path) -> None:
    words = ("map", "expr=y = x + 17", "--to", tmp_path / "none", "--arch", ARCH)
    assert "its code was never verified on" in run("export", *words, code=1)
    assert not (tmp_path / "none").exists()
    words = ("map", "expr=y = x + 17", "dtype=q8,f32", *words[2:])
    told = run("export", *words, code=1)
    assert told.startswith("failed: map(expr=y = x + 17, dtype=q8) on every arch: map: parameter")
    assert "its code was never verified on" in told
    folder = tmp_path / "double"
    make(tmp_path, "double", DOUBLE_TEXT, DOUBLE_CODE)
    words = (folder, "--to", tmp_path / "none", "--arch", ARCH)
    told = run("export", *words, code=1)
    assert f"before, with tikgen.verify(tikgen.load_template({str(folder)!r}), archs=" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dim=2",), "dim=2 comes first; name its template before it"),
        ((), "name templates, or a sweep by --from, or a --recording: one of them"),
        (("map", "--recording", __file__), "one of them"),
        (("map", "--graph", "step"), "--graph needs a --recording"),
        (("--recording", __file__, "--shape", "8"), "need named templates"),
        (("--from", "absent.json"), "'absent.json' does not exist"),
        (("mapp",), "Did you mean 'map'?"),
        (("stencil", "dim=7,8"), "parameter 'dim' takes an integer from 1 to 3; got 7"),
        (("stencil", "dim=1", "--arch", "gpu"), "'gpu' is not one of"),
    ],
)
def test_wrong_usage_of_export(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert message in squeezed(run("export", *arguments, "--to", tmp_path / "none", code=2))
    assert not (tmp_path / "none").exists()


@pytest.mark.arch
def test_rows_and_cards_name_archs_in_the_order_of_the_bundle(shared: tuple[Path, str]) -> None:
    bundle = tikgen.aot.Bundle(shared[0])
    card = bundle._repr_html_()
    assert f"<code>{F32}</code>" in card
    assert f'<td class="whole">{TO}</td>' in card
    (build,) = bundle.manifest.kernels[F32].builds.values()
    kernel = replace(bundle.manifest.kernels[F32], builds={"vulkan": build, "x64": build})
    manifest = replace(bundle.manifest, archs=("x64", "vulkan"), kernels={F32: kernel})
    assert [row[2] for row in rows_of(manifest)] == ["x64, vulkan"]


@pytest.mark.arch
def test_show_prints_kernels_and_families(shared: tuple[Path, str]) -> None:
    text = run("bundle", "show", shared[0])
    assert f"{F32}  a: f32, x: f32[n0], y: f32[n0] -> written" in text
    assert f"family map_y_a_x: {F32}, {I64}" in text
    shown = run("bundle", "show", shared[0], "--json")
    assert shown == (shared[0] / "manifest.json").read_text()


@pytest.mark.arch
def test_verify_proves_again_and_finds_a_changed_byte(bundle: Path) -> None:
    assert f"proved again on {TO}" in run("bundle", "verify", bundle, "--prove", "--arch", ARCH)
    path = next((bundle / TO / F32).rglob("*.*"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    inner = path.relative_to(bundle).as_posix()
    assert f"has a file {inner} that differs" in run("bundle", "verify", bundle, code=1)
    found = json.loads(run("bundle", "verify", bundle, "--json", code=1))
    assert len(found["problems"]) == 1
    (bundle / "manifest.json").write_text("{}")
    assert "damaged manifest.json" in run("bundle", "verify", bundle, code=1)


@pytest.mark.arch
def test_verify_without_proof_starts_nothing(
    shared: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(ChildProcess, "start", lambda self: started.append("a process"))
    monkeypatch.setattr(devices, "problem_with", lambda arch: started.append(arch))
    found = json.loads(run("bundle", "verify", shared[0], "--json"))
    assert found == {"problems": [], "proved": [], "not_proved": {}}
    assert not started


@pytest.mark.arch
def test_verify_executes_the_python_of_a_bundle_only_to_prove(bundle: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    with_code(bundle, f"open({str(told)!r}, 'a').write('ran')\n")
    assert "not proved again" in run("bundle", "verify", bundle)
    assert Bundle(bundle).verify() == ()
    assert not told.exists()
    assert f"runs the code of {bundle}" in run("bundle", "verify", bundle, "--prove")
    assert told.exists(), "the source does not tell that it ran, so the test proves nothing"


def test_verify_takes_archs_only_to_prove(tmp_path: Path) -> None:
    assert "--prove" in run("bundle", "verify", tmp_path, "--arch", ARCH, code=2)


@pytest.mark.arch
@pytest.mark.parametrize("arch", ["arm64", "vulkan" if ARCH == "cuda" else "cuda"])
def test_verify_refuses_an_arch_that_the_bundle_lacks(shared: tuple[Path, str], arch: str) -> None:
    told = run("bundle", "verify", shared[0], "--prove", "--arch", arch, code=2)
    assert "has nothing for" in told


@pytest.mark.arch
def test_run_launches_on_files_and_saves(
    shared: tuple[Path, str], tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.integers(-(2**40), 2**40, 37)
    np.save(tmp_path / "x.npy", x)
    values = (f"x={tmp_path / 'x.npy'}", "y=zeros:37", f"a={2**41}")
    arguments = ("bundle", "run", shared[0], I64, *values, "--repeat", 2)
    text = run(*arguments, "--save", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        assert out.files == ["y"]
        np.testing.assert_array_equal(out["y"], x * 2**41)
    assert f"{I64} on {TO}:" in text
    assert "(median of 2)" in text
    told = json.loads(run(*arguments, "--json"))
    y = told["arrays"]["y"]
    assert (y["dtype"], y["shape"]) == ("int64", [37])
    assert (y["min"], y["max"]) == ((x * 2**41).min(), (x * 2**41).max())
    assert told["seconds"] > 0


@pytest.mark.arch
def test_run_leaves_no_half_of_a_file(
    shared: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Any, **arrays: Any) -> None:
        file.write(b"PK")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)
    path = tmp_path / "out.npz"
    arguments = (F32, "a=1", "x=zeros:3", "y=zeros:3", "--repeat", 1, "--save", path)
    told = run("bundle", "run", shared[0], *arguments, code=1)
    assert f"error: the disk is full: {path}" in told
    assert not path.exists()


@pytest.mark.arch
def test_run_repeats_random_inputs_by_their_seed(shared: tuple[Path, str]) -> None:
    arguments = ("bundle", "run", shared[0], F32, "a=-2", "x=random:41", "y=zeros:41", "--json")
    first, again, other = (
        json.loads(run(*arguments, "--repeat", 1, "--seed", seed)) for seed in (3, 3, 4)
    )
    assert first["arrays"] == again["arrays"]
    assert first["arrays"]["y"]["sha256"] != other["arrays"]["y"]["sha256"]
    assert first["arrays"]["y"]["min"] < -1 < 1 < first["arrays"]["y"]["max"]


@pytest.mark.arch
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mapp",), "has no kernel or graph 'mapp'"),
        (("map_y_a_x",), f"'map_y_a_x'. It is the family of {F32}, {I64}: name one of them; in"),
        ((F32, "x=zeros:5", "y=zeros:5"), "argument a is missing"),
        ((F32, "a"), "argument 'a' has no value; write a=VALUE"),
        ((F32, "a=1", "a=2"), "argument 'a' is given twice"),
        ((F32, "a=b", "x=zeros:5", "y=zeros:5"), "takes a number of dtype f32; got 'b'"),
        ((F32, "b=1", "x=zeros:5", "y=zeros:5"), "has no argument 'b'"),
        ((F32, "x=absent.npy"), "absent.npy cannot be read: No such file or directory"),
        ((F32, "x=text.npy"), "text.npy cannot be read"),
        ((F32, "x=3"), "takes an array, as x=field.npy, x=random:64x64, 'x=random(0,10):64x64' or"),
        ((F32, "x=random(1,0):5"), "takes random(LOW,HIGH), where LOW < HIGH are finite numbers"),
        ((F32, "x=zeros:0"), "argument 'x' takes a shape of positive integers, of 2013265920"),
        ((F32, "y=random:-2x3"), "at most, such as random:64x64; got 'random:-2x3'"),
        ((F32, "a=1", "x=zeros:5", "y=zeros:6"), "takes shape (n0,) where n0 = 5; got (6,)"),
        ((F32, "a=1", "x=zeros:5", "y=f64.npy"), "takes dtype f32; got f64"),
        ((F32, "--save", "out.txt"), "name a .npz file"),
        ((F32, "--save", "absent/out.npz"), "absent is not a folder"),
        ((F32, "--arch", "gpu"), "there is no such arch"),
    ],
)
def test_run_refuses_what_does_not_fit(
    shared: tuple[Path, str],
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.npy").write_text("no array")
    np.save("f64.npy", np.zeros(5))
    assert message in squeezed(run("bundle", "run", shared[0], *arguments, code=2))


@pytest.mark.arch
def test_show_and_run_do_not_import_taichi(shared: tuple[Path, str]) -> None:
    code = """
import sys
from typer.testing import CliRunner
from tikgen.cli import app
for arguments in (["show", sys.argv[1]], ["run", *sys.argv[1:]]):
    result = CliRunner().invoke(app, ["bundle", *arguments])
    assert result.exit_code == 0, result.output
assert "taichi" not in sys.modules
"""
    arguments = [str(shared[0]), F32, "a=2", "x=random:3", "y=zeros:3", "--repeat", "1"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr

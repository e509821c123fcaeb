"""Why a kernel was built or compiled: each cause is provoked, and named with both values."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti
from typer.testing import CliRunner

import tikgen
from test_render import CODE, TEXT, folder_with
from tikgen import engines
from tikgen.cli import app
from tikgen.errors import ArgumentError, ParameterError, UnknownTemplate

UNDECLARED = """
import taichi as ti


@ti.kernel
def fill(x: ti.types.ndarray(), n: ti.template(), s: ti.f32):
    for i in range(x.shape[0]):
        x[i] = n * s
"""


@pytest.fixture(autouse=True)
def _nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path / "store"))
    tikgen.clear()
    yield
    tikgen.clear()


def fields(cause: Any) -> dict[str, tuple[str, str]]:
    """Return the differences, after checking that the paragraph says each of them."""
    assert "\n" not in str(cause)
    for difference in cause.differences:
        said = f"{difference.field} is {difference.now}, not {difference.before}"
        assert said in str(cause)
    return {d.field: (d.now, d.before) for d in cause.differences}


def test_a_parameter_that_differs_is_named_with_both_values() -> None:
    first = tikgen.build("stencil", dim=1, unroll=2)
    assert "the first variant of stencil that is known" in str(tikgen.why(first))
    tikgen.build("stencil", dim=2, dtype="f64", unroll=2)
    third = tikgen.build("stencil", dim=1, order=4, unroll=2)
    cause = tikgen.why(third)
    assert fields(cause) == {"problem parameter order": ("4", "2")}
    assert f"the nearest, {first.name} (built in this process), differs in 1 field" in str(cause)
    fourth = tikgen.build("stencil", dim=1, unroll=4)
    assert fields(tikgen.why(fourth)) == {"schedule parameter unroll": ("4", "2")}
    assert "Its schedule is given." in str(tikgen.why(fourth))
    assert "Nothing of it was compiled yet" in str(tikgen.why(fourth))


def test_a_variant_that_was_not_built_yet_is_explained() -> None:
    tikgen.build("stencil", dim=1)
    cause = tikgen.why("stencil", dim=1, boundary="clamp")
    assert "would be built" in str(cause)
    assert fields(cause) == {"problem parameter boundary": ("'clamp'", "'interior'")}
    baked = tikgen.why("stencil", dim=1, shape=(40,))
    assert fields(baked)["size n0"] == ("40", "unset")
    same = tikgen.why("stencil", dim=1, order=2)
    assert "build looks it up" in str(same)
    assert not same.differences


def test_parameters_of_the_same_code_share_a_kernel(tmp_path: Path) -> None:
    text = TEXT.replace("{{ p.n }}", "{{ p.n // 10 }}")
    template = tikgen.load_template(folder_with(tmp_path, text, name="ramp"))
    kernel = tikgen.build(template, n=10)
    would_be = tikgen.why("ramp", n=12)
    assert "It renders to the code of ramp_n10" in str(would_be)
    assert "nothing would be loaded or compiled for it" in str(would_be)
    assert fields(would_be) == {"problem parameter n": ("12", "10")}
    assert tikgen.build(template, n=12) is kernel
    known = str(tikgen.why("ramp", n=12))
    assert "ramp_n12 is built already" in known
    assert "nothing was loaded or compiled for it" in known
    shared = str(tikgen.why(kernel))
    assert "It serves further parameters" in shared
    assert "problem parameter n is 12, not 10" in shared


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("kernel.py.j2", "+=", "-="),
        ("template.py", "Demonstrates", "Shows"),
        ("_shared/own.j2", "nothing", "something"),
    ],
)
def test_a_file_that_changed_is_named(tmp_path: Path, file: str, old: str, new: str) -> None:
    text = '#% import "_shared/own.j2" as own\n' + TEXT
    folder = folder_with(tmp_path, text, CODE, name="edited")
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "own.j2").write_text("{# Says nothing. #}\n")
    tikgen.build(tikgen.load_template(folder))
    tikgen.clear()
    path = tmp_path / file if file.startswith("_") else folder / file
    path.write_text(path.read_text().replace(old, new))
    cause = tikgen.why(tikgen.load_template(folder))
    assert list(fields(cause)) == [f"content of {file}"]
    assert "built by an earlier process" in str(cause)


def test_a_variant_of_an_earlier_process_is_known() -> None:
    tikgen.build("stencil", dim=1)
    tikgen.clear()
    cause = tikgen.why("stencil", dim=1)
    assert "would be built anew: it is known, but built by an earlier process" in str(cause)
    assert fields(tikgen.why("stencil", dim=1, order=6)) == {"problem parameter order": ("6", "2")}


def test_another_signature_names_the_argument(ti_arch: str) -> None:
    kernel = tikgen.from_string(UNDECLARED)
    kernel(np.zeros(3, np.float32), 4, 1.0)
    once = tikgen.why(kernel)
    assert "Taichi compiled it once" in str(once)
    assert f"on {ti_arch}" in str(once)
    kernel(np.zeros(7, np.float32), 4, 2.0)
    assert str(tikgen.why(kernel)) == str(once)
    kernel(np.zeros(3, np.float32), 5, 1.0)
    assert "2 times" in str(tikgen.why(kernel))
    assert fields(tikgen.why(kernel)) == {"argument n": ("5", "4")}
    kernel(np.zeros(3, np.int32), 5, 1.0)
    assert fields(tikgen.why(kernel)) == {"argument x": ("i32[1d] NumPy", "f32[1d] NumPy")}


def test_another_init_names_its_number_and_its_options(ti_arch: str) -> None:
    from conftest import init_taichi

    init_taichi()
    kernel, x, y = tikgen.build("stencil", dim=1), np.zeros(9, np.float32), np.zeros(9, np.float32)
    kernel(x, y)
    try:
        ti.init(getattr(ti, ti_arch), fast_math=False, log_level=ti.ERROR, offline_cache=False)
        due = tikgen.why(kernel)
        assert "The next launch compiles it again, because ti.init was called again" in str(due)
        kernel(x, y)
        done = tikgen.why(kernel)
        assert fields(done) == fields(due)
        assert fields(done)["fast_math of ti.init"] == ("False", "True")
        now, before = map(int, fields(done)["number of the ti.init"])
        assert now == before + 1
        assert "2 times" in str(done)
        ti.reset()
        assert "Taichi is not initialised now" in str(tikgen.why(kernel))
    finally:
        init_taichi()


def test_code_from_the_disk_is_mentioned(ti_arch: str, tmp_path: Path) -> None:
    from conftest import init_taichi

    def launch() -> str:
        ti.init(getattr(ti, ti_arch), log_level=ti.ERROR, offline_cache_file_path=str(tmp_path))
        kernel(np.zeros(9, np.float32), np.zeros(9, np.float32))
        return str(tikgen.why(kernel))

    kernel = tikgen.build("stencil", dim=1, order=6)
    try:
        assert "nothing of it was in a cache" in launch()
        again = launch()
        assert "2 times" in again
        is_direct = engines.is_direct(engines.DEFAULT, ti_arch)
        place = "the store" if is_direct else "Taichi's cache on disk"
        assert f"whose code came from {place}" in again
    finally:
        init_taichi()


def test_an_unloaded_kernel_is_mentioned(ti_arch: str) -> None:
    kernel = tikgen.build("stencil", dim=1)
    kernel.unload()
    assert "It was unloaded since: build it again." in str(tikgen.why(kernel))


def test_a_kernel_of_a_script_is_explained(ti_arch: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNDECLARED)
    fill = runpy.run_path(str(script))["fill"]
    assert "compiled nothing of fill" in str(tikgen.why(fill))
    fill(np.zeros(3, np.float32), 1, 1.0)
    assert "compiled fill once" in str(tikgen.why(fill))
    fill(np.zeros(3, np.float32), 2, 1.0)
    assert fields(tikgen.why(fill)) == {"argument n": ("2", "1")}


def test_bad_questions_get_clear_answers() -> None:
    with pytest.raises(UnknownTemplate, match="'stensil'"):
        tikgen.why("stensil")
    with pytest.raises(ParameterError, match="bla"):
        tikgen.why("stencil", bla=1)
    with pytest.raises(ArgumentError, match="takes a kernel or the name of a template; got int"):
        tikgen.why(3)
    with pytest.raises(ArgumentError, match="parameters go with the name of a template"):
        tikgen.why(tikgen.build("stencil"), dim=1)


def test_the_command_names_differences_from_the_store() -> None:
    tikgen.build("stencil", dim=1, unroll=2)
    tikgen.clear()
    shown = CliRunner().invoke(app, ["why", "stencil", "-p", "dim=1", "-p", "unroll=8"])
    assert shown.exit_code == 0
    assert re.search("schedule parameter unroll is 8, not 2", shown.stdout)
    data = CliRunner().invoke(app, ["why", "stencil", "-p", "dim=1", "-p", "unroll=8", "--json"])
    assert '"now": "8"' in data.stdout

"""Machine code is kept in the store, found under equal conditions only, and never used damaged."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import ARCH, init_taichi
from tikgen import engines
from tikgen.engines import code_store, native
from tikgen.errors import StoreWarning
from tikgen.pipeline.closed_text import is_closed
from tikgen.store import default_store

DIRECT = "direct-cpu"
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu")
pytestmark = [pytest.mark.arch, on_cpu]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")
numbers = itertools.count(3)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the texts that are compiled from now on."""
    found: list[str] = []
    machine_code = engines.engine(DIRECT).machine_code

    def noting(text: str, *args: Any) -> bytes:
        found.append(text)
        return machine_code(text, *args)

    monkeypatch.setattr(engines.engine(DIRECT), "machine_code", noting)
    return found


def fresh() -> Any:
    return tikgen.build("map", expr=f"y = x + {next(numbers)}/7", dtype="f64", engine=DIRECT)


def result(kernel: Any) -> float:
    y = np.zeros(5)
    kernel(np.ones(5), y)
    return float(y[0])


def entries() -> set[str]:
    """Return the keys of the machine code of kernels."""
    store = default_store()
    read = {key: store.read(code_store.KIND, key) for key in store.keys(code_store.KIND)}
    return {key for key, found in read.items() if found and found["name"] != "thread pool"}


def file_of(key: str) -> Path:
    return default_store().folder / code_store.KIND / key[:2] / f"{key}.json"


def test_a_later_ti_init_compiles_nothing(ti_arch: str, compiled: list[str]) -> None:
    kernel = fresh()
    first = result(kernel)
    init_taichi()
    assert result(kernel) == first
    assert len(compiled) == 1
    assert not kernel.loaded.is_compiled


@pytest.mark.parametrize("options", [{"fast_math": False}, {"default_fp": ti.f64}])
def test_options_of_taichi_need_code_of_their_own(
    ti_arch: str, compiled: list[str], options: dict[str, Any]
) -> None:
    kernel = fresh()
    result(kernel)
    try:
        ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False, **options)
        result(kernel)
        assert len(compiled) == 2
    finally:
        init_taichi()


@pytest.mark.parametrize("name", ["flags", "llvmlite"])
def test_another_machine_needs_code_of_its_own(
    ti_arch: str, compiled: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kernel = fresh()
    result(kernel)
    other = {**native.identity(), name: "another"}
    monkeypatch.setattr(native, "identity", lambda: other)
    init_taichi()
    result(kernel)
    assert len(compiled) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"f0VMRg', '"f0VMRQ'),
        lambda text: "{}",
        lambda text: '"code"',
    ],
    ids=["half", "a bit", "empty", "no object"],
)
@pytest.mark.filterwarnings(f"ignore::{StoreWarning.__module__}.{StoreWarning.__name__}")
def test_damaged_code_is_made_again(ti_arch: str, compiled: list[str], damage: Any) -> None:
    before, kernel = entries(), fresh()
    first = result(kernel)
    (key,) = entries() - before
    intact = file_of(key).read_text()
    file_of(key).write_text(damage(intact))
    assert file_of(key).read_text() != intact
    init_taichi()
    assert result(kernel) == first
    assert len(compiled) == 2
    assert file_of(key).read_text() == intact


def test_code_under_the_key_of_another_kernel_is_made_again(
    ti_arch: str, compiled: list[str]
) -> None:
    before, kernel, other = entries(), fresh(), fresh()
    first = result(kernel)
    (key,) = entries() - before
    assert result(other) != first
    (another,) = entries() - before - {key}
    file_of(key).write_text(file_of(another).read_text())
    init_taichi()
    assert result(kernel) == first
    assert len(compiled) == 3


def test_code_that_is_no_object_file_is_made_again(ti_arch: str, compiled: list[str]) -> None:
    before, kernel = entries(), fresh()
    first = result(kernel)
    (key,) = entries() - before
    code_store.keep(key, "text", code_store.Stored(b"not an object file"))
    init_taichi()
    assert result(kernel) == first
    assert len(compiled) == 2


OTHER = """
import taichi as ti
from secret import FACTOR

@ti.kernel
def scaled(x: ti.types.ndarray(dtype=ti.f64, ndim=1), y: ti.types.ndarray(dtype=ti.f64, ndim=1)):
    for i in range(x.shape[0]):
        y[i] = FACTOR * x[i]
"""


def test_what_a_text_imports_is_part_of_its_code(
    ti_arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for factor in (2.0, 3.0):
        (tmp_path / "secret.py").write_text(f"FACTOR = {factor}  # {'x' * int(factor)}\n")
        monkeypatch.delitem(sys.modules, "secret", raising=False)
        kernel = tikgen.from_string(OTHER).with_engine(DIRECT)
        assert result(kernel) == factor
        kernel.unload()
        tikgen.clear()
        init_taichi()


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        (
            "import taichi as ti\nimport taichi.math as tm\nN = 3\ndef f(x): return ti.max(x, N)",
            True,
        ),
        ("import math\nM = max(math.pi, 2)\nfor i in range(3): print(i, M)", True),
        ("from math import *\nx = pi", False),
        ("import numpy as np", False),
        ("from . import other", False),
        ("x = open('file').read()", False),
        ("x = __import__('os').environ", False),
        ("def f(x): return y", False),
    ],
)
def test_closed_texts_say_all_that_they_depend_on(text: str, closed: bool) -> None:
    assert is_closed(text) is closed


@pytest.mark.parametrize("name", ["reduce", "scan", "stencil", "gemm", "spmv", "transpose"])
def test_rendered_kernels_are_closed(name: str) -> None:
    assert is_closed(tikgen.build(name).source.text)


SECOND = """
import numpy as np, taichi as ti, tikgen
from tikgen.taichi import artefacts
asked, ask = [], artefacts.llvm_text
artefacts.llvm_text = lambda *of: [asked.append(of), ask(*of)][1]
ti.init(arch=ti.cpu, log_level=ti.ERROR)
kernel = tikgen.build("map", expr="y = x + 11/13", dtype="f64", engine="direct-cpu")
y = np.zeros(5)
kernel(np.ones(5), y)
print(len(asked), y[0])
"""


@pytest.mark.process
def test_a_second_process_needs_no_compiler() -> None:
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SECOND], capture_output=True, text=True, timeout=120, check=True
        )
        found.append(done.stdout.splitlines()[-1])
    assert found == [f"{times} {1 + 11 / 13}" for times in (1, 0)]

"""Texts that LLVM does not survive end no process, or one at most."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.engines import code_store, guarded, native
from tikgen.errors import EngineUnavailable
from tikgen.store import default_store

pytestmark = pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu")
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")

# Taichi's LLVM unrolls the loop, and LLVM 22.1 does not survive what is left of it.
LARGEST = """
import numpy as np
import taichi as ti
import tikgen

ti.init(arch=ti.cpu, log_level=ti.ERROR)
kernel = tikgen.from_string('''
import taichi as ti


@ti.kernel
def largest(x: ti.types.ndarray(dtype=ti.f64, ndim=1), y: ti.types.ndarray(dtype=ti.f64, ndim=1)):
    for c in range(1):
        most = x[0]
        for i in range(x.shape[0]):
            most = ti.max(most, x[i])
        y[0] = most
''').with_engine("direct-cpu")
for size in (1, 7, 8, 37, 1000):
    x, y = np.random.default_rng(size).random(size), np.zeros(1)
    kernel(x, y)
    assert y[0] == x.max(), (size, y)
print(kernel.engine)
"""
TEXT = "define i32 @tikgen_run(i32 %n) {{\n  %m = add i32 %n, {number}\n  ret i32 %m\n}}\n"


def test_the_greatest_f64_of_a_row_is_compiled() -> None:
    done = subprocess.run([sys.executable, "-c", LARGEST], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "direct-cpu"


def marked(number: int) -> str:
    """Return a text during whose compilation a process ended, as far as the store knows."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return compiled_by(number, ended.pid)


def compiled_by(number: int, process: int) -> str:
    """Return a text that a process compiles, as far as the store knows."""
    text = TEXT.format(number=number)
    key = code_store.key_of({"text": text, "machine": native.identity()})
    entry = {"host": socket.gethostname(), "process": process}
    default_store().write(guarded.KIND, key, entry)
    return text


def test_a_text_that_another_process_compiles_is_compiled_here_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarded, "_in_child", lambda *given: pytest.fail("in a child"))
    guarded.object_code(compiled_by(6, os.getppid()))


def test_a_text_that_ended_a_process_is_compiled_in_a_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = native.object_code(TEXT.format(number=7))
    monkeypatch.setattr(native, "object_code", lambda text: pytest.fail("not in a child"))
    assert guarded.object_code(marked(7)) == expected
    assert guarded.object_code(TEXT.format(number=7)) == expected  # It still is known.


def test_without_vectors_if_the_child_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[str] = []

    def in_child(text: str, passes: str) -> bytes:
        children.append(passes)
        return b"made" if passes == survived else b""

    monkeypatch.setattr(guarded, "_in_child", in_child)
    survived = "few"
    assert guarded.object_code(marked(8)) == b"made"
    assert children == ["all", "few"]
    survived = "none"
    with pytest.raises(RuntimeError, match="ended each process that compiled this kernel"):
        guarded.object_code(marked(9))


def test_what_is_compiled_without_an_end_leaves_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    before = default_store().keys(guarded.KIND)
    guarded.object_code(TEXT.format(number=10))

    def invalid(text: str) -> Any:
        assert len(default_store().keys(guarded.KIND)) == len(before) + 1
        raise RuntimeError("the module is not valid")

    monkeypatch.setattr(native, "object_code", invalid)
    with pytest.raises(RuntimeError, match="not valid"):
        guarded.object_code(TEXT.format(number=11))
    assert default_store().keys(guarded.KIND) == before


@pytest.mark.arch
def test_a_kernel_without_machine_code_is_launched_by_taichi(
    ti_arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(text: str) -> bytes:
        raise RuntimeError("it ended each process that compiled this kernel")

    monkeypatch.setattr(guarded, "object_code", refused)
    named = tikgen.build("map", expr="y = x + 17/3", dtype="f64", engine="direct-cpu")
    with pytest.raises(EngineUnavailable, match="LLVM makes no code of it: it ended each process"):
        named.compile()
    any_engine = tikgen.build("map", expr="y = x + 18/3", dtype="f64")
    x, y = np.ones(3), np.zeros(3)
    any_engine(x, y)
    assert any_engine.engine == "taichi"
    assert y.tolist() == [7, 7, 7]

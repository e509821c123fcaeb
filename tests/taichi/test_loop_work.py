"""Loops with many turns an element are shared among threads from few bytes on, on cpu."""

from __future__ import annotations

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.engines import direct_cpu
from tikgen.taichi import loop_work

on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu")

TEXT = """
import taichi as ti


@ti.kernel
def work(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    at: ti.types.ndarray(dtype=ti.i32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    steps: ti.i32,
):
    n = x.shape[0]
    {body}
"""
LIGHT = {
    "each element": "for i in range(n):\n for j in range(x.shape[1]):\n  y[i, j] = x[i, j]",
    "elements of an array": "for i, j in x:\n  y[i, j] = x[i, j]",
    "a range of each axis": "for i, j in ti.ndrange(n, (1, x.shape[1])):\n  y[i, j] = x[i, j]",
    "few neighbours": "for i, j in x:\n for k in range(5):\n  y[i, j] += x[i, (j + k) % n]",
    "neighbours of a row": "for i in range(n):\n for k in range(i - 1, i + 2):\n  y[i, 0] += 1",
    "rows of a matrix": "for i in range(n):\n for k in range(at[i], at[i + 1]):\n  y[i, 0] += 1",
    "unrolled": "for i in range(n):\n for k in ti.static(range(100)):\n  y[i, 0] += k",
    "one after the other": "for i, j in x:\n  y[i, j] = 1\nfor i, j in x:\n  y[i, j] = x[i, j]",
}
HEAVY = {
    "pairs": "for i in range(n):\n for j in range(x.shape[0]):\n  y[i, 0] += x[j, 0]",
    "pairs below": "for i in range(n):\n for j in range(i):\n  y[i, 0] += x[j, 0]",
    "pairs of an array": "for i, j in x:\n for k in range(n):\n  y[i, j] += x[k, j]",
    "pairs by ndrange": "for i, j in ti.ndrange(n, n):\n  y[i, 0] += x[j, 0]",
    "a product": "for i, j in y:\n for k in range(x.shape[1]):\n  y[i, j] += x[i, k]",
    "steps": "for i, j in x:\n for s in range(steps):\n  y[i, j] += x[i, j]",
    "until it converges": "for i, j in x:\n while y[i, j] > 1:\n  y[i, j] /= 2",
    "many turns": "for i in range(n):\n for k in range(100):\n  y[i, 0] += x[i, 0]",
    "many turns in two loops": "for i in range(n):\n for k in range(2, 10):\n  for s in range(8):\n"
    "   y[i, 0] += x[i, 0]",
}


def kernel_of(body: str) -> tikgen.Kernel:
    return tikgen.from_string(TEXT.format(body=body.replace("\n", "\n    ")))


@pytest.mark.parametrize("body", [*LIGHT, *HEAVY])
def test_turns_are_compared_with_elements(body: str, ti_arch: str) -> None:
    kernel = kernel_of({**LIGHT, **HEAVY}[body])
    found = kernel.loaded.compiled_text(lambda made: str(loop_work.exceeds_elements(made)))
    assert found == str(body in HEAVY)


@on_cpu
@pytest.mark.arch
@pytest.mark.parametrize(("body", "is_serial"), [("each element", True), ("pairs", False)])
def test_threads_share_many_turns_over_few_bytes(
    body: str, is_serial: bool, ti_arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    choose = direct_cpu.DirectLauncher.choose_loop

    def choosing(launcher: direct_cpu.DirectLauncher, size: int) -> None:
        choose(launcher, size)
        found.append(launcher._loop == launcher._pool.serial_for)

    monkeypatch.setattr(direct_cpu.DirectLauncher, "choose_loop", choosing)
    kernel = kernel_of({**LIGHT, **HEAVY}[body]).with_engine("direct-cpu")
    x, y, at = np.ones((500, 2), np.float32), np.zeros((500, 2), np.float32), np.zeros(9, np.int32)
    kernel(x, at, y, 3)
    assert y[3, 0] == (1 if is_serial else 500)
    assert found[-1] is is_serial

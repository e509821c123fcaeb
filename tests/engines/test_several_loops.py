"""Kernels of several loops, as users write them, need Taichi for no loop of its language."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from some_cases import examples

pytestmark = pytest.mark.skipif(ARCH != "cpu", reason="direct-cpu is for cpu")
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")

HEAD = """
import taichi as ti


@ti.func
def squared(a):
    return a * a + 1


@ti.real_func
def horner(a: ti.f32, b: ti.f32) -> ti.f32:
    total = a
    for _ in range(5):
        total = total * b + 1
    return total


@ti.kernel
def loops(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=1),
    d: ti.types.ndarray(dtype=ti.f64, ndim=1),
    n: ti.types.ndarray(dtype=ti.i32, ndim=1),
    g: ti.types.ndarray(dtype=ti.f32, ndim=2),
    h: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
"""
CHUNKS = """
    for c in range(32):
        length = (x.shape[0] - 1) // 32 + 1
        total = ti.f64(0.0)
        for i in range(c * length, ti.min((c + 1) * length, x.shape[0])):
            total += x[i]
        d[c] = total
"""
SHIFTED = """
    for i in range(x.shape[0]):
        y[i] = x[i] - ti.f32(d[i % 32])
"""
LOOPS = [
    CHUNKS,
    SHIFTED,
    "    for i in x:\n        y[i] = squared(x[i]) + horner(x[i], 2.0)\n",
    "    for i in range(32):\n        d[i] = d[i] + 1.0\n",
    "    for i in range(x.shape[0]):\n        ti.atomic_max(d[2], ti.f64(x[i]))\n",
    "    for i, j in g:\n        h[i, j] = g[i, j] * 0.5\n",
    "    for i, j in ti.ndrange((1, g.shape[0]), (1, g.shape[1])):\n"
    "        h[i, j] = g[i - 1, j] - g[i, j - 1]\n",
    "    for place in ti.grouped(g):\n        h[place] += ti.sin(g[place])\n",
    "    d[0] = 0.0\n",
    "    s = 0.0\n    for i in range(x.shape[0]):\n        s += x[i]\n    d[3] = s\n",
    "    for i in range(x.shape[0]):\n        k = 0\n        while k < 10 and y[i] < 3:\n"
    "            y[i] += 0.5\n            k += 1\n",
    "    for i in range(g.shape[0]):\n        v = ti.Vector([g[i, 0], g[i, 1], g[i, 2]])\n"
    "        h[i, 0] = v.norm() + v.dot(v)\n",
    "    ti.loop_config(serialize=True)\n    for i in range(1, x.shape[0]):\n"
    "        y[i] = ti.min(y[i - 1], 4.0) + x[i]\n",
    "    if n[0] > 2:\n        for i in range(x.shape[0]):\n            y[i] = -x[i]\n",
    "    for i in range(x.shape[0]):\n        n[ti.cast(x[i] * 100, ti.i32) % n.shape[0]] += 1\n",
    "    for i in range(g.shape[0]):\n        for j in range(g.shape[1]):\n"
    "            if g[i, j] > 0.9:\n                break\n            h[i, j] = 1.0\n",
]


def check(body: str, seed: int) -> None:
    """Launch a kernel by direct-cpu, and compare what it wrote with what Taichi writes."""
    rng = np.random.default_rng(seed)
    given = [rng.random(1001).astype(np.float32) for _ in range(2)]
    given += [rng.random(32), rng.integers(0, 9, 16).astype(np.int32)]
    given += [rng.random((20, 15)).astype(np.float32) for _ in range(2)]
    expected = [array.copy() for array in given]
    kernel = tikgen.from_string(HEAD + body).with_engine("direct")
    kernel(*given)
    assert kernel.engine == "direct-cpu", f"{kernel.why}\n{body}"
    kernel.with_engine("taichi")(*expected)
    for found, wanted in zip(given, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=body)


def test_types_that_taichi_names_twice_are_one(ti_arch: str) -> None:
    """A loop of constant length before one of another: its types had two names."""
    check(CHUNKS + SHIFTED, 1)


def test_drawn_loops_run_without_taichi(ti_arch: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    drawn = random.Random(seed)
    for count in range(examples(30, 5)):
        body = "".join(drawn.sample(LOOPS, drawn.choice((1, 2, 3, 4))))
        check(body, seed + count)

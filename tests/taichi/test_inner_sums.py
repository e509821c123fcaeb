"""Threads of a GPU share a loop that adds up within a parallel loop."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import given, settings
from hypothesis import strategies as st

import rewriting
import tikgen
from conftest import ARCH
from tikgen.taichi import inner_sums

Array = np.ndarray[Any, Any]
TEXT = """
import taichi as ti


@ti.func
def pull(p, q):
    d = p - q
    return d / (d.norm_sqr() + 1.0)


@ti.kernel
def work(
    a: ti.types.ndarray(dtype=ti.{dtype}, ndim=2),
    x: ti.types.ndarray(dtype=ti.{dtype}, ndim=1),
    y: ti.types.ndarray(dtype=ti.{dtype}, ndim=1),
    b: ti.types.ndarray(dtype=ti.{dtype}, ndim=2),
):
    {loop}
"""
MATVEC = """for i in range(a.shape[0]):
    s = y[i]
    for j in range(1, a.shape[1]):
        s += a[i, j] * x[j]
    y[i] = s"""
EACH = """for i, k in b:
    s, count = a[0, 0] * 0, 0
    for j in range(x.shape[0]):
        v = x[j] - a[i, 0]
        if v > 0 and j != k:
            s -= v
            count += 1
    b[i, k] = s + count"""
FORCES = """for i in range(b.shape[0]):
    force = ti.Vector([0.0, 0.0])
    for j in range(x.shape[0]):
        force += pull(ti.Vector([x[j], 1.0]), ti.Vector([a[i, 0], 0.0]))
    b[i, 0] = force.sum()
    for c in ti.static(range(1, 2)):
        if b.shape[1] > c:
            b[i, c] = force[c]"""


def matvec(a: Array, x: Array, y: Array, b: Array) -> None:
    y += a[:, 1:] @ x[1:]


def each(a: Array, x: Array, y: Array, b: Array) -> None:
    for i, k in np.ndindex(b.shape):
        v = np.delete(x, k) if k < len(x) else x
        v = v - a[i, 0]
        b[i, k] = -v[v > 0].sum() + (v > 0).sum()


def forces(a: Array, x: Array, y: Array, b: Array) -> None:
    d = np.stack(np.broadcast_arrays(x - a[:, :1], 1.0), axis=-1)
    force = (d / ((d**2).sum(-1, keepdims=True) + 1)).sum(1)
    b[:, 0] = force.sum(1)
    b[:, 1:2] = force[:, 1:]


WORKS: dict[str, Callable[[Array, Array, Array, Array], None]] = {
    MATVEC: matvec,
    EACH: each,
    FORCES: forces,
}


@pytest.mark.skipif(ARCH == "cpu", reason="a thread of a processor has a sum of its own")
@pytest.mark.usefixtures("ti_arch")
@pytest.mark.parametrize("loop", WORKS)
@settings(max_examples=6)
@given(
    shape=st.tuples(st.integers(1, 40), st.one_of(st.integers(1, 300), st.integers(125, 132))),
    columns=st.integers(1, 5),
    dtype=st.sampled_from(("f32", "f64") if ARCH == "cuda" else ("f32",)),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_numpy(
    loop: str, shape: tuple[int, int], columns: int, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    made = (rng.random(s) for s in (shape, shape[1:], shape[:1], (shape[0], columns)))
    a, x, y, b = (one.astype(kind) for one in made)
    expected = [one.astype(np.float64) for one in (a, x, y, b)]
    WORKS[loop](*expected)
    text = TEXT.format(dtype=dtype, loop=textwrap.indent(loop, "    ").lstrip())
    tikgen.from_string(text)(a, x, y, b)
    for found, wanted in zip((a, x, y, b), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def rewritten(loop: str, **more: Any) -> str:
    arrays = {name: (ti.f32, axes) for name, axes in (("a", 2), ("x", 1), ("y", 1), ("b", 2))}
    return rewriting.rewritten(inner_sums.rewrite, arrays, loop, more)


@ti.func
def twice(v):  # type: ignore[no-untyped-def]
    return 2 * v


@ti.func
def changing(v):  # type: ignore[no-untyped-def]
    v += 1
    return v


def test_what_is_shared() -> None:
    assert "tikgen_inner_joined(s_tikgen_inner0" in rewritten(MATVEC)
    called = MATVEC.replace("x[j]", "twice(x[j])")
    assert "tikgen_inner_joined" in rewritten(called, twice=twice)
    assert "tikgen_inner_joined" not in rewritten(
        called.replace("twice", "changing"), changing=changing
    )
    # Threads of many sums are enough, unless they would read a column each.
    assert "tikgen_inner0_sums >= " in rewritten(EACH)
    assert "tikgen_inner0_sums >= " not in rewritten(MATVEC)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Neighbouring threads read neighbours as it is; ends differ from sum to sum.
        ("a[i, j]", "a[j, i]"),
        ("range(1, a.shape[1])", "range(i)"),
        ("range(1, a.shape[1])", "range(int(x[0]))"),
        # Something else than a sum.
        ("s += a[i, j]", "s = a[i, j] + s"),
        ("s += a[i, j]", "s += s * a[i, j]"),
        ("s += a[i, j]", "s *= a[i, j]"),
        ("s += a[i, j] * x[j]", "s += x[j]\n        b[i, j] = s"),
        ("s += a[i, j] * x[j]", "if x[j] > 1:\n            break\n        s += x[j]"),
        ("a[i, j]", "ti.random()"),
        ("a[i, j]", "unknown(i, j)"),
        ("s = y[i]\n", "s = y[i]\n    y[i] = 0\n"),
        ("s = y[i]\n", "s = y[i]\n    if s < 0:\n        s = 0\n"),
        ("y[i] = s", "for k in range(9):\n        y[i] += s"),
        ("y[i] = s", "if s < 0:\n        continue\n    y[i] = s"),
        ("\n    y[i] = s", ""),
        ("for i in", "ti.loop_config(block_dim=64)\nfor i in"),
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    loop = MATVEC.replace(old, new)
    assert loop != MATVEC
    assert rewritten(loop) == ast.unparse(ast.parse(loop))

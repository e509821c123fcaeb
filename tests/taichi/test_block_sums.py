"""What all turns of a loop add to one element is added up by blocks of threads, on GPUs."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import given, settings
from hypothesis import strategies as st

import rewriting
import tikgen
from conftest import ARCH
from tikgen.taichi import block_sums

pytestmark = [pytest.mark.arch, pytest.mark.usefixtures("ti_arch")]
TEXT = """
import taichi as ti


@ti.kernel
def add(
    x: ti.types.ndarray(dtype=ti.{dtype}, ndim=3),
    y: ti.types.ndarray(dtype=ti.{dtype}, ndim=2),
    least: ti.i32,
):
    most = x.shape[1] - 1
    for {loop}:
        {body}
"""
# The part of x over which a loop runs, with 2 for ``least``.
LOOPS: dict[str, Any] = {
    "i, j, k in x": np.s_[:, :, :],
    "i, j, k in ti.ndrange(x.shape[0], (1, most), (least, x.shape[2]))": np.s_[:, 1:-1, 2:],
    "i, j, k in ti.ndrange((least, 3), most, (1, 4))": np.s_[2:3, :-1, 1:4],
    "where in ti.grouped(x)": np.s_[:, :, :],
    "where in ti.grouped(ti.ndrange(2, (1, least), 4))": np.s_[:2, 1:2, :4],
}
# Sums stay below 2**24: singles hold them exactly.
BODIES: dict[str, Any] = {
    "y[1, 2] += x[i, j, k]": lambda x, at: {(1, 2): x.sum()},
    "y[0, 0] -= x[i, j, k] * (k % 8); y[1, 1] += 1": lambda x, at: {
        (0, 0): -(x * (at[2] % 8)).sum(),
        (1, 1): x.size,
    },
    "if j == 1:\n            continue\n        ti.atomic_max(y[0, 1], x[i, j, k] + i)": (
        lambda x, at: {(0, 1): max(0, (x + at[0])[at[1] != 1].max(initial=0))}
    ),
    "ti.atomic_min(y[0, 1], x[i, j, k]); x[i, j, k] = 0": lambda x, at: {(0, 1): min(0, x.min())},
}


@pytest.mark.parametrize("loop", LOOPS)
@settings(max_examples=6)
@given(
    body=st.sampled_from(list(BODIES)),
    shape=st.tuples(st.integers(3, 70), st.integers(4, 70), st.integers(4, 70)),
    dtype=st.sampled_from(("i32", "f32") if ARCH == "vulkan" else ("i32", "f32", "f64", "u64")),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_numpy(
    loop: str, body: str, shape: tuple[int, int, int], dtype: str, seed: int
) -> None:
    kind = np.dtype({"i": "int", "f": "float", "u": "uint"}[dtype[0]] + dtype[1:])
    x = np.random.default_rng(seed).integers(0, 9, shape).astype(kind)
    part = x[LOOPS[loop]].astype(np.int64)
    at = np.stack(np.indices(shape))[(slice(None), *LOOPS[loop])]
    expected = np.zeros((2, 3), np.int64)
    for place, value in BODIES[body](part, at).items():
        expected[place] = value
    y = np.zeros((2, 3), kind)
    if loop.startswith("where"):
        body = f"i, j, k = where[0], where[1], where[2]\n        {body}"
    tikgen.from_string(TEXT.format(dtype=dtype, loop=loop, body=body))(x, y, 2)
    np.testing.assert_array_equal(y, expected.astype(kind))


def rewritten(code: str) -> str:
    arrays = {"x": (ti.f32, 2), "y": (ti.f32, 1)}
    return rewriting.rewritten(block_sums.rewrite, arrays, code)


@pytest.mark.parametrize(
    "loop",
    [
        "i, j in x",
        "i in ti.grouped(x)",
        "i in range(5)",
        "i in range(2, x.shape[0])",
        "i, j in ti.ndrange(3, (1, 4))",
        "i in range(z[0])",
    ],
)
def test_a_thread_has_a_sum_of_its_own(loop: str) -> None:
    code = rewritten(f"for {loop}:\n    y[0] += x[i, 0]")
    assert code.startswith("tikgen_ti.loop_config(block_dim=128)\nfor tikgen_block,")
    assert "tikgen_sum0 += x[i, 0]" in code and "tikgen_ti.atomic_add(y[0], tikgen_sum0)" in code


@pytest.mark.parametrize(
    "code",
    [
        "for i in range(0, 9, 2):\n    y[0] += x[i, 0]",
        # Which Taichi refuses.
        "for i in range(9):\n    if i > 2:\n        break\n    y[0] += x[i, 0]",
        "for i in ti.ndrange(3, 3):\n    y[0] += i",
        "for i, j in x:\n    y[i] += x[i, j]",
        "for i, j in x:\n    y[0] += x[i, j]\n    y[1] = y[0]",
        "ti.loop_config(block_dim=64)\nfor i, j in x:\n    y[0] += x[i, j]",
        "for i, j in x:\n    y[0] += x[i, j]\n    ti.simt.block.sync()",
        "for i in ti.static(range(3)):\n    y[0] += x[i, 0]",
        # Threads that begin later would find another range.
        "n = 3\nfor i in range(n):\n    n = 4\n    y[0] += 1",
        "for i in range(x[0, 0]):\n    x[0, 0] = 4\n    y[0] += 1",
        "for i in range(x[0, 0]):\n    unknown()\n    y[0] += 1",
    ],
)
def test_other_loops_stay(code: str) -> None:
    assert rewritten(code) == ast.unparse(ast.parse(code))

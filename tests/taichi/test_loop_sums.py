"""What parallel loops add to one element of an array is added up by threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import given, settings
from hypothesis import strategies as st

import rewriting
import tikgen
from conftest import ARCH
from some_cases import examples
from tikgen.taichi import loop_sums

ENGINE = "direct-cpu" if ARCH == "cpu" else "taichi"
DTYPES = ("i32", "i64", "f64") if ARCH != "vulkan" else ("i32", "f32")

TEXT = """
import taichi as ti


@ti.kernel
def add(
    x: ti.types.ndarray(dtype=ti.{dtype}, ndim=2),
    y: ti.types.ndarray(dtype=ti.{dtype}, ndim=1),
):
    for {loop}:
        {body}
"""
LOOPS = ("i, j in x", "i, j in ti.ndrange(x.shape[0], x.shape[1])")
BODIES = {
    "y[0] += x[i, j]": lambda x: [x.sum(), 0, 0],
    "y[0] -= x[i, j]; y[2] += 1": lambda x: [-x.sum(), 0, x.size],
    "y[1] += x[i, j]\n        if x[i, j] > 0:\n            y[1] += i": lambda x: [
        0,
        x.sum() + (np.arange(len(x))[:, None] * (x > 0)).sum(),
        0,
    ],
    "ti.atomic_max(y[0], x[i, j]); ti.atomic_add(y[2], x[i, j])": lambda x: [
        max(0, x.max() - 5),
        0,
        x.sum(),
    ],
    "ti.atomic_min(y[1], x[i, j])\n        if x[i, j] < 3:\n            ti.atomic_min(y[1], -j)": (
        lambda x: [0, min(0, x.min() - 6, *(-np.nonzero(x < 3)[1] - 6)), 0]
    ),
    # Elements that are read, or found by an index, stay what they are.
    "y[0] += x[i, j]\n        y[i % 2] += 1": lambda x: [
        x.sum() + x[::2].size,
        x[1::2].size,
        0,
    ],
}


@pytest.mark.arch
@pytest.mark.parametrize("body", BODIES)
@settings(max_examples=examples(10, 4))
@given(
    loop=st.sampled_from(LOOPS),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 1100)),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_numpy(
    body: str, loop: str, shape: tuple[int, int], dtype: str, seed: int
) -> None:
    kind = np.dtype({"i": "int", "f": "float"}[dtype[0]] + dtype[1:])
    x = np.random.default_rng(seed).integers(-9, 9, shape).astype(kind)
    kernel = tikgen.from_string(TEXT.format(dtype=dtype, loop=loop, body=body))
    y = np.array([5, 6, 7], kind)
    kernel.with_engine(ENGINE)(x, y)
    np.testing.assert_array_equal(y - [5, 6, 7], BODIES[body](x))


@pytest.fixture(autouse=True)
def _initialised(ti_arch: str) -> None:
    """Have Taichi initialised for what hypothesis draws."""


@pytest.mark.arch
def test_a_sum_of_many_singles_loses_little(ti_arch: str, rng: np.random.Generator) -> None:
    """Added one by one, it would be off by 1e-3."""
    x, y = rng.random((1000, 3000), np.float32), np.zeros(1, np.float32)
    text = TEXT.format(dtype="f32", loop=LOOPS[0], body="y[0] += x[i, j]")
    tikgen.from_string(text).with_engine(ENGINE)(x, y)
    assert y[0] == pytest.approx(x.sum(dtype=np.float64), rel=1e-4)


def rewritten(code: str, dtype: Any = ti.f32) -> str:
    """Return the code of a kernel of the arrays x and y, rewritten."""
    return rewriting.rewritten(loop_sums.rewrite, dict.fromkeys("xy", (dtype, 1)), code)


def test_a_loop_adds_to_a_variable() -> None:
    assert rewritten("for i in x:\n    y[0] += x[i]").splitlines() == [
        "tikgen_sum0 = tikgen_sum_cast(0, tikgen_sum0_dtype)",
        "for i in x:",
        "    tikgen_sum0 += x[i]",
        "if y.shape[0] > 0:",
        "    y[0] += tikgen_sum0",
    ]


def test_a_loop_takes_the_extreme_of_a_variable() -> None:
    code = "for i in x:\n    ti.atomic_max(y[0], x[i])\n    y[1] += x[i]"
    assert rewritten(code).splitlines() == [
        "tikgen_sum0 = tikgen_sum_cast(0, tikgen_sum0_dtype)",
        "if y.shape[0] > 0:",
        "    tikgen_sum0 = y[0]",
        "tikgen_sum1 = tikgen_sum_cast(0, tikgen_sum1_dtype)",
        "for i in x:",
        "    ti.atomic_max(tikgen_sum0, x[i])",
        "    tikgen_sum1 += x[i]",
        "if y.shape[0] > 0:",
        "    tikgen_sum_max(y[0], tikgen_sum0)",
        "if y.shape[0] > 1:",
        "    y[1] += tikgen_sum1",
    ]


@pytest.mark.arch
def test_what_is_never_added_needs_no_element(ti_arch: str) -> None:
    body = "if x[i, j] > 9:\n            y[1] += 1\n            ti.atomic_max(y[2], 7)"
    text = TEXT.format(dtype="i32", loop=LOOPS[0], body=body)
    memory = np.arange(4, dtype=np.int32)
    tikgen.from_string(text).with_engine(ENGINE)(np.zeros((5, 3), np.int32), memory[:1])
    np.testing.assert_array_equal(memory, np.arange(4))


@pytest.mark.parametrize(
    "code",
    [
        "for i in x:\n    y[0] += x[i]\n    x[i] = y[0]",
        "for i in x:\n    y[0] += y[1]",
        "for i in y:\n    y[0] += x[i]",
        "for i in x:\n    y[i] += x[i]",
        "for i in x:\n    y[0] *= x[i]",
        "for i in x:\n    y[0] += x[i]\n    ti.atomic_max(y[0], x[i])",
        "for i in x:\n    x[i] = ti.atomic_max(y[0], x[i])",
        "for i in ti.static(range(3)):\n    y[0] += x[i]",
        "y[0] += x[0]",
    ],
)
def test_other_loops_stay(code: str) -> None:
    assert rewritten(code) == code
    assert rewritten("for i in x:\n    y[0] += x[i]", ti.f16).startswith("for")

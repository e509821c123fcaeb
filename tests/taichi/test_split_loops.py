"""Loops over rows have three parts where indices wrap around or are clamped, on processors."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples
from tikgen.taichi import split_loops, wrapped_indices

TEXT = """
import taichi as ti


@ti.kernel
def neighbours(
    x: ti.types.ndarray(dtype=ti.f64, ndim=2),
    y: ti.types.ndarray(dtype=ti.f64, ndim=2),
    z: ti.types.ndarray(dtype=ti.f64, ndim=2),
):
    n, m = x.shape
    {loop}
        y[i, j] = x[i, {first}] - 2 * x[{second}, j]
    for i in range(n):
        for j in range(z.shape[1]):
            if j == 2:
                continue
            # Each takes what the last one left.
            z[i, j] += z[i, ti.max(j - 1, 0)] + z[i, (j - {step}) % z.shape[1]]
"""
LOOPS = (
    "for i, j in x:",
    "for i, j in ti.ndrange(n, m):",
    "for i in range(n):\n      for j in range(m):",
    "for i in range(n):\n      for j in range(1, m - 1):",
)
Points = np.ndarray[Any, Any]


def index(name: str, extent: str, step: int, wraps: bool) -> tuple[str, Any]:
    """Return the code of an index, and the function that finds it."""
    if wraps:
        return f"({name} + {step}) % {extent}", lambda at, count: (at + step) % count
    if step < 0:
        return f"ti.max({name} - {-step}, 0)", lambda at, _: np.maximum(at + step, 0)
    return f"min({extent} - 1, {name} + {step})", lambda at, count: np.minimum(at + step, count - 1)


@pytest.mark.usefixtures("ti_arch")
@settings(max_examples=examples(12, 4))
@given(
    loop=st.sampled_from(LOOPS),
    steps=st.tuples(st.integers(-4, 4), st.integers(-4, 4)),
    wraps=st.booleans(),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 40) | st.integers(500, 1100)),
    seed=st.integers(0, 2**32 - 1),
)
@example(LOOPS[0], (1, -1), True, (1, 1), 0)
@example(LOOPS[2], (4, -4), True, (2, 3), 0)
def test_elements_are_those_of_numpy(
    loop: str, steps: tuple[int, int], wraps: bool, shape: tuple[int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y, z = rng.random(shape), np.full(shape, -9.0), rng.random((shape[0], 7))
    first, along = index("j", "m", steps[0], wraps)
    second, across = index("i", "x.shape[0]", steps[1], wraps)
    rows, columns = np.indices(shape)
    expected = x[rows, along(columns, shape[1])] - 2 * x[across(rows, shape[0]), columns]
    inside = (columns > 0) & (columns < shape[1] - 1) if "1, m - 1" in loop else columns >= 0
    left = z.copy()
    for j in (0, 1, 3, 4, 5, 6):
        left[:, j] += left[:, max(j - 1, 0)] + left[:, (j - abs(steps[0])) % 7]
    code = loop.replace("\n      for", "\n        for")
    text = TEXT.format(loop=code, first=first, second=second, step=abs(steps[0]))
    if "range(m)" in loop or "1, m" in loop:
        text = text.replace("        y[i, j]", "            y[i, j]")
    tikgen.from_string(text)(x, y, z)
    np.testing.assert_allclose(y, np.where(inside, expected, -9.0), rtol=1e-12)
    np.testing.assert_allclose(z, left, rtol=1e-12)


def rewritten(body: str, inner: str = "for j in range(x.shape[1])") -> list[str]:
    """Return the lines of a loop over rows, rewritten."""
    code = f"def f(x, y):\n    for i in range(x.shape[0]):\n        {inner}:\n            {body}"
    tree = ast.parse(code)
    arguments = [SimpleNamespace(name=name, annotation=ti.types.ndarray()) for name in "xy"]
    wrapped_indices.rewrite(tree, SimpleNamespace(arguments=arguments), {"ti": ti})
    before = ast.unparse(tree)
    split_loops.rewrite(tree)
    after = ast.unparse(tree)
    return [] if after == before else [line.strip() for line in after.splitlines()[2:]]


def test_the_points_inside_have_plain_indices() -> None:
    assert rewritten("y[i, j] = x[i, ti.max(j - 2, 0)] + x[i, (j + 1) % x.shape[1]]") == [
        "tikgen_second1 = least_by_tikgen(most_by_tikgen(2, 0), x.shape[1])",
        "tikgen_third1 = "
        "least_by_tikgen(most_by_tikgen(x.shape[1] - 1, tikgen_second1), x.shape[1])",
        "for j in range(0, tikgen_second1):",
        "y[i, j] = x[i, clamped_by_tikgen(j, -2, x.shape[1])] + "
        "x[i, wrapped_by_tikgen(j, 1, x.shape[1])]",
        "for j in range(tikgen_second1, tikgen_third1):",
        "y[i, j] = x[i, j - 2] + x[i, j + 1]",
        "for j in range(tikgen_third1, x.shape[1]):",
        "y[i, j] = x[i, clamped_by_tikgen(j, -2, x.shape[1])] + "
        "x[i, wrapped_by_tikgen(j, 1, x.shape[1])]",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "y[i, j] = x[(i + 1) % x.shape[0], j]",  # The same for all of a row.
        "y[i, j] = x[i, (j + 1) % x.shape[0]]",
        "y[i, j] = x[i, ti.max(j - 1, 1)]",
        "y[i, j] = x[i, ti.min(j + 1, x.shape[1])]",
        "if x[i, (j + 1) % x.shape[1]] > 0:\n                break",
        "for k in range(3):\n                y[i, j] = x[i, (j + 1) % x.shape[1]]",
    ],
)
def test_other_loops_stay(body: str) -> None:
    assert not rewritten(body)
    assert not rewritten("y[i, j] = x[i, (j + 1) % x.shape[1]]", "for j in range(0, 9, 2)")

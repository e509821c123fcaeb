"""Points that an index chooses: each process finds its own, and together they are all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

from tikgen.grid.decomposition import Decomposition
from tikgen.grid.points import Points


@st.composite
def indexed(draw: st.DrawFn) -> tuple[Decomposition, Any]:
    dim = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(dim))
    ranks = tuple(draw(st.integers(1, min(n, 3))) for n in shape)
    keys = (
        drawn.basic_indices(shape, allow_newaxis=True)
        | drawn.integer_array_indices(shape)
        | drawn.arrays(bool, shape)
        | st.tuples(st.just(...), st.lists(st.integers(-1, shape[-1] - 1), max_size=3).map(np.intp))
    )
    return Decomposition(shape, ranks, (False,) * dim), draw(keys)


@given(indexed())
def test_points_are_those_of_numpy(case: tuple[Decomposition, Any]) -> None:
    grid, key = case
    whole = np.random.default_rng(1).random(grid.shape)
    wanted = whole[key]
    points = Points(grid.shape, key)
    assert points.shape == wanted.shape
    found, written = np.full(wanted.shape, np.nan), np.zeros(grid.shape)
    for rank in range(math.prod(grid.ranks)):
        part = grid.owned(rank)
        own = tuple(slice(*each) for each in part)
        among, places = points.owned(part)
        points.fitted(found)[among] = whole[own][places]
        points.write(written[own], part, np.ones(wanted.shape))
    np.testing.assert_array_equal(found, wanted)
    expected = np.zeros(grid.shape)
    expected[key] = 1
    np.testing.assert_array_equal(written, expected)

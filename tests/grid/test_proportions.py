"""Parts in proportion to speeds: no other division is done earlier."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tikgen.grid.decomposition import Decomposition, balanced, part_of
from tikgen.grid.proportions import in_proportion, sizes_of

SPEEDS = st.floats(1e-3, 1) | st.sampled_from([1e-300, 1.0])


@given(st.data())
def test_no_other_division_of_an_axis_is_done_earlier(data: st.DataObject) -> None:
    weights = data.draw(st.lists(SPEEDS, min_size=1, max_size=6))
    least = data.draw(st.integers(1, 4))
    extent = len(weights) * least + data.draw(st.integers(0, 60) | st.integers(0, 10**9))
    sizes = in_proportion(extent, weights, least)
    assert sum(sizes) == extent
    assert min(sizes) >= least
    # A point that leaves the slowest part arrives where it takes as long, unless it may not leave.
    times = [size / weight for size, weight in zip(sizes, weights, strict=True)]
    slowest = times.index(max(times))
    if sizes[slowest] > least:
        for size, weight in zip(sizes, weights, strict=True):
            assert (size + 1) / weight >= times[slowest] * (1 - 1e-12)


@given(st.integers(1, 9), st.integers(0, 300), st.floats(1e-9, 1e9))
def test_equal_speeds_give_equal_parts(count: int, more: int, speed: float) -> None:
    parts = [part_of(count + more, count, place) for place in range(count)]
    found = in_proportion(count + more, [speed] * count, 1)
    assert found == tuple(stop - start for start, stop in parts)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 3)), min_size=1, max_size=3),
    st.integers(1, 12),
)
def test_equal_speeds_divide_a_grid_as_none_do(axes: list[tuple[int, int]], count: int) -> None:
    shape, halo = tuple(n for n, _ in axes), tuple(width for _, width in axes)
    ranks = balanced(shape, count, halo)
    assert balanced(shape, count, halo, [1.0] * count) == ranks
    sizes = sizes_of(shape, ranks, [1.0] * count, halo)
    periodic = (False,) * len(shape)
    even, weighted = (
        Decomposition(shape, ranks, periodic),
        Decomposition(shape, ranks, periodic, sizes),
    )
    for rank in range(count):
        assert even.owned(rank) == weighted.owned(rank)
    for axis in range(len(shape)):
        assert even.fewest(axis) == weighted.fewest(axis)
        assert even.most(axis) == weighted.most(axis)


def test_boxes_are_in_proportion_to_speeds() -> None:
    speeds = (1, 2, 3, 6)
    sizes = sizes_of((12, 24), (2, 2), speeds, (1, 1))
    assert sizes == ((3, 9), (8, 16))  # Sums of speeds: 3 and 9, 4 and 8.
    grid = Decomposition((12, 24), (2, 2), (False, False), sizes)
    boxes = [math.prod(b - a for a, b in grid.owned(rank)) for rank in range(4)]
    assert boxes == [24, 48, 72, 144]
    # Here no division along both axes fits the speeds, and one along an axis does.
    cube = (64, 64, 64), 8, (1, 1, 1)
    assert balanced(*cube) == balanced(*cube, (1, 2, 3, 6, 1, 2, 3, 6)) == (4, 2, 1)
    assert balanced(*cube, (9, 1, 1, 9, 1, 9, 9, 1)) == (8, 1, 1)
    # Five of six own a point each, however fast the last one is.
    assert balanced((5,), 6, (1,), (1, 1, 1, 1, 1, 9)) == (5,)

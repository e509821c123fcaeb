"""How grids are divided: each point has one owner, and neighbours know each other."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikgen.grid.decomposition import Decomposition, balanced, divisions
from tikgen.grid.proportions import Sizes, sizes_of


@st.composite
def divided(draw: st.DrawFn) -> Decomposition:
    dim = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 13)) for _ in range(dim))
    ranks = tuple(draw(st.integers(1, min(n, 4))) for n in shape)
    periodic = tuple(draw(st.booleans()) for _ in range(dim))
    sizes: Sizes = ()
    if draw(st.booleans()):
        speeds = draw(st.lists(st.floats(0.1, 9), min_size=64, max_size=64))
        sizes = sizes_of(shape, ranks, speeds, (1,) * dim)
    return Decomposition(shape, ranks, periodic, sizes)


@given(divided())
def test_each_point_has_one_owner(grid: Decomposition) -> None:
    owners: dict[tuple[int, ...], int] = {}
    sizes = set()
    for rank in range(math.prod(grid.ranks)):
        owned = grid.owned(rank)
        sizes |= {(axis, stop - start) for axis, (start, stop) in enumerate(owned)}
        points: list[tuple[int, ...]] = [()]
        for start, stop in owned:
            points = [(*head, i) for head in points for i in range(start, stop)]
        assert points
        assert not owners.keys() & set(points)
        owners |= dict.fromkeys(points, rank)
    assert len(owners) == math.prod(grid.shape)
    for axis in range(len(grid.shape)):
        own = [size for other, size in sizes if other == axis]
        assert max(own) - min(own) <= 1 or grid.sizes
        assert (grid.fewest(axis), grid.most(axis)) == (min(own), max(own))


@given(divided())
def test_neighbours_know_each_other_and_touch(grid: Decomposition) -> None:
    for rank in range(math.prod(grid.ranks)):
        for axis, extent in enumerate(grid.shape):
            other = grid.neighbour(rank, axis, True)
            start, stop = grid.owned(rank)[axis]
            if other is None:
                assert grid.ranks[axis] == 1 or (stop == extent and not grid.periodic[axis])
                continue
            assert grid.neighbour(other, axis, False) == rank
            assert grid.owned(other)[axis][0] == stop % extent
            for different in set(range(len(grid.shape))) - {axis}:
                assert grid.owned(other)[different] == grid.owned(rank)[different]
            assert (start, stop) != grid.owned(other)[axis]


@pytest.mark.parametrize(
    ("shape", "processes", "halo", "ranks"),
    [
        ((64, 64, 64), 8, (1, 1, 1), (4, 2, 1)),
        ((64, 64, 64), 7, (1, 1, 1), (7, 1, 1)),
        ((10, 1000), 4, (1, 1), (1, 4)),
        ((100, 100), 2, (1, 1), (2, 1)),  # Rows lie together in memory.
        ((585, 567, 544), 2, (1, 1, 1), (2, 1, 1)),  # So do planes: worth more than a fair share.
        ((1024, 1024, 1024), 512, (1, 1, 1), (16, 8, 4)),
        ((7,), 7, (1,), (7,)),
        ((8, 8), 4, (4, 4), (2, 2)),
        ((8, 30), 6, (4, 5), (1, 6)),
        ((5, 5), 1, (9, 9), (1, 1)),
        ((5, 5), 7, (1, 1), (3, 2)),  # One of seven is idle, as no 7 parts fit.
        ((7, 5), 9, (4, 1), (1, 5)),
        ((5, 5), 4, (9, 9), (1, 1)),
    ],
)
def test_processes_are_balanced(
    shape: tuple[int, ...], processes: int, halo: tuple[int, ...], ranks: tuple[int, ...]
) -> None:
    assert balanced(shape, processes, halo) == ranks


@given(
    st.lists(st.tuples(st.integers(1, 13), st.integers(1, 4)), min_size=1, max_size=3),
    st.integers(1, 30),
)
def test_as_many_processes_own_points_as_can(axes: list[tuple[int, int]], count: int) -> None:
    shape, halo = tuple(n for n, _ in axes), tuple(width for _, width in axes)

    def fit(ranks: tuple[int, ...]) -> bool:
        each = zip(shape, halo, ranks, strict=True)
        return all(c == 1 or n >= c * width for n, width, c in each)

    ranks = balanced(shape, count, halo)
    assert fit(ranks)
    assert math.prod(ranks) <= count
    for more in range(math.prod(ranks) + 1, count + 1):
        assert not any(map(fit, divisions(more, len(shape))))


@given(divided(), st.integers(0, 3))
def test_further_processes_are_idle(grid: Decomposition, further: int) -> None:
    rank = math.prod(grid.ranks) + further
    assert rank >= grid.count
    assert all(start == stop for start, stop in grid.owned(rank))
    for axis in range(len(grid.shape)):
        assert grid.neighbour(rank, axis, False) is grid.neighbour(rank, axis, True) is None

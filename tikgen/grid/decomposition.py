"""How a grid is divided among processes: which points each owns, and which its neighbours are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tikgen.grid.proportions import Sizes, sizes_of, slowest

# The first point, and the one behind the last.
Range = tuple[int, int]
# What both ghost layers of an axis count for, the first, between, and the last. An exchange of
# planes of 128 x 128 points took 22, 61 and 117 us on cpu; on two H100, those of the last axis took
# three times as long as those of the first, and so did the points beside them.
_BOTH = (2, 3, 6)


@dataclass(frozen=True)
class Decomposition:
    """A grid of points, divided into boxes, one for each process.

    Processes are numbered along the last axis first. On each axis the first parts have a point
    more where the extent is no multiple of the number of parts, unless sizes are given. Further
    processes are idle: they own no points, and are nobody's neighbours.

    Attributes:
        shape: number of points along each axis.
        ranks: number of processes along each axis.
        periodic: for each axis whether its two ends are neighbours.
        sizes: for each axis the number of points of each part; none for equal parts.
    """

    shape: tuple[int, ...]
    ranks: tuple[int, ...]
    periodic: tuple[bool, ...]
    sizes: Sizes = ()

    @property
    def count(self) -> int:
        """Return how many processes own points: those of the first ranks."""
        return math.prod(self.ranks)

    def place(self, rank: int) -> tuple[int, ...]:
        """Return where a process that owns points stands along each axis."""
        found = []
        for count in reversed(self.ranks):
            rank, place = divmod(rank, count)
            found.append(place)
        return tuple(reversed(found))

    def owned(self, rank: int) -> tuple[Range, ...]:
        """Return the points that a process owns along each axis: none if it is idle."""
        if rank >= self.count:
            return ((0, 0),) * len(self.shape)
        return tuple(self._part(axis, place) for axis, place in enumerate(self.place(rank)))

    def _part(self, axis: int, place: int) -> Range:
        """Return the points of a part of an axis."""
        if not self.sizes:
            return part_of(self.shape[axis], self.ranks[axis], place)
        first = sum(self.sizes[axis][:place])
        return first, first + self.sizes[axis][place]

    def neighbour(self, rank: int, axis: int, is_upper: bool) -> int | None:
        """Return the process beyond a side, None for the outside and for the process itself."""
        if rank >= self.count:
            return None
        count, place = self.ranks[axis], list(self.place(rank))
        place[axis] += 1 if is_upper else -1
        if count == 1 or not (self.periodic[axis] or 0 <= place[axis] < count):
            return None
        place[axis] %= count
        found = 0
        for own, most in zip(place, self.ranks, strict=True):
            found = found * most + own
        return found

    def most(self, axis: int) -> int:
        """Return how many points along an axis a process owns at most."""
        return max(self.sizes[axis]) if self.sizes else -(-self.shape[axis] // self.ranks[axis])

    def fewest(self, axis: int) -> int:
        """Return how many points along an axis a process owns at least, unless it is idle."""
        return min(self.sizes[axis]) if self.sizes else self.shape[axis] // self.ranks[axis]


def part_of(extent: int, count: int, place: int) -> Range:
    """Return the points of one of ``count`` parts of an axis."""
    size, more = divmod(extent, count)
    first = place * size + min(place, more)
    return first, first + size + (place < more)


def balanced(
    shape: tuple[int, ...],
    processes: int,
    halo: tuple[int, ...],
    weights: Sequence[float] | None = None,
) -> tuple[int, ...]:
    """Return the numbers of processes along each axis with which all are done first.

    Work is the points of a part with its ghost points, which have to be sent: those of the first
    axis, which lie together in memory, count once, others more often. Of equal ones, the first axes
    are divided. Where there are too few points, as many processes own some as can.

    Args:
        shape: number of points along each axis.
        processes: number of processes.
        halo: width of the ghost layers of each axis, at least 1; each part is as wide at least.
        weights: how fast each process is; by default they are equally fast.
    """

    def fitting(count: int) -> list[tuple[int, ...]]:
        return [
            ranks
            for ranks in divisions(count, len(shape))
            if all(c == 1 or n // c >= g for n, c, g in zip(shape, ranks, halo, strict=True))
        ]

    # One process always fits.
    most = math.prod(max(1, n // g) for n, g in zip(shape, halo, strict=True))
    found = next(filter(None, map(fitting, range(min(processes, most), 0, -1))))
    both = (*_BOTH[: len(shape) - 1], _BOTH[-1]) if len(shape) > 1 else _BOTH[:1]

    def work(ranks: tuple[int, ...]) -> float:
        margins = [g * b * (c > 1) for c, g, b in zip(ranks, halo, both, strict=True)]
        if weights is not None:
            return slowest(sizes_of(shape, ranks, weights, halo), margins, weights)
        parts = zip(shape, ranks, margins, strict=True)
        return math.prod(-(-n // c) + margin for n, c, margin in parts)

    return min(found, key=lambda ranks: (work(ranks), ranks[::-1]))


def divisions(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield every tuple of ``count`` numbers with that product."""
    divisors = [n for n in range(1, number + 1) if number % n == 0]
    for head in itertools.product(divisors, repeat=count - 1):
        if number % math.prod(head) == 0:
            yield (*head, number // math.prod(head))


def by(extents: tuple[int, ...]) -> str:
    """Return extents as ``3 x 4``."""
    return " x ".join(map(str, extents))

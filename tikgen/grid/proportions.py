"""Parts of a grid in proportion to the speeds of processes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

Sizes = tuple[tuple[int, ...], ...]
_HALVINGS = 64


def in_proportion(extent: int, weights: Sequence[float], least: int) -> tuple[int, ...]:
    """Return the sizes of the parts of an axis of which the slowest takes the least time.

    Args:
        extent: number of points, enough for all parts.
        weights: how fast each part is.
        least: how many points a part has at least.
    """
    greatest = max(weights)
    speeds = [weight / greatest for weight in weights]

    def within(time: float) -> list[int]:
        return [max(least, int(time * speed)) for speed in speeds]

    low, high = 0.0, extent + 1.0  # The fastest part alone has too many points then.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(within(middle)) <= extent else (low, middle)
    sizes = within(low)
    for _ in range(extent - sum(sizes)):
        later = [(size + 1) / speed for size, speed in zip(sizes, speeds, strict=True)]
        sizes[later.index(min(later))] += 1
    return tuple(sizes)


def sizes_of(
    shape: Sequence[int], ranks: Sequence[int], weights: Sequence[float], halo: Sequence[int]
) -> Sizes:
    """Return for each axis the sizes of its parts; a part is as fast as its processes together.

    Args:
        shape: number of points along each axis.
        ranks: number of processes along each axis, the last axis first.
        weights: how fast each process is; those of idle ones count nothing.
        halo: how many points a part of each axis has at least, where the axis is divided.
    """
    found = []
    places = list(itertools.product(*map(range, ranks)))
    for axis, (extent, count, least) in enumerate(zip(shape, ranks, halo, strict=True)):
        together: list[list[float]] = [[] for _ in range(count)]
        for place, weight in zip(places, weights, strict=False):
            together[place[axis]].append(weight)
        speeds = [math.fsum(each) for each in together]
        found.append(in_proportion(extent, speeds, least if count > 1 else 1))
    return tuple(found)


def slowest(sizes: Sizes, margins: Sequence[int], weights: Sequence[float]) -> float:
    """Return the time of the process that takes longest.

    Args:
        sizes: for each axis the sizes of its parts.
        margins: how many points more the work along each axis counts.
        weights: how fast each process is.
    """
    parts = itertools.product(
        *([size + margin for size in each] for each, margin in zip(sizes, margins, strict=True))
    )
    return max(math.prod(part) / weight for part, weight in zip(parts, weights, strict=False))

"""Axes that stay neighbours count as one, and axes of extent 1 as none."""

import math
from collections.abc import Mapping, Sequence


def merged(perm: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the axes of y, those together that are neighbours in x as well, in the same order."""
    groups: list[tuple[int, ...]] = []
    for axis, source in enumerate(perm):
        if axis and source == perm[axis - 1] + 1:
            groups[-1] += (axis,)
        else:
            groups.append((axis,))
    return groups


def in_x(perm: Sequence[int], groups: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the numbers of the groups in the order that they have in x."""
    return sorted(range(len(groups)), key=lambda number: perm[groups[number][0]])


def extents(
    perm: Sequence[int], groups: Sequence[tuple[int, ...]], sizes: Mapping[str, int]
) -> list[int]:
    """Return how many elements there are along each group."""
    return [math.prod(sizes[f"n{perm[axis]}"] for axis in group) for group in groups]


def group_of(axis: int, groups: Sequence[tuple[int, ...]]) -> int:
    """Return the number of the group that an axis of y is in."""
    return next(number for number, group in enumerate(groups) if axis in group)


def swapped(perm: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of axes of y that stand the other way round in x."""
    dim = len(perm)
    return [(a, b) for a in range(dim) for b in range(a + 1, dim) if perm[a] > perm[b]]


def walked(perm: Sequence[int], sizes: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the last axes of y along which x and y are contiguous, or None if y is x in order.

    Extents of 1 do not count, so that both may be the same axis: then rows stay rows.
    """
    groups = merged(perm)
    counts = extents(perm, groups, sizes)
    long = [number for number, count in enumerate(counts) if count > 1]
    order = [number for number in in_x(perm, groups) if counts[number] > 1]
    if order == long:
        return None
    return groups[order[-1]][-1], groups[long[-1]][-1]

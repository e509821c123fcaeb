"""Axes that stay neighbours count as one, and axes of extent 1 as none."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

AXES = ("i", "j", "k", "l")


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


def last_axes(p: Any) -> tuple[int, int]:
    """Return the axis of y along which x is contiguous, and the last one."""
    return p.perm.index(len(p.perm) - 1), len(p.perm) - 1


def end_of(axis: int, p: Any) -> int:
    """Return the last axis of y that is merged with one."""
    groups = merged(p.perm)
    return groups[group_of(axis, groups)][-1]


def named(p: Any, row: int, column: int) -> Mapping[str, int]:
    """Return the parameters that say along which axes strips and tiles go."""
    usual = [end_of(axis, p) for axis in last_axes(p)]
    return {
        "row": -1 if row == usual[0] else row,
        "column": -1 if column == usual[1] else column,
    }


def along(p: Any, axes: Sequence[int], sizes: Mapping[str, int]) -> list[int]:
    """Return how many elements there are along axes of y and those merged with them."""
    groups = merged(p.perm)
    counts = extents(p.perm, groups, sizes)
    return [counts[group_of(axis, groups)] for axis in axes]


def kept_rows(p: Any, extents: list[str]) -> Mapping[str, Any]:
    """Return what the text needs where the last axes keep their places.

    A row is what lies along those axes; the others lead to it, in y in their order. `row_place` is
    its number in x. The index of the row `start`, and of a `group` of rows along the axis before
    them, is found by division. `row_step` says how many rows apart those of a group are in x.
    """
    dim = len(p.perm)
    leading = next((n for n in reversed(range(1, dim + 1)) if p.perm[n - 1] != n - 1), 0)
    place = ""
    for axis in range(leading):
        name = AXES[p.perm.index(axis)]
        outer = f"({place})" if axis > 1 else place
        place = f"{outer} * x.shape[{axis}] + {name}" if axis else name
    behind = range(p.perm[leading - 1] + 1, leading)
    return {
        "axes": AXES,
        "leading": leading,
        "row_length": " * ".join(extents[leading:]),
        "row_index": index_of("start", extents[:leading]),
        "group_index": index_of("group", extents[: max(leading - 1, 0)]),
        "row_place": place,
        "row_step": " * ".join(f"x.shape[{axis}]" for axis in behind) or "1",
    }


def index_of(number: str, extents: list[str]) -> list[tuple[str, str]]:
    """Return code for the index along each axis of what has a number, the last axis first."""
    found = []
    for axis in reversed(range(len(extents))):
        inner = "".join(f" // {extent}" for extent in reversed(extents[axis + 1 :]))
        found.append((AXES[axis], f"{number}{inner}" + (f" % {extents[axis]}" if axis else "")))
    return found

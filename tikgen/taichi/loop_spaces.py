"""Finds the indices of a parallel loop and their ranges, for changes of the loop."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import taichi as ti

from tikgen.taichi import trees

_INDEX = "tikgen_index"


class Range(NamedTuple):
    """The name of an index, the code of its first value, and of what is behind its last."""

    name: str
    start: str
    stop: str


def unravelled(left: str, ranges: Sequence[Range], own: str) -> tuple[list[str], str]:
    """Return code that finds indices from the number of a turn, and what is left for the first.

    Args:
        left: the code of the number.
        ranges: the indices, the last of which runs fastest.
        own: what names begin with; ``OWN_extent1`` is the extent of the second index.
    """
    lines = []
    for axis in range(len(ranges) - 1, 0, -1):
        name, start, _ = ranges[axis]
        extent, over = f"{own}_extent{axis}", f"{own}_left{axis}"
        lines.append(f"{over} = tikgen_ti.raw_div({left}, {extent})")
        lines.append(f"{name} = {start} + {left} - {over} * {extent}")
        left = over
    return lines, left


def indices_at(turn: str, space: Space, own: str) -> list[str]:
    """Return code that finds all indices of a loop from the number of a turn.

    Args:
        turn: the code of the number.
        space: what the loop runs over.
        own: what names begin with, as in :func:`unravelled`.
    """
    lines, left = unravelled(turn, space.ranges, own)
    return [*lines, *space.first(left)]


def product(own: str, axes: range) -> str:
    """Return the code of the product of some extents."""
    return " * ".join(f"{own}_extent{axis}" for axis in axes)


def is_constant(ranges: Sequence[Range]) -> bool:
    """Return whether all ends of ranges are numbers."""
    ends = ast.parse(", ".join(f"{one.start}, {one.stop}" for one in ranges))
    return not {n.id for n in ast.walk(ends) if isinstance(n, ast.Name)} - {"tikgen_ti"}


def extents(ranges: Sequence[Range], own: str) -> str:
    """Return code that gives ``OWN_extent0`` and so on the extents of ranges."""
    return "\n".join(
        f"{own}_extent{axis} = tikgen_ti.max({one.stop} - ({one.start}), 0)"
        for axis, one in enumerate(ranges)
    )


class Space(NamedTuple):
    """What a loop runs over.

    Attributes:
        ranges: its indices, of which the last is next to it in memory.
        vector: the name of the vector that the loop has of all indices, if it has one.
    """

    ranges: list[Range]
    vector: str

    def first(self, at: str) -> list[str]:
        """Return code that finds the first index, and the vector of all, from a number."""
        lines = [f"{self.ranges[0].name} = {self.ranges[0].start} + {at}"]
        if self.vector:
            indices = ", ".join(one.name for one in self.ranges)
            lines.append(f"{self.vector} = tikgen_ti.Vector([{indices}])")
        return lines


def space_of(loop: ast.For, axes: Mapping[str, int], names: Mapping[str, Any]) -> Space | None:
    """Return what a loop runs over, None if that is not known.

    Args:
        loop: the loop.
        axes: how many axes each array argument has.
        names: the names that Taichi finds in the kernel, and ``tikgen_ti``.
    """
    listed = trees.listed(loop.target)
    indices = [one.id for one in listed if isinstance(one, ast.Name)]
    if loop.orelse or len(set(indices)) < len(listed):
        return None
    over, vector = loop.iter, ""
    if (inner := _grouped(over, names)) is not None and len(indices) == 1:
        count = axes.get(getattr(inner, "id", ""), len(getattr(inner, "args", ())))
        vector = indices[0]
        over, indices = inner, [f"{_INDEX}{axis}" for axis in range(count)]
    ranges = _ranges(over, indices, axes, names)
    return Space(ranges, vector) if ranges else None


def _ranges(
    over: ast.expr, indices: list[str], axes: Mapping[str, int], names: Mapping[str, Any]
) -> list[Range]:
    if isinstance(over, ast.Name):
        if axes.get(over.id) != len(indices):
            return []
        return [Range(name, "0", f"{over.id}.shape[{axis}]") for axis, name in enumerate(indices)]
    if not isinstance(over, ast.Call) or over.keywords:
        return []
    if trees.called(over, names) is range:
        ends = [_index(one) for one in over.args]
        if len(indices) != 1 or not 1 <= len(ends) <= 2:
            return []
        return [Range(indices[0], *(("0", ends[0]) if len(ends) == 1 else (ends[0], ends[1])))]
    if trees.called(over, names) is not ti.ndrange or len(over.args) != len(indices):
        return []
    found = []
    for name, given in zip(indices, over.args, strict=True):
        if not isinstance(given, ast.Tuple):
            found.append(Range(name, "0", _index(given)))
        elif len(given.elts) == 2:
            found.append(Range(name, _index(given.elts[0]), _index(given.elts[1])))
        else:
            return []
    return found


def _index(end: ast.expr) -> str:
    """Return the code of the end of a range, as Taichi takes it."""
    return f"tikgen_ti.cast({ast.unparse(end)}, tikgen_ti.i32)"


def _grouped(over: ast.expr, names: Mapping[str, Any]) -> ast.expr | None:
    """Return over what a loop with one vector of indices runs, None if it is no such loop."""
    is_grouped = isinstance(over, ast.Call) and trees.called(over, names) is ti.grouped
    return over.args[0] if is_grouped and isinstance(over, ast.Call) and over.args else None

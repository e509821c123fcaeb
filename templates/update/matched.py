"""Matched layers of a problem: their arrays, the code of their statements, and their reference."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tikgen.expression.stretching import PLACES, ROWS, profile_of
from tikgen.pipeline.jinja_text import folded
from tikgen.template.boundaries import AXES
from tikgen.template.grid_use import LayersUse
from tikgen.template.matched import (
    Widths,
    along,
    gather,
    matched_widths,
    slot_code,
    spread,
    within_code,
)
from tikgen.template.once import once

from .reading import layered_of


@once
def widths_of(p: Any) -> Widths:
    """Return the widths of the matched layers of a problem, by axis."""
    return matched_widths(p.boundary, p.dim)


@once
def profile_arrays(p: Any) -> dict[str, tuple[int | str, ...]]:
    """Return the shape of each array with numbers of layers."""
    widths = widths_of(p)
    return {profile_of(axis): (PLACES, len(ROWS), sum(pair)) for axis, pair in widths.items()}


@once
def kept_arrays(p: Any) -> dict[str, tuple[int | str, ...]]:
    """Return the shape of each array with what layers keep."""
    widths = widths_of(p)
    if not widths:
        return {}
    found: dict[str, tuple[int | str, ...]] = {}
    for memory in layered_of(p).memories.values():
        extents = [f"n{axis}" for axis in range(p.dim)]
        count = max(memory.number + 1, int(found.get(memory.argument, (0,))[0]))
        shape = (sum(widths[axis]) if axis == memory.axis else n for axis, n in enumerate(extents))
        found[memory.argument] = (count, *shape)
    return found


def kept_layers(p: Any) -> dict[str, LayersUse]:
    """Return where the layers lie of which each array keeps something."""
    widths = widths_of(p)
    memories = layered_of(p).memories.values() if widths else ()
    return {memory.argument: LayersUse(memory.axis, widths[memory.axis]) for memory in memories}


def slot_name(axis: int) -> str:
    """Return what generated code calls the slot of a point in layers of an axis."""
    return f"slot_{AXES[axis]}"


def opening(p: Any, axis: int, index: list[str], extents: list[str]) -> tuple[str, str]:
    """Return the line that begins the statements of a layer, and the first of them: its slot.

    Args:
        p: the problem.
        axis: the axis of the layer.
        index: code for the index on each axis of the whole grid.
        extents: code for the extent of each axis of the whole grid.
    """
    rest = widths_of(p)[axis], index[axis], extents[axis]
    is_within = within_code(*rest, is_part=p.part is not None)
    return f"if {is_within}:", f"{slot_name(axis)} = {folded(slot_code(*rest))}"


def edge_code(p: Any, index: list[str], extents: list[str]) -> str:
    """Return code that says whether a row lies in layers of an axis before the last."""
    widths = widths_of(p)
    return " or ".join(
        within_code(pair, index[axis], extents[axis])
        for axis, pair in widths.items()
        if axis < p.dim - 1
    )


def codes(p: Any, index: list[str]) -> dict[str, str]:
    """Return code for what layers keep at a point, and for their numbers.

    Args:
        p: the problem.
        index: code for the index on each axis.
    """
    update = layered_of(p)
    found = {
        name: f"{own.argument}[{own.place}, {own.row}, {slot_name(own.axis)}]"
        for name, own in update.profiles.items()
    }
    for name, memory in update.memories.items():
        places = [*index]
        places[memory.axis] = slot_name(memory.axis)
        found[name] = f"{memory.argument}[{memory.number}, {', '.join(places)}]"
    return found


def values_in_layers(
    p: Any, given: Mapping[str, Any], shape: tuple[int, ...], widened: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return what layers keep, and their numbers, over the grid; 0 outside of layers.

    Args:
        p: the problem.
        given: the arguments of a call.
        shape: shape of the grid.
        widened: converts numbers to the dtype of a reference.
    """
    update, widths, part = layered_of(p), widths_of(p), in_whole(p)
    found: dict[str, Any] = {}
    for name, own in update.profiles.items():
        row = widened(given[own.argument])[own.place, own.row]
        whole = (part[own.axis],) if part else None
        values = spread(row, 0, widths[own.axis], (shape[own.axis],), whole)
        found[name] = along(values, own.axis, p.dim)
    for name, memory in update.memories.items():
        kept = widened(given[memory.argument])[memory.number]
        found[name] = spread(kept, memory.axis, widths[memory.axis], shape, part)
    return found


def kept_in_layers(
    p: Any, before: Mapping[str, Any], new: Mapping[str, Any], computed: tuple[slice, ...]
) -> dict[str, Any]:
    """Return the arrays with what layers keep, with new values at the points that are computed.

    Args:
        p: the problem.
        before: what the arrays hold elsewhere; they are changed.
        new: new values over the grid, by their names in the assignments.
        computed: the points that are computed.
    """
    widths, found = widths_of(p), {}
    for name, memory in layered_of(p).memories.items():
        found[memory.argument] = whole = before[memory.argument]
        rest = widths[memory.axis], computed, in_whole(p)
        gather(whole[memory.number], new[name], memory.axis, *rest)
    return found


def in_whole(p: Any) -> Any:
    """Return where the points of arrays lie on the whole grid; None if they hold all of it."""
    return tuple((first, points) for *_, first, points in p.part) if p.part else None


def shape_kept(p: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return zeros in the shapes of what layers keep."""
    return {name: np.zeros(np.shape(given[name])) for name in kept_arrays(p)}

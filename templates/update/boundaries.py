"""The boundary of a problem: rules for each array, and how far equations reach."""

from collections.abc import Mapping
from typing import Any

from tikgen.expression import Update
from tikgen.expression.components import by_component
from tikgen.template.base import SIZES
from tikgen.template.boundaries import (
    MIRRORS,
    TO_WALL,
    between_walls,
    faces_in,
    rules_in,
    sides_of,
)
from tikgen.template.matched import matched_widths
from tikgen.template.once import once

from .reading import boundary_of, ghosts_of, update_of

# How many points of both ends of a row have neighbours outside, from which on copies pay.
FAR_ENDS = 4
# The same where numbers stand for whole rows outside.
FAR_ENDS_AT_FACES = 6
# The rule of a side beyond which nothing is read.
INTERIOR = ("interior", 0)


@once
def boundary_names(p: Any) -> tuple[str, ...]:
    """Return the scalars and the arrays over faces that boundary rules take."""
    names = [number for _, number in rules_in(boundary_of(p)) if isinstance(number, str)]
    return tuple(dict.fromkeys(names))


@once
def faces_of(p: Any) -> dict[str, tuple[int, ...]]:
    """Return the axes of the faces over which arrays have values, by the name of the array."""
    return faces_in(boundary_of(p), p.dim, p.scalars)


def place_of(p: Any, field: str) -> str:
    """Return where a field lies."""
    return str(by_component(p.at, p.vectors or {}).get(field, "centre"))


def fields_of(update: Update) -> list[str]:
    """Return the arrays of which a neighbour is read."""
    return [name for name in update.arrays if any(map(any, update.offsets(name)))]


@once
def rules_of(p: Any, update: Update) -> dict[str, list[tuple[Any, Any]]]:
    """Return the rules of each array of which a neighbour is read, a pair for each axis.

    Nothing lies outside where arrays have ghost points, and nothing is periodic about them.
    """
    boundary, found = boundary_of(p), {}
    for name in fields_of(update):
        pairs = sides_of(boundary, name, p.dim, place_of(p, name))
        found[name] = [
            between_walls(
                *(
                    INTERIOR if ghosts or (any(both) and rule[0] == "periodic") else rule
                    for rule, ghosts in zip(pair, both, strict=True)
                )
            )
            for pair, both in zip(pairs, ghosts_of(p), strict=True)
        ]
    return found


@once
def rules_in_use(p: Any, update: Update) -> dict[str, list[tuple[Any, Any]]]:
    """Return the rules of each array, with "interior" where no point needs what lies outside.

    So it is where the equations reach at least as far into another array of that rule.
    """
    interior, found = reach(p, update, inside=True), {}
    for name, pairs in rules_of(p, update).items():
        found[name] = []
        for axis, (low, high) in enumerate(pairs):
            is_low, is_high = (
                most > least
                for most, least in zip(furthest(update, name, axis), interior[axis], strict=True)
            )
            is_high |= is_low and low[0] in TO_WALL
            found[name].append((low if is_low else INTERIOR, high if is_high else INTERIOR))
    return found


def furthest(update: Update, name: str, axis: int) -> tuple[int, int]:
    """Return how far the equations reach into an array, below and above along an axis."""
    steps = [offset[axis] for offset in update.offsets(name)]
    return max(0, -min(steps)), max(0, max(steps))


def reads_of(update: Update, name: str, axis: int, pair: Any) -> tuple[int, int]:
    """Return how far an array is read below and above a point along an axis.

    Where a rule mirrors, it may be read as far on the other side.
    """
    below, above = furthest(update, name, axis)
    return (max(below, above),) * 2 if any(kind in MIRRORS for kind, _ in pair) else (below, above)


def sizes(p: Any) -> dict[str, tuple[int, ...]]:
    """Return the extents to verify: few that leave hardly a point far from the edges, and more."""
    update, found = update_of(p), {}
    both = (reach(p, update, inside) for inside in (True, False))
    for axis, (inside, outside) in enumerate(zip(*both, strict=True)):
        edge, most = sum(inside), max(sum(inside), sum(outside))
        usual = SIZES[p.dim - 1]
        own = {1, edge + 1, most, most + 1, *outside} | {edge + size for size in usual[1:]}
        if axis == 0 and p.dim == 3:  # A thread of a GPU takes up to 16 points along it.
            own.add(most + 33)
        if p.part:  # No larger than the whole grid.
            _, _, first, points = p.part[axis]
            own = {size for size in own if first + size <= points} | {1}
        found[f"n{axis}"] = tuple(sorted(own - {0}))
    return found


def largest_sizes(p: Any) -> dict[str, int]:
    """Return the extents of parts of a grid that end with it, along axes with matched layers.

    Behind the grid these have no slots.
    """
    if not p.part:
        return {}
    wholes = {axis: p.part[axis] for axis in matched_widths(p.boundary, p.dim)}
    return {f"n{axis}": max(points - first, 1) for axis, (*_, first, points) in wholes.items()}


def reach(
    p: Any, update: Update, inside: bool, rules: Mapping[str, Any] | None = None
) -> list[tuple[int, int]]:
    """Return how far the equations reach below and above each axis.

    Ghost points count as within reach of the inside: they are read, and not computed.

    Args:
        p: the problem.
        update: what its equations become.
        inside: whether only sides with the rule "interior" count, or only the others.
        rules: the rules of each array, by default those of the problem.
    """
    found = [list(both) if inside else [0, 0] for both in ghosts_of(p)]
    for name, pairs in (rules or rules_of(p, update)).items():
        for axis, pair in enumerate(pairs):
            for side, most in enumerate(furthest(update, name, axis)):
                if (pair[side][0] == "interior") == inside:
                    found[axis][side] = max(found[axis][side], most)
    return [(low, high) for low, high in found]


def end_size(margins: tuple[int, int]) -> int:
    """Return how many points of an end are computed from copies: full registers of a processor."""
    return -(-max(margins) // 4) * 4


def margins_of(p: Any, update: Update, rules: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return how many points at each end of an axis are near an edge, or in a matched layer.

    In a part, as many at the upper end as there are if the part ends where the grid does.
    """
    found, widths = reach(p, update, inside=False, rules=rules), matched_widths(p.boundary, p.dim)
    for axis, (low, high) in widths.items():
        _, ghosts, first, _ = p.part[axis] if p.part else (0, 0, 0, 0)
        below, above = found[axis]
        found[axis] = (
            max(below, low - first if low else 0),
            max(above, high + ghosts if high else 0),
        )
    return found

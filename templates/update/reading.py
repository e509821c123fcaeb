"""What the equations of a problem become on its grid."""

from collections.abc import Mapping
from typing import Any

from tikgen.dtypes import DType
from tikgen.expression import Update
from tikgen.expression.components import by_component, part_of
from tikgen.template.boundaries import is_by_field, sides_of, with_constants
from tikgen.template.matched import matched_axes
from tikgen.template.once import once


@once
def update_of(
    p: Any, is_masked: bool = True, is_layered: bool = False, dtype: DType | None = None
) -> Update:
    """Return what the equations become on the grid of a problem.

    Args:
        p: the problem.
        is_masked: whether points of the mask are left alone.
        is_layered: whether matched layers stretch derivatives, where there are such layers.
        dtype: where it is given, what cannot be computed in it is refused.
    """
    return p.equations.on(
        dim=p.dim,
        order=p.order,
        spacing=spacing_of(p),
        scalars=p.scalars,
        constants=p.constants,
        at=p.at,
        outputs=p.outputs,
        mask=p.mask if is_masked else None,
        vectors=p.vectors,
        where={name: condition.text for name, condition in (p.where or {}).items()},
        layers=_layers_of(p) if is_layered else None,
        arrays=(*(p.types or ()), *(p.boundary if is_by_field(p.boundary) else ())),
        walls=_walls_of(p),
        dtype=dtype,
    )


def layered_of(p: Any) -> Update:
    """Return what the equations become within matched layers, the same where there are none."""
    return update_of(p, is_layered=True) if _layers_of(p) else update_of(p)


@once
def _layers_of(p: Any) -> Mapping[str, frozenset[int]]:
    """Return the axes with matched layers for each field; those of all fields for ""."""
    return matched_axes(rules_by_component(p), p.dim)


@once
def _walls_of(p: Any) -> Mapping[str, Mapping[int, float | str]]:
    """Return what fields on lower walls are there, by axis, where a rule says it."""
    boundary, found = boundary_of(p), {}
    for name, place in by_component(p.at, p.vectors or {}).items():
        if is_by_field(boundary) and name not in boundary:
            continue
        pairs = zip(sides_of(boundary, name, p.dim, place), origin_of(p), strict=True)
        found[name] = {
            axis: low[1]
            for axis, ((low, _), first) in enumerate(pairs)
            if low[0] == "opposite" and first <= 0
        }
    return {name: walls for name, walls in found.items() if walls}


@once
def boundary_of(p: Any) -> Any:
    """Return the boundary, with numbers for constants, and rules for each component of a vector."""
    numbers = {n: v for n, v in (p.constants or {}).items() if not isinstance(v, tuple)}
    return with_constants(rules_by_component(p), numbers)


@once
def rules_by_component(p: Any) -> Any:
    """Return the boundary with rules for each component of a vector."""
    return by_component(p.boundary, p.vectors or {}) if is_by_field(p.boundary) else p.boundary


@once
def spacing_of(p: Any) -> tuple[float, ...]:
    """Return the distance between points on each axis."""
    return p.spacing if isinstance(p.spacing, tuple) else (p.spacing,) * p.dim


def ghosts_of(p: Any) -> list[tuple[int, int]]:
    """Return how many ghost points arrays have below and above each axis."""
    return [(low, high) for low, high, *_ in p.part or [(0, 0)] * p.dim]


def origin_of(p: Any) -> tuple[int, ...]:
    """Return the index of the first point of arrays on the whole grid."""
    return tuple(first for _, _, first, _ in p.part) if p.part else (0,) * p.dim


def shape_of(p: Any, update: Update, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of the grid."""
    return part_of(given, next(iter(update.arrays)), p.layout).shape

"""What the equations of a problem become on its grid."""

from collections.abc import Mapping
from typing import Any

from tikgen import DType
from tikgen.expression import Update
from tikgen.expression.components import part_of, vector_of


def update_of(p: Any, is_masked: bool = True) -> Update:
    """Return what the equations become on the grid of a problem."""
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
    )


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


def type_of(p: Any, name: str) -> DType:
    """Return the type of the array that holds an array or a component."""
    dtype: DType = (p.types or {}).get(vector_of(name), DType.u8 if name == p.mask else p.dtype)
    return dtype

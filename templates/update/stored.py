"""The types of the arrays of a problem."""

from collections.abc import Iterator, Mapping
from typing import Any

from tikgen import DType
from tikgen.expression.components import vector_of
from tikgen.expression.spelling import shown
from tikgen.template.boundaries import TO_WALL, between_walls, is_by_field, sides_of
from tikgen.template.once import once

from .boundaries import place_of
from .reading import boundary_of, update_of
from .states import States, holds, states_of


def type_of(p: Any, name: str) -> DType:
    """Return the type of the array that holds an array or a component."""
    computed: DType = p.dtype
    if (given := _given_type(p, name)) is not None:
        return given
    of_field = _given_type(p, update_of(p).fields.get(name, name)) or computed
    # A next value has the type of its field, unless one is whole and the other is not.
    if of_field.is_float == computed.is_float:
        return of_field
    is_state = computed.is_float and holds(of_field, states_in(p).get(name))
    return of_field if is_state else computed


def _given_type(p: Any, name: str) -> DType | None:
    """Return the type that is given for an array or a component."""
    types: Mapping[str, DType] = p.types or {}
    return types.get(vector_of(name), DType.u8 if name == p.mask else None)


@once
def states_in(p: Any) -> Mapping[str, States]:
    """Return the least and the greatest number of each value, or why it is no state."""
    return states_of(
        update_of(p),
        lambda array: _given_type(p, array) or p.dtype,
        p.dtype,
        lambda array, offset: _outside(p, array, offset),
    )


def _outside(p: Any, array: str, offset: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the rules of the sides beyond which a neighbour may lie, of the whole grid.

    So all processes that share it find the same types.
    """
    boundary = boundary_of(p)
    if any(offset) and is_by_field(boundary) and array not in boundary:
        yield "", 0
    elif any(offset):
        pairs = sides_of(boundary, array, p.dim, place_of(p, array))
        for pair, step in zip(pairs, offset, strict=True):
            low, high = between_walls(*pair)
            if step:
                yield high if step > 0 else low
            if step < 0 and TO_WALL.get(low[0]) == "reflect":
                yield "value", high[1]


def why_computed(p: Any, name: str) -> str:
    """Return why the next value of a field of integers is a float, or nothing."""
    update = update_of(p)
    field = update.fields.get(name)
    of_field = _given_type(p, field) if field and name in update.outputs else None
    if of_field is None or of_field.is_float or not type_of(p, name).is_float:
        return ""
    found = states_in(p).get(name)
    reason = found if isinstance(found, str) else "it lies from {} to {}".format(*(found or (0, 0)))
    return f"the next value of {shown(vector_of(str(field)))} is no {of_field}: {reason}"

"""The equations as generated code."""

from collections.abc import Callable, Collection
from typing import Any

from tikgen import DType
from tikgen.expression import Expression, Update
from tikgen.expression.helpers import definition
from tikgen.expression.layout import broken
from tikgen.expression.walls import index_on, off_walls
from tikgen.template.layers import Layer, faded_code, layers_in, near_code
from tikgen.template.totals import totals_of

from . import matched
from .arguments import identifiers
from .boundaries import faces_of, place_of
from .reading import boundary_of, layered_of, origin_of, update_of
from .stored import type_of

WIDENED = '''\
@ti.func
def widened(number: ti.i32):
    """Return a number in 64 bits, in two parts: Mesa compares a plain cast wrongly."""
    return ti.cast(number >> 1, ti.i64) * ti.i64(2) + ti.cast(number & 1, ti.i64)'''


def statements(
    p: Any,
    read: Callable[[str, tuple[int, ...]], str],
    target: Callable[[str], str],
    index: list[str],
    extents: list[str] | None,
    of: str = "",
    unless: str = "",
    is_layered: bool = False,
    off: Collection[int] = (),
) -> str:
    """Return generated code that computes and stores all outputs at one point.

    Args:
        p: the problem.
        read: returns the code for the value of an array at an offset.
        target: returns the code for the element of an output.
        index: code for the index on each axis.
        extents: code for the extent of each axis; without it no absorbing layer is applied.
        of: code for the element of a reduction's variable.
        unless: code that says whether reductions have seen the point before.
        is_layered: whether the point may lie in a matched layer.
        off: axes of which the point is not the first.
    """
    update = layered_of(p) if is_layered else update_of(p)
    layers = layers_in(boundary_of(p), update.fields, p.dim) if extents else {}
    totals = {total.name: total for total in totals_of(update.reductions, p.dtype)}
    folded = update.assignments.folded(p.dtype).assignments
    if known_off := [axis for axis in off if index_on(axis) in update.indices]:
        folded = tuple((n, Expression(off_walls(e.node, known_off))) for n, e in folded)
    values = {name: scalar_code(p, name) for name in p.scalars}
    for face, axes in faces_of(p).items():
        place = [name for axis, name in enumerate(index) if axis not in axes]
        values[face] = cast_of(type_of(p, face), p.dtype) % f"{face}[{', '.join(place) or 0}]"
    known = identifiers(p, update)
    for letter, axis in update.indices.items():
        is_long, place = p.dtype is DType.i64, on_whole(p, index)[axis]
        values[letter] = f"widened({place})" if is_long else f"ti.cast({place}, {p.dtype.taichi})"
    for name, (array, offset) in update.accesses.items():
        values[name] = read(array, offset)
    values |= matched.codes(p, index) if is_layered else {}
    last_read = {name: place for place, (_, later) in enumerate(folded) for name in later.names}
    lines = []
    within = None
    for number, (name, expression) in enumerate(folded):
        axis, before = update.within.get(number), within
        within = axis
        if axis is not None:
            if axis != before:
                place = on_whole(p, index), extents_of_whole(p, extents or [])
                head, slot = matched.opening(p, axis, *place)
                lines += [head, f"    {slot}"]
            element = values.get(name, "")
            code = expression.taichi(values, p.dtype)
            values[name] = known[name]
            lines += ("    " + line for line in broken(f"{known[name]} = {code}").splitlines())
            if name in update.memories:
                lines.append(f"    {element} = {known[name]}")
            continue
        code = expression.taichi(values, p.dtype)
        is_read = last_read.get(name, number) > number
        if name in totals:
            lines.append(broken(totals[name].take(code, of, unless)))
        elif name in update.outputs:
            dtype = type_of(p, name)
            if is_read:
                local = free_name(update, f"new_{known[name]}")
                lines.append(broken(f"{local} = {code}"))
                values[name] = code = local
            if name in layers and extents:
                local = free_name(update, f"faded_{known[name]}")
                lines.append(broken(f"{local} = {code}"))
                near = near_code(layers[name], on_whole(p, index), extents_of_whole(p, extents))
                lines.append(f"if {near}:")
                code = damped_code(p, name, local, read, index, extents, is_stored=False)
                lines += ("    " + line for line in broken(f"{local} = {code}").splitlines())
                code = local
            if dtype is not p.dtype:
                code = f"ti.cast({code}, {dtype.taichi})"
            lines.append(broken(f"{target(name)} = {code}"))
        elif is_read:
            lines.append(broken(f"{known[name]} = {code}"))
            values[name] = known[name]
    return "\n".join(lines)


def damped_code(
    p: Any,
    name: str,
    value: str,
    read: Callable[[str, tuple[int, ...]], str],
    index: list[str],
    extents: list[str],
    is_stored: bool = True,
    layers: list[Layer] | None = None,
) -> str:
    """Return generated code for the new value of an array, with the damping of its layers.

    Args:
        p: the problem.
        name: the array.
        value: code of its new value.
        read: returns the code for the value of an array at an offset.
        index: code for the index on each axis.
        extents: code for the extent of each axis.
        is_stored: whether ``value`` and the result are of the type of the array.
        layers: those in which the point may lie, by default all of the field.
    """
    update, centre = update_of(p), (0,) * p.dim
    field, stored = update.fields[name], type_of(p, name)
    layers = layers or layers_in(boundary_of(p), update.fields, p.dim)[name]
    new = cast_of(stored, p.dtype) % value if is_stored else value
    before = read(name, centre) if layers[0][-1] == 2 else ""
    place = on_whole(p, index), extents_of_whole(p, extents), place_of(p, field)
    code = faded_code(layers, new, before, *place, p.dtype)
    if p.mask:
        is_set = f"{read(p.mask, centre)} != {p.dtype.literal(0)}"
        code = f"ti.select({is_set}, {new}, {code})"
    return f"ti.cast({code}, {stored.taichi})" if is_stored and stored is not p.dtype else code


def on_whole(p: Any, index: list[str]) -> list[str]:
    """Return code for the index on each axis of the whole grid."""
    parts = zip(index, origin_of(p), strict=True)
    return [f"{name} + {first}".replace("+ -", "- ") if first else name for name, first in parts]


def extents_of_whole(p: Any, extents: list[str]) -> list[str]:
    """Return code for the extent of each axis of the whole grid."""
    return [str(points) for *_, points in p.part] if p.part else extents


def scalar_code(p: Any, name: str) -> str:
    """Return generated code for the value of a scalar."""
    return f"{name}[0]" if name in p.on_device else name


def cast_of(dtype: DType, working: DType) -> str:
    """Return a pattern for the code of an element as a number of the working dtype."""
    if dtype is working:
        return "%s"
    if (dtype, working) in ((DType.f16, DType.f32), (DType.i32, DType.i64)):
        return "widened(%s)"
    return f"ti.cast(%s, {working.taichi})"


def widened_helper(p: Any, update: Update) -> str:
    """Return the definition of what widens numbers that a plain cast does not, if it is used."""
    types = (p.types or {}).values()
    if p.dtype is DType.i64 and (update.indices or DType.i32 in types):
        return WIDENED
    return definition("widened", DType.f32) if DType.f16 in types else ""


def free_name(update: Update, name: str) -> str:
    """Return ``name``, or a longer one where a user's name is in the way."""
    taken = {*update.inputs, *update.outputs, *update.temporaries}
    return free_name(update, name + "_") if name in taken else name

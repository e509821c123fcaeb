"""What lies outside of an array, as generated code.

``step`` leads away from the index ``name`` along one axis. A rule, as
:func:`tikgen.template.boundaries.rule_in_code` returns it, says what is found there. With
"interior" no point is computed whose neighbours lie outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from tikgen.dtypes import DType
from tikgen.template.boundaries import ELEMENTS, MIRRORS, TO_WALL

# Returns the code of an element of an array by its indices.
Read = Callable[[str, Sequence[str]], str]
# Returns the code of the index on an axis that is taken instead of ``step`` away from ``name``.
Find = Callable[[str, int, str, SimpleNamespace], str]
# Code for the mirror image of a place, beyond the lower and the upper end of an axis.
_IMAGES = {
    "mirrored": ("ti.abs({0})", "ti.min({0}, 2 * {1} - 2 - ({0}))"),
    "mirrored_at_wall": ("ti.max({0}, -1 - ({0}))", "ti.min({0}, 2 * {1} - 1 - ({0}))"),
    "mirrored_beyond": ("ti.abs({0})", "ti.min({0}, 2 * {1} - ({0}), {1} - 1)"),
}


def moved(name: str, step: int) -> str:
    """Return code for an index some steps away."""
    return f"{name} {'+' if step > 0 else '-'} {abs(step)}" if step else name


def stand_in(name: str, step: int, extent: str, kind: str, is_long: bool = False) -> str:
    """Return code for the index of what is taken instead; inside it is the index itself.

    Args:
        name: code for the index of the point.
        step: how far from it.
        extent: code for the extent of the axis.
        kind: the kind of the rule of that side.
        is_long: whether the axis has more points than the step is long. The remainder of a
            division, which is needed otherwise, would take longer than the equations of a point.
    """
    place = moved(name, step)
    if step == 0 or kind == "interior":
        return place
    if kind == "periodic":
        if not is_long:
            return _wrapped(name, step, extent)
        wrapped = f"{place} - {extent}" if step > 0 else f"{place} + {extent}"
        return f"ti.select({_is_outside(name, step, extent)}, {wrapped}, {place})"
    if kind in MIRRORS:
        if is_long:
            return _IMAGES[MIRRORS[kind]][step > 0].format(place, extent)
        return f"{MIRRORS[kind]}({place}, {extent})"
    return f"ti.min({place}, {extent} - 1)" if step > 0 else f"ti.max({place}, 0)"


def in_place_of(name: str, step: int, extent: str, rule: SimpleNamespace) -> str:
    """Return code for the index that a rule takes instead."""
    return stand_in(name, step, extent, rule.kind, rule.is_long)


def on_long_axis(rule: SimpleNamespace) -> SimpleNamespace:
    """Return a rule for an axis that has more points than any step is long."""
    return SimpleNamespace(**vars(rule) | {"is_long": True})


def _wrapped(name: str, step: int, extent: str) -> str:
    """Return code for the index on a periodic axis.

    Of an index that it knows, as in a loop of one turn, Taichi truncates the quotient where the
    dividend is negative, so none is.
    """
    place = moved(name, step)
    if step == 1:
        return f"ti.select({place} < {extent}, {place}, 0)"
    if step > 0:
        return f"({place}) % {extent}"
    if step == -1:
        return f"ti.select({name} < 1, {extent} - 1, {place})"
    before = f"{-step - 1} - " + (f"({name})" if " " in name else name)
    return f"ti.select({name} < {-step}, {extent} - 1 - ({before}) % {extent}, {place})"


def _is_outside(name: str, step: int, extent: str) -> str:
    return f"{moved(name, step)} {f'>= {extent}' if step > 0 else '< 0'}"


def _distance(name: str, step: int, extent: str) -> str:
    """Return code that says how far outside it is, 0 or less inside."""
    return f"{name} + {step + 1} - {extent}" if step > 0 else f"{-step} - {name}"


def value(
    read: Read,
    array: str,
    work: DType,
    index: Sequence[str],
    extents: Sequence[str],
    offset: Sequence[int],
    rules: Sequence[Any],
    places: tuple[str, ...] = (),
    leading: Sequence[str] = (),
    find: Find = in_place_of,
) -> str:
    """Return code for the value of an array at an offset from a point.

    The rule of the last axis is applied last.

    Args:
        read: returns the code of an element.
        array: the array.
        work: the dtype in which is computed.
        index: code for the index of the point on each axis.
        extents: code for the extent of each axis.
        offset: the steps along each axis.
        rules: a pair of rules for each axis.
        places: code for the indices on the axes behind these.
        leading: code for the indices on the axes before these.
        find: returns the index that is taken instead.
    """
    if not index:
        return read(array, places)
    name, extent, step = index[-1], extents[-1], offset[-1]
    rule = rules[-1][step > 0]
    others = index[:-1], extents[:-1], offset[:-1], rules[:-1]

    def at(place: str) -> str:
        return value(
            *(read, array, work, *others), places=(place, *places), leading=leading, find=find
        )

    found = at(find(name, step, extent, rule))
    if not step or rule.kind in ELEMENTS:
        return found
    number, middle = rule.number, rule.value
    face = _over_face(*others, leading=leading, places=places, find=find)
    if rule.over_face:
        number, middle = number % face, middle % face
    outside = _is_outside(name, step, extent)
    # On a long axis no place outside but the upper wall itself has its mirror image there.
    on_wall = f"{moved(name, step)} == {extent}"
    if not rule.is_long and (step < 0 or step > 2):
        on_wall = f"ti.abs({moved(name, step)}) % (2 * {extent}) == {extent}"
    if rule.kind in TO_WALL and not rule.is_long:
        wall = rules[-1][1].value
        found = f"ti.select({on_wall}, {wall % face if rules[-1][1].over_face else wall}, {found})"
    kind = TO_WALL.get(rule.kind, rule.kind)
    match kind:
        case "reflect":
            return found
        case "value":
            return f"ti.select({outside}, {number}, {found})"
        case "flux" | "wall_flux":
            steps = _distance(name, step, extent)
            steps = steps if kind == "flux" else f"2 * ({steps}) - 1"
            return f"({found} + ti.cast(ti.max({steps}, 0), {work.taichi}) * {number})"
        case "antireflect":
            edge = at(f"{extent} - 1" if step > 0 else "0")
            return f"ti.select({outside}, {work.literal(2)} * {edge} - {found}, {found})"
    # Opposite to the mirror image, which stands in the text once; `number` is twice the value in
    # the middle, or nothing.
    both = f"ti.select({outside}, {work.literal(-1)}, {work.literal(1)}) * {found}"
    if number:
        both = f"ti.select({outside}, {number}, {work.literal(0)}) + {both}"
    if rule.kind == "beyond":
        return f"ti.select({on_wall}, {middle}, {both})"
    return f"({both})"


def _over_face(
    index: Sequence[str],
    extents: Sequence[str],
    offset: Sequence[int],
    rules: Sequence[Any],
    leading: Sequence[str],
    places: Sequence[str],
    find: Find,
) -> str:
    """Return code for the indices of a number over the face of the axis behind these."""
    each = zip(index, offset, extents, rules, strict=True)
    found = [find(name, step, extent, pair[step > 0]) for name, step, extent, pair in each]
    return ", ".join([*leading, *found, *places]) or "0"

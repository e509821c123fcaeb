"""Absorbing layers: near a side, what a field becomes is damped, the more the further out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.errors import InvalidValue, near
from tikgen.template.boundaries import is_by_field, is_rule_beyond, lies_on_walls, side_rules
from tikgen.template.parameters import Invalid
from tikgen.template.written_rules import is_number

WIDEST = 10_000
# A point near a side of its axis: an index and how far that is from the lower or the upper end.
_OF_A_SIDE = re.compile(r"([^<>()]+ (?:<|>=? [^<>()]+ -)) (\d+)")

# The index of the first point on the whole grid, and the extent of that, for each axis.
Part = tuple[tuple[int, int], ...]
# Axis, whether at its upper side, width in points, strength, order of the equation in time.
Layer = tuple[int, bool, int, float, int]


def absorbing(
    width: int,
    strength: float | None = None,
    beyond: Any = "zero",
    order: Literal[1, 2] = 1,
    kind: Literal["sponge", "cpml"] = "sponge",
) -> tuple[Any, ...]:
    """Return the rule by which waves fade away within a layer inside of a side.

    A layer of kind "sponge" damps fields: after each update, the new value of the field is
    multiplied by ``1 - strength * s**2``, where s grows from 0 at the inner edge of the layer to 1
    at the outer one (Cerjan, Kosloff, Kosloff and Reshef, Geophysics 50, 1985, to leading order).
    Where layers overlap, both damp.

    A layer of kind "cpml" is a convolutional perfectly matched layer: there, derivatives across the
    side are those of stretched coordinates, for fields with the rule, and far less comes back. The
    kernel takes arrays for it, which :func:`tikgen.matched_layers` makes.

    Args:
        width: number of points of the layer.
        strength: what a value loses at the outer edge at each update, above 0 and at most 1. By
            default it is ``2 / width``: a wave that runs half a point an update comes back with
            less than a hundredth of its energy.
        beyond: the rule for what lies outside.
        kind: "sponge" or "cpml". The strength and the order are those of a sponge.
        order: order of the equation in time. With 1 every field of a system of first order should
            have the same layers. With 2 a field is updated in place from its value two updates ago,
            as in ``old = 2*p - old + c*lap(p)``, and what it gains is damped; with 1 a quarter of
            the energy would come back.

    Raises:
        InvalidValue: if the width, the strength or the order is out of range, or if a layer of kind
            "cpml" is given a strength or an order.
    """
    problem = None
    if kind not in ("sponge", "cpml"):
        problem = "kind", f"takes 'sponge' or 'cpml'; got {kind!r}"
    elif kind == "cpml" and (strength is not None or order != 1):
        instead = "tikgen.matched_layers takes what says how such a layer absorbs"
        problem = "kind", f"'cpml' takes no strength and no order; {instead}"
    if not is_rule_beyond(beyond):
        problem = (
            "beyond",
            f"takes the rule of a side without layer, such as 'zero'; got {beyond!r}",
        )
    problem = problem or _problem(width, 1 if strength is None else strength, order)
    if problem:
        name, takes = problem
        raise InvalidValue("absorbing", {name: takes})
    if kind == "cpml":
        return "cpml", width, beyond
    if strength is None:
        strength = min(1.0, 2 / width)
    return "absorbing", width, strength, order, beyond


def _problem(width: Any, strength: Any, order: Any) -> tuple[str, str] | None:
    """Return the name of what is wrong with a layer, and what it takes, or None."""
    if not is_number(width) or not 1 <= width <= WIDEST or width != int(width):
        return "width", f"takes a whole number of points from 1 to {WIDEST}; got {width!r}"
    if not is_number(strength) or not 0 < strength <= 1:
        return "strength", f"takes a number above 0 and at most 1; got {strength!r}"
    return None if order in (1, 2) else ("order", f"takes 1 or 2; got {order!r}")


def layers_of(boundary: Any, name: str, dim: int) -> list[Layer]:
    """Return the absorbing layers of a field."""
    given = boundary.get(name) if is_by_field(boundary) else boundary
    found = []
    for axis in range(dim):
        for is_upper, rule in enumerate(side_rules(given, axis)):
            if isinstance(rule, tuple) and rule[0] == "absorbing":
                found.append((axis, bool(is_upper), *rule[1:4]))
    return found


def layers_in(boundary: Any, fields: Mapping[str, str], dim: int) -> dict[str, list[Layer]]:
    """Return the layers of each array that is damped, for the field of each array."""
    found = {array: layers_of(boundary, field, dim) for array, field in fields.items()}
    return {array: layers for array, layers in found.items() if layers}


def layers_beyond(
    layers: Mapping[str, list[Layer]], axis: int, ends: tuple[int, int]
) -> dict[str, list[Layer]]:
    """Return the layers in which points may lie that are some points away from the ends of an axis.

    Args:
        layers: those of each array.
        axis: the axis.
        ends: how far away the points are from its lower and its upper end at least.
    """
    found = {
        array: [layer for layer in own if layer[0] != axis or layer[2] > ends[layer[1]]]
        for array, own in layers.items()
    }
    return {array: own for array, own in found.items() if own}


def check_layers(boundary: Any, fields: Mapping[str, str], dim: int, dtype: DType) -> None:
    """Raise :class:`Invalid` for layers that damp nothing or do not fit.

    Args:
        boundary: what a user wrote.
        fields: the field of each array that is written and is a field.
        dim: number of axes.
        dtype: the dtype in which is computed.
    """
    names = tuple(boundary) if is_by_field(boundary) else ("",)
    for name in names:
        layers = layers_of(boundary, name, dim)
        known = tuple(fields.values())
        if layers and name not in known and (name or not known):
            raise Invalid(
                "boundary",
                f"absorbs {name or 'all fields'}, and the equations write no next value of that."
                f"{near(name, known)}",
            )
        for _, _, *layer in layers:
            if problem := _problem(*layer):
                raise Invalid("boundary", f"has a layer whose {' '.join(problem)}")
    for array, layers in layers_in(boundary, fields, dim).items():
        field, orders = fields[array], {order for *_, order in layers}
        if not dtype.is_float:
            raise Invalid("boundary", f"absorbs {field}, which needs a float dtype; got {dtype}")
        if len(orders) > 1:
            raise Invalid("boundary", f"absorbs {field} with order 1 and 2; one holds for a field")
        if orders == {2} and field != array:
            raise Invalid(
                "boundary",
                f"absorbs {field} with order 2, which needs a field that is updated in place from "
                f'its value two updates ago, as in "old = 2*{field} - old + c*lap({field})"',
            )


def near_code(layers: list[Layer], index: list[str], extents: list[str], size: int = 1) -> str:
    """Return code that says whether a point, or one of ``size`` in a row, lies in a layer."""
    parts = []
    for axis, is_upper, width, *_ in layers:
        name, extent = index[axis], extents[axis]
        if not is_upper:
            parts.append(f"{name} < {width}")
        elif size > 1 and axis == len(index) - 1:
            parts.append(f"{name} + {size} > {extent} - {width}")
        else:
            parts.append(f"{name} >= {extent} - {width}")
    return any_of(parts)


def any_of(conditions: Iterable[str]) -> str:
    """Return code that says whether a condition holds, without those that others contain.

    ``i >= n - 9`` says all that ``i >= n - 3`` says. Each condition may be several already.
    """
    widest: dict[str, int | None] = {}
    for condition in " or ".join(filter(None, conditions)).split(" or "):
        found = _OF_A_SIDE.fullmatch(condition)
        side, width = (found[1], int(found[2])) if found else (condition, None)
        if width is not None and (known := widest.get(side)) is not None:
            width = max(width, known)
        widest[side] = width
    return " or ".join(s if width is None else f"{s} {width}" for s, width in widest.items())


def faded_code(
    layers: list[Layer],
    value: str,
    before: str,
    index: list[str],
    extents: list[str],
    place: str,
    dtype: DType,
) -> str:
    """Return code for a value in layers, after an update.

    Args:
        layers: those of the field.
        value: code of the new value.
        before: code of the value before the update.
        index: code for the index on each axis.
        extents: code for the extent of each axis.
        place: where the field lies, such as "face x".
        dtype: the dtype in which is computed.
    """
    factors = []
    for axis, is_upper, width, strength, _ in layers:
        name = f"({index[axis]})" if " " in index[axis] else index[axis]
        # In halves of a point, because what lies on faces lies half a point further down.
        edge = 2 * width + is_upper
        if lies_on_walls(place, axis) == is_upper:
            edge -= 1
        depth = f"{edge} - 2 * {name}"
        if is_upper:
            depth = f"2 * {name} + {edge} - 2 * {extents[axis]}"
        rate = dtype.literal(strength / (2 * width) ** 2)
        factors.append(f"({dtype.literal(1)} - faded({depth}, {rate}))")
    product = " * ".join(factors)
    if layers[0][-1] == 2:
        # Nothing is taken from a value outside of layers, so that it keeps its bits.
        return f"{value} - ({value} - {before}) * ({dtype.literal(1)} - {product})"
    return f"{value} * {product}"


def with_layers(
    new: Mapping[str, Any],
    layers: Mapping[str, list[Layer]],
    places: Mapping[str, str],
    given: Mapping[str, Any],
    mask: npt.NDArray[Any] | None,
    part: Part | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Return the values of arrays after an update, with the damping of their layers.

    Args:
        new: values that the equations give.
        layers: those of each array.
        places: where each array lies, such as "face x".
        given: arrays before the update.
        mask: says which points are left alone, where it is not 0; None for none.
        part: the part of a larger grid that arrays hold; None for all of it.
    """
    found = {}
    for name, own in layers.items():
        value = new[name]
        factor = _factor(value, own, places[name], part)
        # What is damped is the value, or what it gains.
        start = np.asarray(given[name]).astype(value.dtype) if own[0][-1] == 2 else 0
        after = start + (value - start) * factor
        found[name] = after if mask is None else np.where(mask != 0, value, after)
    return found


def _factor(
    value: npt.NDArray[Any],
    layers: list[Layer],
    place: str,
    part: Part | None,
    error: float = 0.0,
) -> npt.NDArray[Any]:
    """Return what the values of an array are multiplied by.

    With an error, which each layer's own factor has, it is the greatest magnitude. A factor is
    negative for points beyond the whole grid, which a part of it may have.
    """
    factor = np.ones_like(value)
    for axis, is_upper, width, strength, _ in layers:
        first, extent = part[axis] if part else (0, value.shape[axis])
        index = first + np.arange(value.shape[axis])
        position = 2 * index + (not lies_on_walls(place, axis))
        if is_upper:
            position = 2 * extent - position
        depth = np.maximum(2 * width - position, 0) / (2 * width)
        along = [-1 if a == axis else 1 for a in range(value.ndim)]
        own = 1 - strength * depth.reshape(along) ** 2
        factor = factor * (np.abs(own) + error if error else own)
    return factor


def layer_errors(
    bounds: Mapping[str, Any],
    new: Mapping[str, Any],
    after: Mapping[str, Any],
    layers: Mapping[str, list[Layer]],
    places: Mapping[str, str],
    given: Mapping[str, Any],
    eps: float,
    part: Part | None = None,
) -> dict[str, Any]:
    """Return bounds on the errors of damped values, from those on the errors of ``new`` ones.

    Args:
        bounds: bounds on the errors of what the equations give.
        new: what the equations give.
        after: that with the damping of layers.
        layers: those of each array.
        places: where each array lies, such as "face x".
        given: arrays before the update.
        eps: relative rounding of the dtype in which a kernel computes.
        part: the part of a larger grid that arrays hold; None for all of it.
    """
    found = {}
    for name, own in layers.items():
        before, gained = np.asarray(given[name]), np.abs(new[name])
        kept = np.zeros_like(gained)
        if own[0][-1] == 2:
            kept = np.abs(before.astype(gained.dtype))
            gained = gained + kept
        exact = np.abs(_factor(gained, own, places[name], part))
        # Each factor has an error of 4 eps at most, and what is multiplied is rounded.
        greatest = _factor(gained, own, places[name], part, 4 * eps)
        rounding = (len(own) + 3) * eps + np.finfo(before.dtype).eps
        with np.errstate(all="ignore"):
            error = bounds[name] * greatest + gained * (greatest - exact)
            most = gained if own[0][-1] == 2 else gained * greatest
            error = error + rounding * (most + kept)
        is_damped = np.isfinite(gained) & (after[name] != new[name])
        found[name] = np.where(is_damped, error, bounds[name])
    return found

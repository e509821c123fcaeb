"""Boundary rules: what stands in for the values outside of an array, on each side of each field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.errors import near
from tikgen.template.parameters import FieldName, Identifier, Invalid

AXES = "xyz"
Side = Literal["x", "x-", "x+", "y", "y-", "y+", "z", "z-", "z+"]
Kind = Literal["interior", "periodic", "clamp", "zero", "reflect", "antireflect"]
Rule = Kind | tuple[Literal["value", "flux"], float | Identifier]
Sides = dict[Side, Rule]
Boundary = Rule | Sides | dict[FieldName, Rule | Sides]

# Rules under which a value outside is an element inside, or nothing is computed that needs it.
ELEMENTS = ("interior", "periodic", "clamp", "reflect")
MIRRORED = ("reflect", "antireflect", "flux")
NUMBERED = ("value", "flux")


def dirichlet(value: float | str) -> tuple[str, float | str]:
    """Return the rule by which all that lies outside has a value.

    Args:
        value: a number, or the name of a scalar of the call.
    """
    return "value", value


def neumann(slope: float | str) -> tuple[str, float | str]:
    """Return the rule by which a field has a slope along the outward normal.

    A value outside is that of its mirror image about the outermost point, plus the slope times the
    distance between them.

    Args:
        slope: a number, or the name of a scalar of the call.
    """
    return "flux", slope


def rule_of(given: Any) -> tuple[str, Any]:
    """Return the kind of a rule, and its number or the name of a scalar.

    The kind "zero" becomes "value" with 0.
    """
    if isinstance(given, tuple):
        return given
    return ("value", 0) if given == "zero" else (given, 0)


def rules_in(boundary: Any) -> list[tuple[str, Any]]:
    """Return every rule that a user wrote."""
    if isinstance(boundary, Mapping):
        return [rule for given in boundary.values() for rule in rules_in(given)]
    return [rule_of(boundary)]


def number_code(rule: tuple[str, Any], dtype: DType, spacing: float) -> str:
    """Return generated code for the number of a rule: of a flux, what each point outside adds."""
    kind, number = rule
    if isinstance(number, str):
        return f"{dtype.literal(2 * spacing)} * {number}" if kind == "flux" else str(number)
    return dtype.literal(number * 2 * spacing if kind == "flux" else number)


def is_by_field(boundary: Any) -> bool:
    """Return whether a boundary has rules by field rather than by side."""
    if not isinstance(boundary, Mapping):
        return False
    return not all(key[:1] in AXES and key[1:] in ("", "-", "+") for key in boundary)


def sides_of(boundary: Any, name: str, dim: int) -> list[tuple[Any, Any]]:
    """Return the rules of a field for the lower and the upper side of each axis."""
    given = boundary[name] if is_by_field(boundary) else boundary
    if not isinstance(given, Mapping):
        return [(rule_of(given), rule_of(given))] * dim
    return [
        (
            rule_of(given.get(letter + "-", given.get(letter))),
            rule_of(given.get(letter + "+", given.get(letter))),
        )
        for letter in AXES[:dim]
    ]


def check_boundary(
    boundary: Any,
    dim: int,
    dtype: DType,
    arrays: Iterable[str],
    fields: Iterable[str],
    scalars: Iterable[str],
) -> None:
    """Raise :class:`Invalid` for what is missing, not there, or does not fit the dtype.

    Args:
        boundary: what a user wrote.
        dim: number of axes.
        dtype: the dtype in which is computed.
        arrays: names of all arrays.
        fields: those of which a neighbour is read.
        scalars: names of all scalars.
    """
    known = tuple(arrays)
    by_field = boundary if is_by_field(boundary) else {"": boundary}
    for name, given in by_field.items():
        if name and name not in known:
            raise Invalid("boundary", f"names {name}, which is no array.{near(name, known)}")
        for side in given if isinstance(given, Mapping) else ():
            if AXES.index(side[0]) >= dim:
                raise Invalid("boundary", f"names the side {side}, and dim is {dim}")
    for rule in rules_in(boundary):
        _check_number(rule, dtype, tuple(scalars))
    for name in fields:
        if is_by_field(boundary) and name not in boundary:
            raise Invalid("boundary", f"says nothing about {name}, whose neighbours are read")
        for letter, pair in zip(AXES, sides_of(boundary, name, dim), strict=False):
            _check_pair(name, letter, pair)


def _check_pair(name: str, letter: str, pair: tuple[Any, Any]) -> None:
    kinds = [kind for kind, _ in pair]
    for sign, kind in zip("-+", kinds, strict=True):
        if kind is None:
            raise Invalid("boundary", f"says nothing about the side {letter}{sign} of {name}")
    if kinds.count("periodic") == 1:
        raise Invalid(
            "boundary", f"makes {name} periodic on one side of axis {letter}; both sides must be"
        )


def _check_number(rule: tuple[str, Any], dtype: DType, scalars: tuple[str, ...]) -> None:
    kind, number = rule
    if isinstance(number, str):
        if number not in scalars:
            raise Invalid("boundary", f"takes {number}, which is no scalar.{near(number, scalars)}")
    elif not dtype.is_float and number != int(number):
        raise Invalid("boundary", f"takes {number}, which {dtype} cannot hold")
    if kind == "flux" and not dtype.is_float:
        raise Invalid("boundary", f"has a flux, which needs a float dtype; this one is {dtype}")


def mirror_images(places: npt.NDArray[Any], extent: int) -> npt.NDArray[Any]:
    """Return the indices inside that lie as far from the edge point as ``places`` do."""
    rest = places % max(2 * extent - 2, 1)
    inside: npt.NDArray[Any] = np.minimum(np.minimum(rest, 2 * extent - 2 - rest), extent - 1)
    return inside.clip(0)


def padded(
    x: npt.NDArray[Any],
    sides: list[tuple[Any, Any]],
    reach: list[tuple[int, int]],
    spacing: tuple[float, ...],
    numbers: Mapping[str, Any],
    eps: float,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return an array with what lies outside, and a bound on its error in a kernel.

    Args:
        x: the array, in wide precision.
        sides: rules of the lower and the upper side of each axis.
        reach: how far to go below and above each axis.
        spacing: distance between points on each axis.
        numbers: value of each scalar.
        eps: relative rounding of the dtype in which a kernel computes; 0 for integers.
    """
    error = np.zeros_like(x)
    for axis, (below, above) in enumerate(reach):
        extent = x.shape[axis]
        places = np.arange(-below, extent + above)
        parts = []
        for rule, outside in zip(sides[axis], (places < 0, places >= extent), strict=True):
            there = places[outside]
            parts.append(_outside(x, error, axis, rule, there, spacing[axis], numbers, eps))
        low, high = parts
        x = np.concatenate((low[0], x, high[0]), axis)
        error = np.concatenate((low[1], error, high[1]), axis)
    return x, error


def _outside(
    x: npt.NDArray[Any],
    error: npt.NDArray[Any],
    axis: int,
    rule: tuple[str, Any],
    places: npt.NDArray[Any],
    spacing: float,
    numbers: Mapping[str, Any],
    eps: float,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the values and errors at places outside along one axis."""
    extent = x.shape[axis]
    kind, given = rule
    if kind == "periodic":
        stand_in = places % extent
    elif kind in MIRRORED:
        stand_in = mirror_images(places, extent)
    else:
        stand_in = places.clip(0, extent - 1)
    found, own = x.take(stand_in, axis), error.take(stand_in, axis)
    if kind in ELEMENTS:
        return found, own
    number = x.dtype.type(numbers.get(str(given), given))
    if kind == "value":
        return np.full_like(found, number), np.zeros_like(own)
    if kind == "antireflect":
        at_edge = places.clip(0, extent - 1)
        edge = x.take(at_edge, axis)
        rounding = eps * (2 * np.abs(edge) + np.abs(found))
        return 2 * edge - found, 2 * error.take(at_edge, axis) + own + 2 * rounding
    distance = np.maximum(-places, places - extent + 1).reshape(
        [-1 if a == axis else 1 for a in range(x.ndim)]
    )
    added = 2 * x.dtype.type(spacing) * number * distance
    return found + added, own + 4 * eps * (np.abs(found) + np.abs(added))

"""Boundary rules: what stands in for the values outside of an array, on each side of each field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.errors import near
from tikgen.expression.tree import CONSTANTS
from tikgen.template.parameters import FieldName, Identifier, Invalid, Wording
from tikgen.template.written_rules import TAKES, boundary_hint, sides_hint

AXES = "xyz"
Side = Literal["x", "x-", "x+", "y", "y-", "y+", "z", "z-", "z+"]
Kind = Literal[
    "interior",
    "periodic",
    "clamp",
    "zero",
    "reflect",
    "antireflect",
    "symmetric",
    "antisymmetric",
    "wall",
    "free_surface",
]
Numbered = tuple[Literal["value", "flux", "wall_value", "wall_flux"], float | Identifier]
Absorbing = tuple[Literal["absorbing"], int, float, Literal[1, 2], Kind | Numbered]
Matched = tuple[Literal["cpml"], int, Kind | Numbered]
Rule = Kind | Numbered | Absorbing | Matched
# Rules for layers, which have a rule for what lies outside.
LAYERS = ("absorbing", "cpml")
Sides = dict[Side, Rule]
_KINDS = get_args(Kind)
Boundary = Annotated[
    Rule | Sides | dict[FieldName, Rule | Sides],
    Wording(TAKES, lambda value: boundary_hint(value, _KINDS)),
]

# Rules under which a value outside is an element inside, or nothing is computed that needs it.
ELEMENTS = ("interior", "periodic", "clamp", "reflect", "symmetric")
FLUXES = ("flux", "wall_flux")
# The mirror image, opposite to what it is in the middle.
OPPOSITE = ("antisymmetric", "opposite", "beyond")
# The function of generated code that finds a mirror image, by the kind of a rule.
MIRRORS = {
    **dict.fromkeys(("reflect", "antireflect", "flux", "opposite"), "mirrored"),
    **dict.fromkeys(("symmetric", "antisymmetric", "wall_flux"), "mirrored_at_wall"),
    "beyond": "mirrored_beyond",
}
# Rules of a lower side that has values on its wall, where the rule of the upper side says what is
# on its own wall, one point beyond the last: that may be the mirror image.
TO_WALL = {f"{kind}_to_wall": kind for kind, by in MIRRORS.items() if by == "mirrored"}
MIRRORS |= dict.fromkeys(TO_WALL, MIRRORS["beyond"])
# What physical rules mean for values between walls, and for those that lie on walls.
PHYSICAL = {
    "wall": ("symmetric", "antisymmetric"),
    "free_surface": ("antisymmetric", "symmetric"),
}
# Rules about walls, where values lie on walls: the first on the lower one, and the last
# one point beyond the upper one. There, what is symmetric says nothing about that point.
ON_WALLS = {
    "symmetric": ("reflect", ""),
    "wall_flux": ("flux", ""),
    "antisymmetric": ("opposite", "beyond"),
}


def rule_of(given: Any) -> tuple[str, Any]:
    """Return the kind of a rule, and its number or the name of a scalar.

    The kind "zero" becomes "value" with 0, and a value on the wall an antisymmetric one. Of an
    absorbing layer it is the rule for what lies outside.
    """
    if isinstance(given, tuple) and given[0] in LAYERS:
        return rule_of(given[-1])
    if isinstance(given, tuple):
        kind, number = given
        return ("antisymmetric", number) if kind == "wall_value" else (kind, number)
    return ("value", 0) if given == "zero" else (given, 0)


def rule_at(given: Any, is_upper: bool, on_wall: bool) -> tuple[str, Any]:
    """Return the rule of a side, without those that depend on where values lie.

    Args:
        given: what a user wrote.
        is_upper: whether the side is the upper one.
        on_wall: whether the values of the field lie on the walls of this axis.
    """
    kind, number = rule_of(given)
    if kind in PHYSICAL:
        kind = PHYSICAL[kind][on_wall]
    return (ON_WALLS[kind][is_upper] if on_wall and kind in ON_WALLS else kind), number


def between_walls(low: tuple[str, Any], high: tuple[str, Any]) -> tuple[Any, Any]:
    """Return the rules of both sides, of which the lower one mirrors about both walls if it can."""
    own = f"{low[0]}_to_wall"
    return ((own, low[1]) if high[0] == "beyond" and own in TO_WALL else low), high


def with_constants(boundary: Any, constants: Mapping[str, float]) -> Any:
    """Return a boundary with numbers for the names of constants."""
    if isinstance(boundary, Mapping):
        return {key: with_constants(given, constants) for key, given in boundary.items()}
    if isinstance(boundary, tuple):
        *kept, number = boundary
        if isinstance(number, str) and len(kept) == 1:
            return *kept, constants.get(number, number)
        return *kept, with_constants(number, constants)
    return boundary


def faces_in(boundary: Any, dim: int, scalars: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the axes of the faces over which arrays have values, by the name of the array."""
    found: dict[str, set[int]] = {}
    by_field = boundary.values() if is_by_field(boundary) else (boundary,)
    for given in by_field:
        for side, rule in given.items() if isinstance(given, Mapping) else (("", given),):
            _, number = rule_of(rule)
            if isinstance(number, str) and number not in scalars:
                axes = (AXES.index(side[0]),) if side else range(dim)
                found.setdefault(number, set()).update(axes)
    return {name: tuple(sorted(axes)) for name, axes in found.items()}


def rules_in(boundary: Any) -> list[tuple[str, Any]]:
    """Return every rule that a user wrote."""
    if isinstance(boundary, Mapping):
        return [rule for given in boundary.values() for rule in rules_in(given)]
    return [rule_of(boundary)]


def rule_in_code(
    rule: tuple[str, Any], dtype: DType, spacing: float, codes: Mapping[str, str]
) -> SimpleNamespace:
    """Return a rule with its number as generated code.

    Args:
        rule: kind and number.
        dtype: the dtype in which is computed.
        spacing: distance between points.
        codes: code for the value of each scalar, and for that of each array over a face, with
            ``%s`` where the indices belong.

    Returns:
        ``kind``; ``value``, the code of the number; ``number``, that times what the rule
        multiplies it with: of a flux what a step outwards adds, of values on a wall twice the
        value, or nothing for 0; ``over_face``, whether they have ``%s`` for indices; ``is_long``,
        whether the axis is known to have more points than any step is long.
    """
    kind, number = TO_WALL.get(rule[0], rule[0]), rule[1]
    factor = {"value": 1, "flux": 2 * spacing, "wall_flux": spacing}.get(kind, 2)
    if isinstance(number, str):
        value = codes[number]
        times = value if kind == "value" else f"{dtype.literal(factor)} * {value}"
    else:
        value = dtype.literal(number)
        times = dtype.literal(number * factor) if number or kind not in OPPOSITE else ""
    return SimpleNamespace(
        kind=rule[0], value=value, number=times, over_face="%s" in value, is_long=False
    )


def mirrors_in(rules: Mapping[str, list[tuple[Any, Any]]]) -> list[str]:
    """Return the functions of generated code that find mirror images, for rules by field."""
    kinds = {kind for sides in rules.values() for pair in sides for kind, _ in pair}
    return sorted({MIRRORS[kind] for kind in kinds if kind in MIRRORS})


def is_rule_beyond(rule: Any) -> bool:
    """Return whether something is a rule that a layer may have for what lies outside."""
    if isinstance(rule, tuple):
        return len(rule) == 2 and rule[0] in get_args(get_args(Numbered)[0])
    return rule in get_args(Kind)


def is_by_field(boundary: Any) -> bool:
    """Return whether a boundary has rules by field rather than by side."""
    if not isinstance(boundary, Mapping):
        return False
    return not all(key[:1] in AXES and key[1:] in ("", "-", "+") for key in boundary)


def lies_on_walls(place: str, axis: int) -> bool:
    """Return whether values at a place such as "face x" lie on the walls of an axis."""
    kind, _, letter = place.partition(" ")
    return kind == "corner" or ((kind == "face") == (letter == AXES[axis]) and kind != "centre")


def side_rules(given: Any, axis: int) -> tuple[Any, Any]:
    """Return what a user wrote for the lower and the upper side of an axis."""
    if not isinstance(given, Mapping):
        return given, given
    letter = AXES[axis]
    low, high = (given.get(letter + sign, given.get(letter)) for sign in "-+")
    return low, high


def sides_of(boundary: Any, name: str, dim: int, place: str = "centre") -> list[tuple[Any, Any]]:
    """Return the rules of a field for the lower and the upper side of each axis."""
    given = boundary[name] if is_by_field(boundary) else boundary
    found = []
    for axis in range(dim):
        on_wall, rules = lies_on_walls(place, axis), side_rules(given, axis)
        low, high = (rule_at(rule, bool(side), on_wall) for side, rule in enumerate(rules))
        found.append((low, high))
    return found


def check_boundary(
    boundary: Any,
    dim: int,
    dtype: DType,
    arrays: Iterable[str],
    fields: Iterable[str],
    scalars: Iterable[str],
    at: Mapping[str, str],
) -> None:
    """Raise :class:`Invalid` for what is missing, not there, or does not fit the dtype.

    Args:
        boundary: what a user wrote.
        dim: number of axes.
        dtype: the dtype in which is computed.
        arrays: names of all arrays.
        fields: those of which a neighbour is read.
        scalars: names of all scalars.
        at: where fields lie on a staggered grid, other than at the centre.
    """
    known, names = tuple(arrays), tuple(scalars)
    by_field = boundary if is_by_field(boundary) else {"": boundary}
    for name, given in by_field.items():
        if name and name not in known:
            raise Invalid("boundary", f"names {name}{sides_hint(name, known, dim)}")
        for side in given if isinstance(given, Mapping) else ():
            if AXES.index(side[0]) >= dim:
                raise Invalid("boundary", f"names the side {side}, and dim is {dim}")
    for rule in rules_in(boundary):
        _check_number(rule, dtype)
    for name, axes in faces_in(boundary, dim, names).items():
        if name in known:
            raise Invalid(
                "boundary",
                f"takes {name}, which is an array of the equations; values over a face are an "
                "array of their own, with an axis fewer",
            )
        if len(axes) > 1:
            letters = " and ".join(AXES[axis] for axis in axes)
            number = f" The number {name} is {CONSTANTS[name]!r}." if name in CONSTANTS else ""
            raise Invalid(
                "boundary",
                f"takes {name}, which is no scalar, on the axes {letters}; an array has values "
                f"over the faces of one axis.{number or near(name, names)}",
            )
    for name in fields:
        if is_by_field(boundary) and name not in boundary:
            raise Invalid("boundary", f"says nothing about {name}, whose neighbours are read")
        place = at.get(name, "centre")
        for letter, pair in zip(AXES, sides_of(boundary, name, dim, place), strict=False):
            _check_pair(name, letter, pair, place)


def _check_pair(name: str, letter: str, pair: tuple[Any, Any], place: str) -> None:
    kinds = [kind for kind, _ in pair]
    for sign, kind in zip("-+", kinds, strict=True):
        if kind == "":
            raise Invalid(
                "boundary",
                f"makes {name}, which lies on {place}, symmetric about the wall {letter}{sign}, "
                "one point beyond its last; what it is there no array holds. Let the free surface "
                f"or the symmetry be at {letter}-, or take 'clamp' or 'antisymmetric'",
            )
        if kind is None:
            raise Invalid("boundary", f"says nothing about the side {letter}{sign} of {name}")
    if kinds.count("periodic") == 1:
        raise Invalid(
            "boundary", f"makes {name} periodic on one side of axis {letter}; both sides must be"
        )


def _check_number(rule: tuple[str, Any], dtype: DType) -> None:
    kind, number = rule
    if not isinstance(number, str) and not dtype.is_float and number != int(number):
        raise Invalid("boundary", f"takes {number}, which {dtype} cannot hold")
    if kind in FLUXES and not dtype.is_float:
        raise Invalid("boundary", f"has a flux, which needs a float dtype; this one is {dtype}")


def mirror_images(places: npt.NDArray[Any], extent: int, kind: str) -> npt.NDArray[Any]:
    """Return the indices inside that lie as far as ``places`` do from what a rule mirrors about."""
    if kind not in MIRRORS:
        return places % extent if kind == "periodic" else places.clip(0, extent - 1)
    mirror = MIRRORS[kind]
    turn = {"mirrored": 2 * extent - 2, "mirrored_at_wall": 2 * extent - 1}.get(mirror, 2 * extent)
    rest = places % max(2 * extent - 2 if mirror == "mirrored" else 2 * extent, 1)
    inside: npt.NDArray[Any] = np.minimum(np.minimum(rest, turn - rest), extent - 1)
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
        numbers: value of each scalar, and of each array over a face.
        eps: relative rounding of the dtype in which a kernel computes; 0 for integers.
    """
    error = np.zeros_like(x)
    taken: list[npt.NDArray[Any]] = []
    for axis, (below, above) in enumerate(reach):
        extent = x.shape[axis]
        inside = np.arange(extent)
        parts, stand_ins = [], []
        ends = np.arange(-below, 0), np.arange(extent, extent + above)
        for rule, places in zip(sides[axis], ends, strict=True):
            number = _number(rule, numbers, x, axis, taken)
            on_wall = _number(sides[axis][1], numbers, x, axis, taken)
            step = spacing[axis]
            parts.append(_outside(x, error, axis, rule[0], places, step, number, on_wall, eps))
            stand_ins.append(mirror_images(places, extent, rule[0]))
        low, high = parts
        x = np.concatenate((low[0], x, high[0]), axis)
        error = np.concatenate((low[1], error, high[1]), axis)
        taken.append(np.concatenate((stand_ins[0], inside, stand_ins[1])))
    return x, error


def _number(
    rule: tuple[str, Any],
    numbers: Mapping[str, Any],
    x: npt.NDArray[Any],
    axis: int,
    taken: list[npt.NDArray[Any]],
) -> Any:
    """Return the number of a rule, or numbers over the face where the axes before are padded."""
    given = rule[1]
    number = np.asarray(numbers[given] if isinstance(given, str) else given).astype(x.dtype)
    if not number.ndim:
        return number
    if x.ndim == 1:
        return number[0]
    for other, places in enumerate(taken):
        number = number.take(places, other)
    return np.expand_dims(number, axis)


def _outside(
    x: npt.NDArray[Any],
    error: npt.NDArray[Any],
    axis: int,
    kind: str,
    places: npt.NDArray[Any],
    spacing: float,
    number: Any,
    on_upper: Any,
    eps: float,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the values and errors at places outside along one axis.

    ``on_upper`` is what lies on the upper wall, if something does.
    """
    extent = x.shape[axis]
    stand_in = mirror_images(places, extent, kind)
    found, own = x.take(stand_in, axis), error.take(stand_in, axis)
    if kind in ELEMENTS:
        return found, own
    along = [-1 if a == axis else 1 for a in range(x.ndim)]
    on_wall = (places % (2 * extent) == extent).reshape(along)
    if kind in TO_WALL:
        found, own = np.where(on_wall, on_upper, found), np.where(on_wall, 0, own)
        kind = TO_WALL[kind]
    if kind == "reflect":
        return found, own
    if kind == "value":
        return np.full_like(found, number), np.zeros_like(own)
    if kind == "antireflect":
        at_edge = places.clip(0, extent - 1)
        edge = x.take(at_edge, axis)
        rounding = eps * (2 * np.abs(edge) + np.abs(found))
        return 2 * edge - found, 2 * error.take(at_edge, axis) + own + 2 * rounding
    if kind in OPPOSITE:
        on_wall = (kind == "beyond") & on_wall
        beyond = np.where(on_wall, number, 2 * number - found)
        rounding = eps * (2 * np.abs(number) + np.abs(found))
        return beyond, np.where(on_wall, 0, own + 2 * rounding)
    distance = np.maximum(-places, places - extent + 1).reshape(along)
    steps = 2 * distance if kind == "flux" else 2 * distance - 1
    added = x.dtype.type(spacing) * number * steps
    return found + added, own + 4 * eps * (np.abs(found) + np.abs(added))

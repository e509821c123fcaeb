"""Boundary rules as users write them: those with numbers, and what to write instead of others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, Literal

from tikgen.errors import InvalidValue, near
from tikgen.template.parameters import Identifier

TAKES = (
    "interior, periodic, clamp, zero, reflect, antireflect, symmetric, antisymmetric, wall, "
    "free_surface, tikgen.dirichlet(g), tikgen.neumann(g), tikgen.absorbing(width), or a dict of "
    "such rules for sides or for fields"
)
# The rules that have a number: the function that makes each, and the tuple that it makes.
_MADE = {
    "dirichlet": ("dirichlet(g)", "('value', g)"),
    "neumann": ("neumann(g)", "('flux', g)"),
    "value": ("dirichlet(g)", "('value', g)"),
    "flux": ("neumann(g)", "('flux', g)"),
    "wall_value": ("dirichlet(g, at='wall')", "('wall_value', g)"),
    "wall_flux": ("neumann(g, at='wall')", "('wall_flux', g)"),
    "absorbing": ("absorbing(width)", ""),
    "cpml": ("absorbing(width, kind='cpml')", ""),
}
_AXES = "xyz"
# Words for sides in other tools.
_SIDES = frozenset(
    {"left", "right", "top", "bottom", "front", "back", "up", "down", "north", "south", "east"}
    | {"west", "low", "high", "lower", "upper", "min", "max", "inlet", "outlet", "all"}
    | {letter + end for letter in _AXES for end in ("min", "max", "_min", "_max", "lo", "hi")}
)


def dirichlet(
    value: float | str, at: Literal["outside", "wall"] = "outside"
) -> tuple[str, float | str]:
    """Return the rule by which a field has a value outside, or on the wall.

    Args:
        value: a number, or the name of a scalar or a constant. Any other name becomes an argument:
            an array over the face, of the shape of the other axes, ``(1,)`` in one dimension.
        at: ``"outside"`` gives all that lies outside the value. ``"wall"`` gives it to the wall,
            half a cell beyond the outermost point: what lies outside is twice the value minus the
            mirror image about the wall.

    Raises:
        InvalidValue: if ``at`` is something else, or the value neither a number nor a name.
    """
    _check("dirichlet", "value", value, at, "outside")
    return {"outside": "value", "wall": "wall_value"}[at], value


def neumann(slope: float | str, at: Literal["point", "wall"] = "point") -> tuple[str, float | str]:
    """Return the rule by which a field has a slope along the outward normal.

    A value outside is that of its mirror image, plus the slope times the distance between them.

    Args:
        slope: a number, or the name of a scalar or a constant. Any other name becomes an argument:
            an array over the face, of the shape of the other axes, ``(1,)`` in one dimension.
        at: ``"point"`` mirrors about the outermost point, ``"wall"`` about the wall half a cell
            beyond it.

    Raises:
        InvalidValue: if ``at`` is something else, or the slope neither a number nor a name.
    """
    _check("neumann", "slope", slope, at, "point")
    return {"point": "flux", "wall": "wall_flux"}[at], slope


def is_number(value: object) -> bool:
    """Return whether a value is a real number, of Python or of NumPy."""
    return isinstance(value, Real)


def _check(function: str, parameter: str, number: object, at: str, other: str) -> None:
    """Raise :class:`InvalidValue` for what a rule cannot take."""
    if at not in (other, "wall"):
        raise InvalidValue(function, {"at": f"takes {other!r} or 'wall'; got {at!r}"})
    try:
        if not isinstance(number, Real):
            Identifier.parse(number)
        elif not math.isfinite(number):
            raise ValueError
    except ValueError:
        takes = (
            "takes a finite number, or the name of a scalar, a constant or an array over the face"
        )
        changes = ""
        if isinstance(number, str) or callable(number):
            changes = (
                f"; for one that changes with the step, write {function}('g') with g among the "
                "scalars, and tikgen.varying(kernel.bind(...), g=function)"
            )
        raise InvalidValue(function, {parameter: f"{takes}; got {number!r:.80}{changes}"}) from None


def boundary_hint(value: Any, kinds: tuple[str, ...]) -> str:
    """Return what to write instead of a boundary, as a sentence after a space, or nothing.

    Args:
        value: what a user wrote, lists as tuples.
        kinds: the rules that are one word.
    """
    if isinstance(value, Mapping):
        return _of_keys(value) or next(
            filter(None, (boundary_hint(rule, kinds) for rule in value.values())), ""
        )
    if isinstance(value, str):
        return _of_word(value, kinds)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f" For a value outside write tikgen.dirichlet({value!r})."
    if not isinstance(value, tuple) or not value:
        return ""
    if isinstance(value[0], str) and value[0] in _MADE:
        return _of_tuple(value, kinds)
    return _of_sides(value, kinds)


def _of_keys(rules: Mapping[Any, Any]) -> str:
    """Return what sides are, where some keys of a dict are sides and others are not."""
    sides = [key for key in rules if str(key)[:1] in _AXES and str(key)[1:] in ("", "-", "+")]
    others = [key for key in rules if key not in sides]
    if not others or not any(str(side)[1:] for side in sides):
        return ""
    return f" {others[0]!r} is no side; {_listed_sides(len(_AXES))}."


def _of_word(word: str, kinds: tuple[str, ...]) -> str:
    if word.lower() in _MADE:
        made, plain = _MADE[word.lower()]
        return f" Write tikgen.{made}{f' or {plain}' if plain else ''}."
    return "" if word in kinds else near(word, [*kinds, "dirichlet", "neumann", "absorbing"])


def _of_tuple(rule: tuple[Any, ...], kinds: tuple[str, ...]) -> str:
    """Return what to write for a rule with numbers such as ``("neumann", 0)``."""
    kind, *rest = rule
    if kind in ("absorbing", "cpml"):
        if len(rest) > 1 and (hint := boundary_hint(rest[-1], kinds)):
            return hint
        width = rest[0] if rest else "width"
        own = ", kind='cpml'" if kind == "cpml" else ""
        return f" Write tikgen.absorbing({width!r}{own})." if rest else _of_word(kind, kinds)
    if len(rest) != 1 or not isinstance(rest[0], int | float | str):
        return _of_word(kind, kinds)
    if kind in ("dirichlet", "neumann"):
        return f" Write tikgen.{kind}({rest[0]!r})."
    return ""


def _of_sides(rules: tuple[Any, ...], kinds: tuple[str, ...]) -> str:
    """Return the dict that a tuple of rules for the axes may stand for."""
    if len(rules) > len(_AXES):
        return ""
    sides: dict[str, Any] = {}
    for axis, rule in zip(_AXES, rules, strict=False):
        if _is_rule(rule, kinds):
            sides[axis] = rule
        elif isinstance(rule, tuple) and len(rule) == 2 and all(_is_rule(r, kinds) for r in rule):
            low, high = rule
            sides |= {axis: low} if low == high else {f"{axis}-": low, f"{axis}+": high}
        else:
            return boundary_hint(rule, kinds)
    return f" Rules for sides are a dict: {sides!r}."


def _is_rule(rule: Any, kinds: tuple[str, ...]) -> bool:
    if isinstance(rule, tuple) and len(rule) > 1:
        return rule[0] in _MADE and rule[0] not in ("dirichlet", "neumann")
    return isinstance(rule, str) and rule in kinds


def sides_hint(name: str, arrays: tuple[str, ...], dim: int) -> str:
    """Return what a key of a boundary that is no array may be meant to be, after a name.

    Args:
        name: the key.
        arrays: names of all arrays.
        dim: number of axes.
    """
    hint = near(name, arrays)
    if hint and name.lower() not in _SIDES:
        return f", which is no array.{hint}"
    return f", which is no array and no side; {_listed_sides(dim)}"


def _listed_sides(dim: int) -> str:
    *most, last = (letter + sign for letter in _AXES[:dim] for sign in ("-", "+"))
    both = " and ".join(repr(letter) for letter in _AXES[:dim])
    return f"sides are {', '.join(map(repr, most))} and {last!r}, or {both} for both of an axis"

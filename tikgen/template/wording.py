"""What a parameter takes, in words."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from tikgen.dtypes import DType
from tikgen.expression import Assignments, Equations, Expression, Reducing
from tikgen.template.identifiers import FieldName, Identifier
from tikgen.units import listing


@dataclass(frozen=True)
class Wording:
    """Says what a type takes; annotates a type that is too long to be spelled out.

    Attributes:
        takes: the values, in words.
        hint: returns what to write instead of a value that does not fit: a sentence after a
            space, or an empty string.
    """

    takes: str
    hint: Callable[[Any], str]


def choices_of(field: FieldInfo) -> list[str]:
    """Return the values that a parameter may have as texts, none where they are not listed."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and extra.get("choices"):
        return typing.cast("list[str]", extra["choices"])
    if get_origin(field.annotation) is Literal:
        return [str(a) for a in get_args(field.annotation)]
    return ["True", "False"] if field.annotation is bool else []


def takes(field: FieldInfo) -> str:
    """Return in words what a parameter takes."""
    if choices := choices_of(field):
        return listing(choices)
    if wording := wording_of(field):
        return wording.takes
    low = next((m.ge for m in field.metadata if getattr(m, "ge", None) is not None), None)
    high = next((m.le for m in field.metadata if getattr(m, "le", None) is not None), None)
    bounds = {
        (True, True): f" from {low} to {high}",
        (True, False): f" of at least {low}",
        (False, True): f" of at most {high}",
        (False, False): "",
    }[low is not None, high is not None]
    return type_name(field.annotation) + bounds


def wording_of(field: FieldInfo) -> Wording | None:
    """Return the wording that annotates the type of a parameter, if any."""
    return next((m for m in field.metadata if isinstance(m, Wording)), None)


def type_name(annotation: Any) -> str:
    """Return a type in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        listed = [name for a in arguments for name in _names_in(a)]
        if listed[-1] == "None" and any(get_origin(a) in (dict, tuple) for a in arguments):
            return f"None, or {listing(listed[:-1])}"  # Not what a container may hold.
        return listing(listed)
    if origin is tuple:
        each = type_name(arguments[0])
        is_long = arguments[-1] is ... or len(set(arguments)) > 1
        return f"a tuple of {each}" if is_long else f"a tuple of {len(arguments)}, each {each}"
    if origin is dict:
        return f"a dict from {type_name(arguments[0])} to {type_name(arguments[1])}"
    if origin is Literal:
        return listing([str(a) for a in arguments])
    names = {int: "an integer", float: "a number", bool: "True or False", str: "str"}
    names |= {DType: "a dtype", Identifier: "an identifier", type(None): "None"}
    names |= {FieldName: "a field"}
    names |= dict.fromkeys((Expression, Assignments, Reducing), "an expression")
    names |= {Equations: "equations"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _names_in(annotation: Any) -> list[str]:
    """Return in words what one of several types takes."""
    is_literal = get_origin(annotation) is Literal
    return [*map(str, get_args(annotation))] if is_literal else [type_name(annotation)]

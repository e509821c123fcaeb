"""Checks what the parameters of a template declare: defaults and choices that they can have."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

from pydantic import ValidationError

from tikgen.dtypes import ALL_DTYPES, DType
from tikgen.errors import TemplateError, near
from tikgen.template.parameters import ParameterModel, canonical, parameter_infos, plain


def check_declared(template: str, model: type[ParameterModel], place: Callable[[str], str]) -> None:
    """Raise :class:`TemplateError` for a choice or a default that a parameter never takes.

    Args:
        template: name of the template, for messages.
        model: its problem or its schedule parameters.
        place: returns where a parameter is declared, for messages.
    """
    refused = _refused_defaults(model)
    for info in parameter_infos(model, "problem"):
        field = model.model_fields[info.name]
        for choice in info.choices:
            if not _is_possible(field.annotation, choice):
                problem = f"parameter {info.name!r} lists {choice!r} among its choices"
                if _has(field.annotation, DType):
                    takes = f"dtypes are {', '.join(ALL_DTYPES)}"
                    problem += f", which is no dtype; {takes}.{near(choice, ALL_DTYPES)}"
                raise TemplateError(template, problem + place(info.name))
        default = field.default if isinstance(field.default, tuple) else (field.default,)
        is_listed = info.default == "required" or all(
            each is None or str(each) in info.choices for each in default
        )
        if info.name in refused or (info.choices and not is_listed):
            problem = f"parameter {info.name!r} takes {info.type}; its default is {info.default}"
            raise TemplateError(template, problem + place(info.name))


def value_problem(model: type[ParameterModel], name: str, value: Any) -> str:
    """Return why a parameter never has a value, whatever the others are; empty where it may."""
    info = next(info for info in parameter_infos(model, "problem") if info.name == name)
    told = f"takes {info.type}; got {canonical(plain(value))}"
    try:
        model.model_validate({name: value, "": None})  # As in `_refused_defaults`.
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if detail["loc"] and detail["loc"][0] == name:
                cause = detail.get("ctx", {}).get("error")
                return told if cause is None else f"cannot be used: {cause}"
    each = value if isinstance(value, tuple | list) else (value,)
    is_listed = all(item is None or str(item) in info.choices for item in map(plain, each))
    return told if info.choices and not is_listed else ""


def _refused_defaults(model: type[ParameterModel]) -> set[str]:
    """Return the parameters whose default is of another type, or out of range."""
    try:
        # A name that is unknown has each default looked at alone: `check` does not run.
        model.model_validate({"": None})
    except ValidationError as error:
        details = error.errors(include_url=False)
        return {str(d["loc"][0]) for d in details if d["loc"] and d["type"] != "missing"}
    return set()


def _is_possible(annotation: Any, choice: str) -> bool:
    """Return whether a choice, as text, is a value of a dtype or a number, where it must be."""
    if _has(annotation, DType):
        return choice in ALL_DTYPES
    if annotation in (int, float):
        try:
            annotation(choice)
        except ValueError:
            return False
    return True


def _has(annotation: Any, kind: type) -> bool:
    """Return whether a type is another one, or a union or a tuple of it."""
    if get_origin(annotation) in (tuple, Union, types.UnionType):
        return all(_has(a, kind) or a in (type(None), ...) for a in get_args(annotation))
    return annotation is kind

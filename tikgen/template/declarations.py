"""Checks what the parameters of a template declare: defaults and choices that they can have."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import ValidationError

from tikgen.dtypes import ALL_DTYPES, DType
from tikgen.errors import TemplateError, near
from tikgen.template.parameters import (
    ParameterModel,
    canonical,
    listed_values,
    parameter_infos,
    plain,
)
from tikgen.template.rules import ARCH, ARCHS, first_refusal, neutral_values, rules_of


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
    for name, rule in rules_of(model).items():
        if rule.only and rule.neutral is ...:
            problem = f"parameter {name!r} has `only`, and needs a default or a neutral value"
            raise TemplateError(template, problem + place(name))
        if rule.only and (problem := value_problem(model, name, rule.neutral)):
            told = f"the neutral value of parameter {name!r} is none of its values: it {problem}"
            raise TemplateError(template, told + place(name))


def check_defaults(
    template: str,
    problem: type[ParameterModel],
    schedule: type[ParameterModel],
    chooses: bool,
    place: Callable[[str], str],
) -> None:
    """Raise :class:`TemplateError` where rules refuse what all parameters are by default.

    Args:
        template: name of the template, for messages.
        problem: its problem parameters.
        schedule: its schedule parameters.
        chooses: whether the template has schedules of its own, other than the defaults.
        place: returns where a parameter is declared, for messages.
    """
    known = _by_default(problem, {})
    refusals = [] if known is None else [first_refusal(problem, known)]
    values = None if chooses or known is None else _by_default(schedule, known)
    if values is not None and not any(refusals) and _can_be(problem):
        each = [_by_default(schedule, {**values, ARCH: arch}) or {} for arch in ARCHS]
        refusals = [first_refusal(schedule, known) for known in each]
    if refusals and all(refusals):  # On every arch.
        name, told = next(filter(None, refusals))
        raise TemplateError(template, f"by default parameter {name!r} {told}{place(name)}")


def _by_default(model: type[ParameterModel], known: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is known and the defaults of a model, or None where it requires a value."""
    if any(field.is_required() for field in model.model_fields.values()):
        return None
    values = {**known, **{name: field.default for name, field in model.model_fields.items()}}
    return values | neutral_values(model, values, ())


def _can_be(problem: type[ParameterModel]) -> bool:
    """Return whether there is a problem of defaults."""
    try:
        problem()
    except Exception:  # A build says why.
        return False
    return True


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


def never_is(model: type[ParameterModel], name: str, value: Any) -> bool:
    """Return whether a parameter never equals a value, whatever the others are."""
    if listed := listed_values(model, name):
        return value not in listed
    if isinstance(value, float) and value.is_integer():  # It equals an integer.
        value = int(value)
    return bool(value_problem(model, name, value))


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

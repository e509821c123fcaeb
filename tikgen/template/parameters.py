"""Typed, documented template parameters, and what may reach generated code through them.

A parameter is a number, a bool, a dtype, one of listed choices, a validated identifier or an
expression that was parsed and found harmless. A plain ``str`` is refused when the template is
loaded, so that no value can carry code into a kernel.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tikgen.dtypes import DType
from tikgen.errors import (
    DeclarationError,
    ExpressionError,
    ParameterError,
    TemplateError,
    TikgenError,
    near,
    one_line,
)
from tikgen.expression import Assignments, Equations, Expression, Reducing
from tikgen.template.blame import place_in
from tikgen.template.here import Here
from tikgen.template.identifiers import FieldName as FieldName
from tikgen.template.identifiers import Identifier as Identifier
from tikgen.template.reserved import RESERVED
from tikgen.template.rules import Condition, Rule, first_refusal, neutral_values, rules_of
from tikgen.template.wording import Wording as Wording
from tikgen.template.wording import choices_of, takes, type_name, wording_of
from tikgen.units import listing

_LONGEST = 200  # Letters of a value in a message.
# Said of a value that is refused, and that nobody gave.
NOT_GIVEN = "; no value was given, and this one is the template's own"


class Invalid(ValueError):
    """Says that ``parameter`` does not go with the others; raised by ``check`` of a model."""

    def __init__(self, parameter: str, problem: str) -> None:
        self.parameter = parameter
        self.problem = problem
        super().__init__(problem)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.parameter, self.problem), vars(self)


class _CheckFails(TemplateError):
    """The ``check`` of a model raised something else than :class:`Invalid`."""

    def __init__(self, model: str, problem: str) -> None:
        self.problem = problem
        super().__init__(model, problem)


def is_reserved(name: str) -> bool:
    """Return whether a name means something else in every model, and so is no parameter's."""
    has_other = hasattr(ParameterModel, name) and not name.startswith(("_", "model_config"))
    return name in RESERVED or has_other


def parameter(
    meaning: str,
    default: Any = ...,
    *,
    choices: Iterable[Any] | None = None,
    ge: float | None = None,
    le: float | None = None,
    only: Condition | Sequence[Condition] = (),
    needs: Mapping[Any, Condition] | None = None,
    neutral: Any = ...,
) -> Any:
    """Declare one parameter of a template.

    A condition is a dict from names of other parameters to the value that they must have, or to a
    tuple of values; :class:`tikgen.template.rules.Not` takes all values but some. A rule of a
    schedule parameter may mention problem parameters and ``"arch"``.

    Args:
        meaning: one line for ``tikgen describe`` and the documentation.
        default: value taken where the user gives none; without it the parameter is required.
        choices: the values allowed, where the type alone does not say it.
        ge: least value allowed.
        le: greatest value allowed.
        only: when the parameter applies: a condition, or several of which one must hold. Where
            none holds the parameter is neutral, and another value is refused.
        needs: for a value, or a tuple of values, the condition under which it may be chosen.
        neutral: value where the parameter does not apply, by default ``default``.
    """
    if not isinstance(meaning, str):
        takes = 'takes what it means first, as text: parameter("points on either side", 1)'
        raise TypeError(f"parameter() {takes}; got {meaning!r}")
    extra: dict[str, Any] = {} if choices is None else {"choices": [str(c) for c in choices]}
    if only or needs:
        any_of = (only,) if isinstance(only, Mapping) else tuple(only)
        extra["rule"] = Rule(default if neutral is ... else neutral, any_of, needs or {})
    return Field(default, description=meaning, ge=ge, le=le, json_schema_extra=extra)


class ParameterModel(BaseModel, Here):
    """Is the base of ``Problem`` and ``Schedule``: frozen, strict, closed to unknown names."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    def check(self) -> None:
        """Raise :class:`Invalid` where parameters do not go together; override as needed."""

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        names = _names_of_names(cls)
        return {k: _listed(v) if k in names else plain(v) for k, v in data.items()}

    @model_validator(mode="after")
    def _checked(self) -> ParameterModel:
        for name, choices in _choices_of(type(self)).items():
            value = getattr(self, name)
            for item in value if isinstance(value, tuple) else (value,):
                if item is not None and str(item) not in choices:
                    raise Invalid(name, f"takes {listing(choices)}; got {_shown(value)}")
        for name in _names_of_names(type(self)):
            given = getattr(self, name) or ()
            if twice := [each for each in given if given.count(each) > 1]:
                raise Invalid(name, f"names {twice[0]} twice")
        self._follow_rules()
        try:
            self.check()
        except (Invalid, TikgenError):
            raise
        except Exception as error:
            folder = Path(type(self).check.__code__.co_filename).parent
            told = f"{type(self).__name__}.check() fails: {one_line(error)}"
            raise _CheckFails(type(self).__qualname__, told + place_in(folder, error)) from error
        return self

    def _follow_rules(self) -> None:
        """Raise :class:`Invalid` where a rule is broken that needs no other model."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # Before pydantic warns of those that hide an attribute.
        for name in inspect.get_annotations(cls):
            if is_reserved(name):
                by = "" if name in RESERVED else "; every model has an attribute of that name"
                problem = f"parameter name {name!r} is reserved{by}"
                raise DeclarationError(cls.__qualname__, problem)
        super().__init_subclass__(**kwargs)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if not _is_safe(field.annotation):
                raise DeclarationError(
                    cls.__qualname__,
                    f"parameter {name!r} has type {type_name(field.annotation)}, which could "
                    "carry code; use int, float, bool, DType, Literal, Identifier, Expression, "
                    "Assignments, or tuples and dicts of these",
                )


class ProblemModel(ParameterModel):
    """Holds the parameters that decide what a kernel computes."""

    def _follow_rules(self) -> None:
        known = dict(self)
        # The model is frozen for its users.
        self.__dict__.update(neutral_values(type(self), known, self.model_fields_set))
        if refusal := first_refusal(type(self), dict(self)):
            name, problem = refusal
            raise Invalid(name, problem + NOT_GIVEN * (name not in self.model_fields_set))


class ScheduleModel(ParameterModel):
    """Holds the parameters that decide how fast it runs, and never what it computes."""


@dataclass(frozen=True)
class ParameterInfo:
    """Describes one parameter: its type, choices, default, meaning and kind."""

    name: str
    kind: Literal["problem", "schedule"]
    type: str
    choices: tuple[str, ...]
    default: str
    meaning: str


def parameter_infos(
    model: type[ParameterModel], kind: Literal["problem", "schedule"]
) -> tuple[ParameterInfo, ...]:
    """Return what ``model`` declares, in order of declaration."""
    rules = rules_of(model)
    return tuple(
        ParameterInfo(
            name=name,
            kind=kind,
            type=takes(field),
            choices=tuple(choices_of(field)),
            default="required" if field.is_required() else _shown(field.default),
            meaning=_meaning(field.description, rules.get(name)),
        )
        for name, field in model.model_fields.items()
    )


def _meaning(description: str | None, rule: Rule | None) -> str:
    """Return what a parameter means and when it applies."""
    return "; ".join(filter(None, (description or "", rule.text if rule else "")))


def listed_values(model: type[ParameterModel], name: str) -> tuple[Any, ...]:
    """Return the values that a parameter's type lists, empty where it lists none."""
    field = model.model_fields[name]
    if get_origin(field.annotation) is Literal:
        return get_args(field.annotation)
    return (False, True) if field.annotation is bool else ()


def possible_values(model: type[ParameterModel], name: str) -> tuple[Any, ...]:
    """Return the values that a parameter may have where its type tells them, with its default."""
    field = model.model_fields[name]
    found = _possible(field.annotation, tuple(choices_of(field)))
    default = () if field.is_required() else (field.default,)
    return tuple(dict.fromkeys((*found, *default))) if found else default


def _possible(annotation: Any, choices: tuple[Any, ...]) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(v for kind in get_args(annotation) for v in _possible(kind, choices))
    kinds = {bool: (False, True), DType: choices or tuple(DType), type(None): (None,)}
    return kinds.get(annotation, ())


def make_model(
    model: type[ParameterModel], values: Mapping[str, Any], template: str
) -> ParameterModel:
    """Return ``model`` filled with ``values``.

    Raises:
        ParameterError: with one sentence a parameter: what it takes, what came.
        TemplateError: if ``check`` of the model fails.
    """
    try:
        return model(**values)
    except ValidationError as error:
        raise ParameterError(template, _problems(model, error, values, template)) from None
    except _CheckFails as error:
        raise TemplateError(template, error.problem) from error.__cause__


def canonical(value: Any) -> str:
    """Return one text for equal parameter values, whatever order a dict was written in."""
    if value is None or isinstance(value, str | int | float):
        return _shown(value)
    if isinstance(value, Mapping):
        items = sorted((canonical(k), canonical(v)) for k, v in value.items())
        return "{" + ", ".join(f"{k}: {v}" for k, v in items) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(canonical(v) for v in value) + ("," * (len(value) == 1)) + ")"
    return _shown(value)


def plain(value: Any) -> Any:
    """Return NumPy scalars as Python's own, lists and arrays as tuples, negative zero as zero."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, Mapping):
        return {plain(k): plain(v) for k, v in value.items()}
    if type(value) is float:
        return value + 0.0
    return value


def _shown(value: Any) -> str:
    if isinstance(value, DType | Identifier):
        return str(value)
    if isinstance(value, Expression | Assignments | Equations):
        return repr(str(value))
    return repr(value)


_SAFE_TYPES = (
    *(int, float, bool, DType, Identifier, FieldName),
    *(Expression, Assignments, Reducing, Equations),
    *(type(None), Ellipsis),
)


def _is_safe(annotation: Any) -> bool:
    if annotation in _SAFE_TYPES or get_origin(annotation) is Literal:
        return True
    arguments = get_args(annotation)
    containers = (tuple, dict, Union, types.UnionType, typing.Annotated)
    return get_origin(annotation) in containers and all(_is_safe(a) for a in arguments)


def _takes_names(annotation: Any) -> bool:
    """Return whether a parameter takes a tuple of identifiers."""
    if get_origin(annotation) in (Union, types.UnionType):
        return any(map(_takes_names, get_args(annotation)))
    return get_origin(annotation) is tuple and get_args(annotation)[:1] == (Identifier,)


@functools.lru_cache(maxsize=256)
def _names_of_names(model: type[ParameterModel]) -> frozenset[str]:
    """Return the parameters of a model that take a tuple of identifiers."""
    fields = model.model_fields.items()
    return frozenset(name for name, field in fields if _takes_names(field.annotation))


@functools.lru_cache(maxsize=256)
def _choices_of(model: type[ParameterModel]) -> dict[str, list[str]]:
    """Return the choices of each parameter of a model that has some."""
    found = {name: choices_of(field) for name, field in model.model_fields.items()}
    return {name: choices for name, choices in found.items() if choices}


def _listed(value: Any) -> Any:
    """Return names in one text, such as ``"dt c"`` or ``"dt, c"``, as a tuple."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else plain(value)


def _refusal(field: FieldInfo, value: Any) -> str:
    """Return in words what a parameter takes instead of a value."""
    got = "nothing" if value is PydanticUndefined else _shown(value)
    if len(got) > _LONGEST:
        got = f"{got[: _LONGEST - 3]}..."
    hint = near(value, _words(field.annotation)) if isinstance(value, str) else ""
    if wording := wording_of(field):
        hint = wording.hint(plain(value))
    return f"takes {takes(field)}; got {got}" + (f".{hint}" if hint else "")


def _words(annotation: Any) -> list[str]:
    """Return the texts among the values of a type, without those within containers."""
    if get_origin(annotation) is Literal:
        return [value for value in get_args(annotation) if isinstance(value, str)]
    if get_origin(annotation) in (Union, types.UnionType):
        return [word for kind in get_args(annotation) for word in _words(kind)]
    return []


def _problems(
    model: type[ParameterModel], error: ValidationError, given: Mapping[str, Any], template: str
) -> dict[str, str]:
    problems: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        name = str(detail["loc"][0]) if detail["loc"] else ""
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, Invalid):
            problems[cause.parameter] = cause.problem
        elif isinstance(cause, ExpressionError | ValueError):
            problems.setdefault(name, f"cannot be used: {cause}")
        elif detail["type"] == "missing" and name not in given:
            field = model.model_fields[name]
            problems[name] = f"is missing; it takes {takes(field)}: {field.description}"
        elif name in model.model_fields:
            field = model.model_fields[name]
            problems.setdefault(name, _refusal(field, given.get(name, field.default)))
        elif detail["type"] == "extra_forbidden":
            problems |= ParameterError.unknown(template, name, model.model_fields).problems
        else:
            problems.setdefault(name, detail["msg"])
    return problems

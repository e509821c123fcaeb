"""Typed, documented template parameters, and what may reach generated code through them.

A parameter is a number, a bool, a dtype, one of listed choices, a validated identifier or an
expression that was parsed and found harmless. A plain ``str`` is refused when the template is
loaded, so that no value can carry code into a kernel.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tikgen.dtypes import DType
from tikgen.errors import DeclarationError, ExpressionError, ParameterError, near
from tikgen.expression import Assignments, Equations, Expression, Reducing
from tikgen.template.here import Here
from tikgen.template.identifiers import FieldName as FieldName
from tikgen.template.identifiers import Identifier as Identifier
from tikgen.template.rules import Condition, Rule, first_refusal, neutral_values, rules_of

_LONGEST = 200  # Letters of a value in a message.
RESERVED = frozenset({"name", "schedule", "arch", "shape"})


class Invalid(ValueError):
    """Says that ``parameter`` does not go with the others; raised by ``check`` of a model."""

    def __init__(self, parameter: str, problem: str) -> None:
        self.parameter = parameter
        self.problem = problem
        super().__init__(problem)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.parameter, self.problem), vars(self)


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
                    raise Invalid(name, f"takes {_listing(choices)}; got {_shown(value)}")
        for name in _names_of_names(type(self)):
            given = getattr(self, name) or ()
            if twice := [each for each in given if given.count(each) > 1]:
                raise Invalid(name, f"names {twice[0]} twice")
        self._follow_rules()
        self.check()
        return self

    def _follow_rules(self) -> None:
        """Raise :class:`Invalid` where a rule is broken that needs no other model."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if name in RESERVED:
                raise DeclarationError(cls.__qualname__, f"parameter name {name!r} is reserved")
            if not _is_safe(field.annotation):
                raise DeclarationError(
                    cls.__qualname__,
                    f"parameter {name!r} has type {_type_name(field.annotation)}, which could "
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
            raise Invalid(*refusal)


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
            type=_takes(field),
            choices=tuple(_choices(field)),
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
    found = _possible(field.annotation, tuple(_choices(field)))
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
    """
    try:
        return model(**values)
    except ValidationError as error:
        raise ParameterError(template, _problems(model, error, values)) from None


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
    found = {name: _choices(field) for name, field in model.model_fields.items()}
    return {name: choices for name, choices in found.items() if choices}


def _listed(value: Any) -> Any:
    """Return names in one text, such as ``"dt c"`` or ``"dt, c"``, as a tuple."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else plain(value)


def _choices(field: FieldInfo) -> list[str]:
    extra = field.json_schema_extra
    if isinstance(extra, dict) and extra.get("choices"):
        return typing.cast("list[str]", extra["choices"])
    if get_origin(field.annotation) is Literal:
        return [str(a) for a in get_args(field.annotation)]
    return ["True", "False"] if field.annotation is bool else []


def _takes(field: FieldInfo) -> str:
    """Return in words what a parameter takes."""
    if choices := _choices(field):
        return _listing(choices)
    if wording := _wording(field):
        return wording.takes
    low = next((m.ge for m in field.metadata if getattr(m, "ge", None) is not None), None)
    high = next((m.le for m in field.metadata if getattr(m, "le", None) is not None), None)
    bounds = {
        (True, True): f" from {low} to {high}",
        (True, False): f" of at least {low}",
        (False, True): f" of at most {high}",
        (False, False): "",
    }[low is not None, high is not None]
    return _type_name(field.annotation) + bounds


def _wording(field: FieldInfo) -> Wording | None:
    return next((m for m in field.metadata if isinstance(m, Wording)), None)


def _type_name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        listed = [name for a in arguments for name in _names_in(a)]
        if listed[-1] == "None" and any(get_origin(a) in (dict, tuple) for a in arguments):
            return f"None, or {_listing(listed[:-1])}"  # Not what a container may hold.
        return _listing(listed)
    if origin is tuple:
        each = _type_name(arguments[0])
        is_long = arguments[-1] is ... or len(set(arguments)) > 1
        return f"a tuple of {each}" if is_long else f"a tuple of {len(arguments)}, each {each}"
    if origin is dict:
        return f"a dict from {_type_name(arguments[0])} to {_type_name(arguments[1])}"
    if origin is Literal:
        return _listing([str(a) for a in arguments])
    names = {int: "an integer", float: "a number", bool: "True or False", str: "str"}
    names |= {DType: "a dtype", Identifier: "an identifier", type(None): "None"}
    names |= {FieldName: "a field"}
    names |= dict.fromkeys((Expression, Assignments, Reducing), "an expression")
    names |= {Equations: "equations"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _names_in(annotation: Any) -> list[str]:
    """Return in words what one of several types takes."""
    is_literal = get_origin(annotation) is Literal
    return [*map(str, get_args(annotation))] if is_literal else [_type_name(annotation)]


def _listing(choices: Iterable[str]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


def _refusal(field: FieldInfo, value: Any) -> str:
    """Return in words what a parameter takes instead of a value."""
    got = "nothing" if value is PydanticUndefined else _shown(value)
    if len(got) > _LONGEST:
        got = f"{got[: _LONGEST - 3]}..."
    hint = near(value, _words(field.annotation)) if isinstance(value, str) else ""
    if wording := _wording(field):
        hint = wording.hint(plain(value))
    return f"takes {_takes(field)}; got {got}" + (f".{hint}" if hint else "")


def _words(annotation: Any) -> list[str]:
    """Return the texts among the values of a type, without those within containers."""
    if get_origin(annotation) is Literal:
        return [value for value in get_args(annotation) if isinstance(value, str)]
    if get_origin(annotation) in (Union, types.UnionType):
        return [word for kind in get_args(annotation) for word in _words(kind)]
    return []


def _problems(
    model: type[ParameterModel], error: ValidationError, given: Mapping[str, Any]
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
            problems[name] = f"is missing; it takes {_takes(field)}: {field.description}"
        elif name in model.model_fields:
            field = model.model_fields[name]
            problems.setdefault(name, _refusal(field, given.get(name, field.default)))
        else:
            problems.setdefault(name, detail["msg"])
    return problems

"""Checks the names within the class of a template: models, parameters, methods."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterator

from tikgen.errors import TemplateError
from tikgen.template.base import CODE_NAME, Template
from tikgen.template.parameters import ProblemModel, ScheduleModel
from tikgen.template.reserved import TAKEN_BY

# How much names of methods are alike where one is meant as the other: "size" as "sizes".
_ALIKE = 0.85
_METHODS = (types.FunctionType, staticmethod, classmethod)


def check_names(template: str, declared: type[Template], place: Callable[[str], str]) -> None:
    """Raise :class:`TemplateError` for a name that does not mean what it seems to.

    Args:
        template: name of the template, for messages.
        declared: its class.
        place: returns where a class or a parameter is declared, for messages.
    """
    for name, base in (("Problem", ProblemModel), ("Schedule", ScheduleModel)):
        model = getattr(declared, name)
        if not (isinstance(model, type) and issubclass(model, base)):
            problem = f"{name} must be a subclass of {base.__name__}: class {name}({base.__name__})"
            raise TemplateError(template, problem + place(name))
    overlap = sorted(set(declared.Problem.model_fields) & set(declared.Schedule.model_fields))
    if overlap:
        problem = f"{', '.join(overlap)} is both a problem and a schedule parameter"
        raise TemplateError(template, problem + place(overlap[0]))
    for name in (*declared.Problem.model_fields, *declared.Schedule.model_fields):
        if function := TAKEN_BY.get(name):
            problem = f"parameter name {name!r} is reserved: tikgen.{function}() takes an option of"
            raise TemplateError(template, f"{problem} that name{place(name)}")
    usual = [name for name, value in vars(Template).items() if isinstance(value, _METHODS)]
    for name, line in _own_methods(declared):
        if meant := difflib.get_close_matches(name, usual, n=1, cutoff=_ALIKE):
            problem = (
                f"tikgen knows no method {name!r}, and would leave it aside. Did you mean "
                f"{meant[0]!r}? A helper of your own takes another name, such as '_{name}'"
            )
            raise TemplateError(template, f"{problem} (in {CODE_NAME}:{line})")


def _own_methods(declared: type[Template]) -> Iterator[tuple[str, int]]:
    """Yield the public methods that a template adds to those of tikgen, and their lines."""
    for name, value in vars(declared).items():
        if isinstance(value, _METHODS) and not (name.startswith("_") or hasattr(Template, name)):
            function = value if isinstance(value, types.FunctionType) else value.__func__
            yield name, getattr(getattr(function, "__code__", None), "co_firstlineno", 0)

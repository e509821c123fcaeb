"""What methods of a template return that every build asks, checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tikgen.errors import ParameterError, TemplateError
from tikgen.template.arguments import Argument, Array, Opaque, Scalar, symbols
from tikgen.template.blame import (
    Declaring,
    answered,
    asked,
    asked_dict,
    blamed,
    misreturned,
    place_of,
    shown,
)
from tikgen.template.parameters import ScheduleModel, make_model

# What generated code calls by these names.
_TAKEN = {"ti": "Taichi", "range": "Python's range"}


class Sized(Declaring, Protocol):
    """A template whose arrays have sizes by name."""

    def size_symbols(self, p: Any) -> tuple[str, ...]:
        """Return the names of the sizes."""


def declared(
    template: Declaring, method: str, *models: Any, beside: tuple[Argument, ...] = ()
) -> tuple[Any, ...]:
    """Return what a template declares; an array of a workspace has the role ``"work"``.

    Args:
        template: the template.
        method: ``"arguments()"`` or ``"workspace()"``.
        models: what the method takes: the problem, and for a workspace the schedule.
        beside: the arguments that a workspace follows.

    Raises:
        TemplateError: if the method fails, or returns what no kernel can take.
    """
    found = answered(template, method, *models)
    if isinstance(found, Iterable):
        with blamed(template, method):  # What yields them may fail.
            found = tuple(found)
    is_workspace = method == "workspace()"
    kinds: tuple[type, ...] = (Array,) if is_workspace else (Array, Scalar, Opaque)
    if not isinstance(found, tuple) or not all(isinstance(a, kinds) for a in found):
        takes = " and ".join(kind.__name__ for kind in kinds[:2])
        raise misreturned(template, method, found, f"a tuple of {takes}")
    if problem := _problem_of(found, is_workspace, beside):
        told = f"{method} declares {problem}{place_of(template, method)}"
        raise TemplateError(template.name, told)
    # The default role says nothing about an array that no caller passes.
    return tuple(replace(a, role="work") for a in found) if is_workspace else found


def tried_sizes(template: Sized, problem: Any) -> dict[str, list[int]]:
    """Return the sizes that a template lists for its size symbols, each once, in ascending order.

    Raises:
        TemplateError: if ``sizes()`` fails, names no size symbol or lists what is no size.
    """
    method = "sizes()"
    with blamed(template, method):
        known = template.size_symbols(problem)  # Those that are baked in too.
    given = asked_dict(template, method, problem, kind="size", known=known)
    with blamed(template, method):
        found = {name: sorted(set(sizes)) for name, sizes in given.items()}
    for name, sizes in found.items():
        if not sizes or any(type(n) is not int or n < 1 for n in sizes):
            told = f"{method} must give {name} sizes of 1 and more, since no array may be empty"
            problem = f"{told}; gives {shown(sizes)}{place_of(template, method)}"
            raise TemplateError(template.name, problem)
    return found


def returned_schedule(
    template: Declaring, method: str, model: type[ScheduleModel], *given: Any
) -> dict[str, Any]:
    """Return the schedule parameters that a template chooses.

    Args:
        template: the template.
        method: ``"default_schedule()"`` or ``"direct_schedule()"``.
        model: the template's ``Schedule``.
        given: what the method takes.

    Raises:
        TemplateError: if the method fails, or returns what a schedule cannot be.
    """
    names = model.model_fields
    found = asked_dict(template, method, *given, kind="schedule parameter", known=names)
    try:
        make_model(model, found, template.name)
    except ParameterError as error:
        told = str(error).removeprefix(f"{template.name}: ").rstrip(".")
        problem = f"{method} returned {shown(found)}: {told}{place_of(template, method)}"
        raise TemplateError(template.name, problem) from None
    return found


def as_numbers(
    template: Declaring, method: str, argument: Array | Scalar, value: Any
) -> npt.NDArray[Any]:
    """Return what a template gives for an argument, in the argument's dtype.

    Args:
        template: the template.
        method: the method that gives it, such as ``"inputs()"``.
        argument: the argument.
        value: an array or a number.

    Raises:
        TemplateError: if the values are complex, dates or texts.
    """
    found = np.asarray(value)
    if found.dtype.kind not in "biufO":
        told = f"{method} gives {argument.name} values of {found.dtype}; it takes {argument.dtype}"
        raise TemplateError(template.name, told + place_of(template, method))
    return found.astype(argument.dtype.numpy, copy=False)


def reason_against(template: Declaring, problem: Any, arch: str) -> str:
    """Return why a template does not support a problem on an arch, or nothing.

    Raises:
        TemplateError: if its ``unsupported`` fails, or returns something else.
    """
    kinds = (str, type(None))
    return asked(template, "unsupported()", kinds, "a reason, or None", problem, arch) or ""


def _problem_of(
    found: tuple[Any, ...], is_workspace: bool, beside: tuple[Argument, ...] = ()
) -> str:
    """Return which of the declared arguments a kernel cannot have, or nothing."""
    if is_workspace and (unknown := {*symbols(found)} - {*symbols(beside)}):
        known = ", ".join(symbols(beside)) or "none"
        return f"a size {min(unknown)!r}, which no argument has; sizes of arguments are {known}"
    for argument in found:
        if isinstance(argument, Array) and (problem := _role_problem(argument, is_workspace)):
            return problem
    names = [argument.name for argument in (*beside, *found)]
    for name in names:
        if names.count(name) > 1:
            return f"two arguments named {name!r}; each takes a name of its own"
        if name in _TAKEN:
            return f"an argument {name!r}, which is {_TAKEN[name]} in the text; take another name"
    # A user's own text declares nothing, and of an opaque argument nothing is known.
    is_written = any(isinstance(a, Opaque) or (isinstance(a, Array) and a.written) for a in found)
    if found and not (is_workspace or is_written):
        return "no array that is written; one needs role='out' or 'inout'"
    return ""


def _role_problem(array: Array, is_workspace: bool) -> str:
    """Return why the method cannot declare an array of this role, or nothing."""
    what = f"{array.name} with role={array.role!r}"
    if not is_workspace:
        is_scratch = array.role == "work"
        return f"{what}; scratch arrays are declared by workspace()" if is_scratch else ""
    if array.storage == "field":
        return f"{array.name} with storage='field'; tikgen allocates scratch arrays as ndarrays"
    if array.role in ("out", "inout"):
        return f"{what}; scratch arrays have role='work', and arguments() declares what is passed"
    return ""

"""Schedules that keep the rules of a template: of given parameters, and of drawn ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tikgen.errors import ParameterError
from tikgen.template.base import Template
from tikgen.template.parameters import (
    NOT_GIVEN,
    Invalid,
    ParameterModel,
    ScheduleModel,
    make_model,
    possible_values,
)
from tikgen.template.rules import ARCH, neutral_values, repaired, rules_of


def make_schedule(
    template: Template,
    problem: ParameterModel,
    values: Mapping[str, Any],
    arch: str,
    given: Collection[str] | None = None,
    asked: Collection[str] | None = None,
) -> ScheduleModel:
    """Return the schedule of ``values``, which fits the problem and the arch.

    Args:
        template: the template.
        problem: the problem.
        values: schedule parameters by name; the others have their defaults.
        arch: arch to run on.
        given: parameters that keep their value though they do not apply, and so are refused; by
            default all of ``values``. The others become neutral.
        asked: parameters whose value a user gave, for messages; by default all of ``values``.

    Raises:
        ParameterError: naming what is wrong with a value, or the constraint that it breaks.
    """
    made = make_model(template.Schedule, values, template.name)
    known = {**dict(problem), **dict(made), ARCH: arch}
    neutral = neutral_values(template.Schedule, known, values if given is None else given)
    chosen = {**dict(made), **neutral}
    schedule = template.Schedule.model_construct(_fields_set=set(made.model_fields_set), **chosen)
    try:
        template.check_schedule(problem, schedule, arch)
    except Invalid as error:
        by_user = error.parameter in (values if asked is None else asked)
        is_own = error.parameter in chosen and not by_user
        told = error.problem + NOT_GIVEN * is_own
        raise ParameterError(template.name, {error.parameter: told}) from None
    return schedule


def fitted(
    template: Template,
    drawn: Mapping[str, Any],
    arch: str,
    fixed: Collection[str] = (),
    pick: Callable[[Sequence[Any]], Any] = lambda values: values[0],
) -> dict[str, Any]:
    """Return drawn parameters, changed where they do not go together, as far as that is known.

    Args:
        template: the template.
        drawn: parameters by name, of the problem and of the schedule.
        arch: arch to run on.
        fixed: parameters that must stay.
        pick: chooses one of several values that fit.
    """
    names = template.Problem.model_fields
    values = {name: value for name, value in drawn.items() if name in names}
    known = {name: field.default for name, field in names.items()} | values
    idle = neutral_values(template.Problem, known, fixed)
    values = {name: value for name, value in values.items() if name not in idle}

    def make_problem(chosen: Mapping[str, Any]) -> ParameterModel:
        return make_model(template.Problem, chosen, template.name)

    values = repaired(
        values, _refusals(make_problem), _choices(template.Problem, values, fixed), pick
    )
    try:
        problem = make_problem(values)
    except ParameterError:
        return {**drawn, **values}
    schedule = {n: v for n, v in drawn.items() if n in template.Schedule.model_fields}

    def make(chosen: Mapping[str, Any]) -> ParameterModel:
        return make_schedule(template, problem, chosen, arch, fixed)

    schedule = repaired(
        schedule, _refusals(make), _choices(template.Schedule, schedule, fixed), pick
    )
    if _refusals(make)(schedule) is None:
        made = dict(make(schedule))
        schedule = {name: made[name] for name in schedule}
    return {**values, **schedule}


def _refusals(
    make: Callable[[Mapping[str, Any]], ParameterModel],
) -> Callable[[Mapping[str, Any]], str | None]:
    """Return a function that returns the name of the first value that ``make`` refuses."""

    def refused(values: Mapping[str, Any]) -> str | None:
        try:
            make(values)
        except ParameterError as error:
            return error.parameter
        return None

    return refused


def _choices(
    model: type[ParameterModel], drawn: Collection[str], fixed: Collection[str]
) -> Callable[[str], Sequence[tuple[str, Any]]]:
    """Return a function that returns what may be changed where a parameter is refused.

    That is its own value, or those that its rule mentions where it is fixed.
    """
    rules = rules_of(model)

    def choices(name: str) -> Sequence[tuple[str, Any]]:
        mentioned = sorted(rules[name].names) if name in fixed and name in rules else [name]
        usable = [n for n in mentioned if n in drawn and n not in fixed]
        return [(n, value) for n in usable for value in possible_values(model, n)]

    return choices

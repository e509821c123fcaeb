"""Chooses the variant of a build: checks its parameters, and finds its schedule."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tikgen import engines
from tikgen.errors import ParameterError
from tikgen.machine.devices import device_name
from tikgen.pipeline import records
from tikgen.pipeline.rendering import Variant
from tikgen.taichi import runtime
from tikgen.template import catalogue, shapes
from tikgen.template.arguments import symbols
from tikgen.template.base import Template
from tikgen.template.declared import declared
from tikgen.template.parameters import ProblemModel, make_model
from tikgen.template.schedules import make_schedule

DEFAULT_ARCH = "cpu"


def choose(
    name: str | Template,
    schedule: Mapping[str, Any] | str | None,
    shape: tuple[int, ...] | Mapping[str, int] | None,
    arch: str | None,
    params: Mapping[str, Any],
    near: Mapping[str, int] | None = None,
    engine: str = engines.DEFAULT,
) -> tuple[Variant, records.Record | None]:
    """Return the variant that ``build`` uses, and the tuning record of its schedule or None.

    ``near`` are sizes for the choice of the schedule that are not baked in; ``engine`` launches.
    """
    template = catalogue.find_template(name)
    if arch is not None and not runtime.is_arch(arch):
        takes = f"takes {runtime.LISTED_ARCHS}; got {arch!r}"
        raise ParameterError(template.name, {"arch": takes})
    problem_names = template.Problem.model_fields
    schedule_names = template.Schedule.model_fields
    for unknown in params.keys() - problem_names.keys() - schedule_names.keys():
        known = [*problem_names, *schedule_names]
        raise ParameterError.unknown(template.name, unknown, known)
    wanted = {k: v for k, v in params.items() if k in schedule_names}
    wanted |= _explicit_schedule(template, schedule, wanted)
    problem = make_model(
        template.Problem, {k: v for k, v in params.items() if k in problem_names}, template.name
    )
    assert isinstance(problem, ProblemModel)
    arch = arch or runtime.current_arch() or DEFAULT_ARCH
    sizes = None
    if shape is not None:
        arguments = declared(template, "arguments()", problem)
        names = template.size_symbols(problem)
        sizes = shapes.sizes_of_shape(template.name, names, shape, arguments)
    baked = tuple((sizes or {}).items())
    sizes = sizes if near is None else dict(near)
    # Optimised schedules may fail Taichi's bounds checks, which look at each axis.
    plainest = runtime.is_debug()
    is_automatic = schedule in (None, "auto") and not (wanted or plainest)
    if schedule == "tuned" or is_automatic:
        farthest = records.NEAR if near and schedule != "tuned" else math.inf
        timed_by = engines.timed_by(engine, arch)
        found = records.records_for(template, problem, arch, timed_by)
        record = records.best_of(found, sizes, farthest)
        if record is not None:
            try:
                tuned = {**record.schedule, **wanted}
                variant = _variant(template, problem, tuned, arch, baked)
                return variant, None if wanted else record
            except ParameterError as error:
                if wanted:
                    raise
                records.warn_of(record, error)
        if schedule == "tuned" and not near:
            raise ParameterError(template.name, {"schedule": _untuned(template, arch, timed_by)})
    is_direct = engines.is_direct(engine, arch)
    defaults = {} if plainest else template.default_values(problem, arch, sizes, is_direct)
    try:
        return _variant(template, problem, {**defaults, **wanted}, arch, baked, wanted), None
    except ParameterError as error:
        if not (defaults and wanted):
            raise
        conflict = error
    # Given values take precedence over conflicting defaults of the arch.
    try:
        return _variant(template, problem, wanted, arch, baked, wanted), None
    except ParameterError as error:
        raise error if error.parameter in wanted else conflict from None


def default_of(variant: Variant, archs: Iterable[str]) -> tuple[str, bool] | None:
    """Return of what the schedule of a variant is the default, or None where it was given.

    Args:
        variant: the variant.
        archs: archs to look at, the first that fits wins.

    Returns:
        tuple[str, bool] | None: the arch, and whether it is ``direct_schedule`` that gives it.
    """
    sizes = dict(variant.sizes) or None
    for arch in archs:
        for is_direct in (False, True):
            default = variant.template.default_values(variant.problem, arch, sizes, is_direct)
            if variant.schedule == type(variant.schedule)(**default):
                return arch, is_direct
    return None


def follows_sizes(
    variant: Variant, schedule: object, shape: object, params: Mapping[str, Any]
) -> bool:
    """Return whether a build leaves the schedule to the sizes of each call."""
    fields = type(variant.schedule).model_fields
    return (
        shape is None
        and schedule in (None, "auto", "tuned")
        and bool(fields)
        and not fields.keys() & params.keys()
        and bool(symbols(variant.arguments))
    )


def _untuned(template: Template, arch: str, engine: str) -> str:
    by = "" if engine == engines.TAICHI else f" with the engine {engine}"
    return (
        f"is 'tuned', and nothing was tuned for this problem on {arch}{by} "
        f"({device_name(arch)}); run tikgen.tune({template.name!r}, ...), or take 'auto'"
    )


def _variant(
    template: Template,
    problem: ProblemModel,
    schedule: Mapping[str, Any],
    arch: str,
    sizes: tuple[tuple[str, int], ...],
    asked: Collection[str] | None = None,
) -> Variant:
    made = make_schedule(template, problem, schedule, arch, asked=asked)
    return Variant(template, problem, made, sizes)


def _explicit_schedule(
    template: Template, schedule: Mapping[str, Any] | str | None, flat: Mapping[str, Any]
) -> dict[str, Any]:
    if schedule is None or (isinstance(schedule, str) and schedule in ("auto", "tuned")):
        return {}
    if not isinstance(schedule, Mapping):
        raise ParameterError(
            template.name, {"schedule": f"takes 'auto', 'tuned' or a dict; got {schedule!r}"}
        )
    for name in schedule:
        if name not in template.Schedule.model_fields:
            raise ParameterError.unknown(template.name, str(name), template.Schedule.model_fields)
        if name in flat:
            raise ParameterError(template.name, {name: "is given twice: alone and in schedule"})
    return dict(schedule)

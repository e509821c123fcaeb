"""The pipeline in one call: resolve, render, load, wrap; memoised and deduplicated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from tikgen import catalogue, records, shapes
from tikgen import taichi_bridge as bridge
from tikgen.arguments import Argument
from tikgen.budget import check_budget
from tikgen.device import device_name
from tikgen.errors import ParameterError
from tikgen.kernel import Kernel, check_arch
from tikgen.loader import load, unload
from tikgen.parameters import (
    Invalid,
    ParameterModel,
    ProblemModel,
    ScheduleModel,
    canonical,
    make_model,
)
from tikgen.rendering import Source, Variant, render_variant
from tikgen.store import default_store
from tikgen.template import Template
from tikgen.version import __version__

DEFAULT_ARCH = "cpu"

_lock = threading.RLock()
_memo: dict[Any, Kernel] = {}
_sources: dict[str, Source] = {}
_kernels: dict[tuple[str, tuple[Any, ...]], Kernel] = {}


def build(
    name: str | Template,
    *,
    schedule: Mapping[str, Any] | str | None = None,
    shape: tuple[int, ...] | Mapping[str, int] | None = None,
    arch: str | None = None,
    **params: Any,
) -> Kernel:
    """Return the kernel of a template with the given parameters.

    Equal code gives one kernel object, however it was asked for. Nothing is compiled by Taichi
    before the first launch, and ``ti.init`` need not have been called.

    Args:
        name: name of a template, or the template itself.
        schedule: schedule parameters as a dict, ``{}`` for the arch's default; ``"tuned"`` for
            the best that tuning found on this device for the nearest shape; ``"auto"``, which is
            the default, for the same where there is one, else for the arch's default. Those among
            ``params`` win over either.
        shape: sizes to bake into the kernel, in the order of the template's size symbols or by
            symbol; without it the kernel takes any.
        arch: arch whose schedule is taken: the current one, else cpu.
        params: problem and schedule parameters.

    Raises:
        UnknownTemplate: if no template has that name.
        ParameterError: if a parameter is unknown, missing, ill-typed or out of range, or if
            nothing was tuned for ``schedule="tuned"``.
        RenderError: if the template is malformed.
        CompileBudgetExceeded: if the kernel would take minutes to compile.
        UnsupportedOnArch: if Taichi runs on an arch that cannot run the kernel.
    """
    try:
        key = (
            name,
            schedule,
            shape,
            arch,
            records.generation,
            bridge.current_arch(),
            bridge.is_debug(),
            catalogue.generation,
            *params.items(),
            # 1, 1.0 and True are equal, and not alike; so are tuples of them.
            *[repr(v) if type(v) is tuple else type(v) for v in params.values()],
        )
        return _memo[key]
    except KeyError:
        pass
    except TypeError:  # A dict among the parameters is not hashable: the variant's key decides.
        key = None
    with _lock:
        variant, record = choose(name, schedule, shape, arch, params)
        kernel = kernel_of(_render_once(variant)).with_record(record)
        if bridge.is_initialised():
            check_arch(variant, bridge.current_arch() or DEFAULT_ARCH)
        if key is not None:
            _memo[key] = kernel
        return kernel


def render(
    name: str | Template,
    *,
    schedule: Mapping[str, Any] | str | None = None,
    shape: tuple[int, ...] | Mapping[str, int] | None = None,
    arch: str | None = None,
    **params: Any,
) -> Source:
    """Return the rendered source of a variant; takes what :func:`build` takes."""
    return render_variant(resolve(name, schedule=schedule, shape=shape, arch=arch, **params))


def resolve(
    name: str | Template,
    *,
    schedule: Mapping[str, Any] | str | None = None,
    shape: tuple[int, ...] | Mapping[str, int] | None = None,
    arch: str | None = None,
    **params: Any,
) -> Variant:
    """Return the variant of a template with every parameter fixed; takes what ``build`` takes."""
    return choose(name, schedule, shape, arch, params)[0]


def choose(
    name: str | Template,
    schedule: Mapping[str, Any] | str | None,
    shape: tuple[int, ...] | Mapping[str, int] | None,
    arch: str | None,
    params: Mapping[str, Any],
) -> tuple[Variant, records.Record | None]:
    """Return the variant that ``build`` takes, and the tuning record of its schedule, if any."""
    template = catalogue.find_template(name)
    if arch is not None and arch not in bridge.ARCHS:
        takes = ", ".join(bridge.ARCHS)
        raise ParameterError(template.name, {"arch": f"takes one of {takes}; got {arch!r}"})
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
    arch = arch or bridge.current_arch() or DEFAULT_ARCH
    sizes = None
    if shape is not None:
        symbols = template.size_symbols(problem)
        arguments = template.arguments(problem)
        sizes = shapes.sizes_of_shape(template.name, symbols, shape, arguments)
    baked = tuple((sizes or {}).items())
    # Where Taichi checks the bounds of each axis, the plainest schedule is the right one.
    plainest = bridge.is_debug()
    is_automatic = schedule in (None, "auto") and not (wanted or plainest)
    if schedule == "tuned" or is_automatic:
        record = records.best_record(template, problem, arch, sizes)
        if record is not None:
            try:
                tuned = {**record.schedule, **wanted}
                variant = _variant(template, problem, tuned, arch, baked)
                return variant, None if wanted else record
            except ParameterError as error:
                if wanted:
                    raise
                records.warn_of(record, error)
        if schedule == "tuned":
            raise ParameterError(template.name, {"schedule": _untuned(template, arch)})
    defaults = {} if plainest else template.default_schedule(problem, arch, sizes)
    try:
        return _variant(template, problem, {**defaults, **wanted}, arch, baked), None
    except ParameterError as error:
        if not (defaults and wanted):
            raise
        conflict = error
    # What was asked for wins over the arch's defaults, where the two do not go together.
    try:
        return _variant(template, problem, wanted, arch, baked), None
    except ParameterError as error:
        raise error if error.parameter in wanted else conflict from None


def _untuned(template: Template, arch: str) -> str:
    return (
        f"is 'tuned', and nothing was tuned for this problem on {arch} "
        f"({device_name(arch)}); run tikgen.tune({template.name!r}, ...), or take 'auto'"
    )


def _variant(
    template: Template,
    problem: ProblemModel,
    schedule: Mapping[str, Any],
    arch: str,
    sizes: tuple[tuple[str, int], ...],
) -> Variant:
    return Variant(template, problem, make_schedule(template, problem, schedule, arch), sizes)


def make_schedule(
    template: Template, problem: ParameterModel, values: Mapping[str, Any], arch: str
) -> ScheduleModel:
    """Return the schedule of ``values``, which fits the problem and the arch.

    Raises:
        ParameterError: naming what is wrong with a value, or the constraint that it breaks.
    """
    schedule = make_model(template.Schedule, values, template.name)
    assert isinstance(schedule, ScheduleModel)
    try:
        template.check(problem, schedule, arch)
    except Invalid as error:
        raise ParameterError(template.name, {error.parameter: error.problem}) from None
    return schedule


def clear() -> None:
    """Unload every kernel, and forget every template and memo.

    Kernels still held cannot be launched again. Templates are read anew when next asked for.
    """
    with _lock:
        for kernel in _kernels.values():
            kernel.unload()
        _memo.clear()
        _sources.clear()
        _kernels.clear()
        catalogue.forget_templates()


def _explicit_schedule(
    template: Template, schedule: Mapping[str, Any] | str | None, flat: Mapping[str, Any]
) -> dict[str, Any]:
    if schedule is None or schedule in ("auto", "tuned"):
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


def _render_once(variant: Variant) -> Source:
    if variant.key not in _sources:
        source = render_variant(variant)
        check_budget(variant.template.name, source.text)
        _sources[variant.key] = source
    return _sources[variant.key]


def kernel_of(
    source: Source, arguments_of: Callable[[Any, str], tuple[Argument, ...]] | None = None
) -> Kernel:
    """Return the one kernel with the code and the arguments of ``source``.

    Args:
        source: what to load, unless its like is loaded already.
        arguments_of: reads the arguments off the loaded kernel and the text, for sources whose
            template does not declare them.
    """
    variant = source.variant
    identity = (source.digest, variant.arguments + variant.workspace)
    with _lock:
        if identity not in _kernels:
            module = load(source)
            try:
                _kernels[identity] = Kernel(source, module, arguments_of)
            except BaseException:
                unload(module)
                raise
            _keep(source)
        return _kernels[identity]


def _keep(source: Source) -> None:
    """Put the text into the store under its digest, unless it is there and unharmed."""
    store = default_store()
    if store.read("sources", source.digest) is None:
        document = {
            "digest": source.digest,
            "text": source.text,
            "line_map": list(source.line_map),
            "template": source.variant.template.name,
            "params": {name: canonical(v) for name, v in source.variant.params.items()},
            "tikgen": __version__,
        }
        store.write("sources", source.digest, document)

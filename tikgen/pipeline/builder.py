"""The pipeline in one call: resolve, render, load, wrap; memoised and deduplicated."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tikgen.errors import ParameterError, TikgenError
from tikgen.machine.devices import device_name
from tikgen.pipeline import events, records
from tikgen.pipeline.budget import check_budget
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import check_arch, load_source
from tikgen.pipeline.rendering import Source, Variant, hashed, render_text, render_variant
from tikgen.pipeline.variant_key import key_fields
from tikgen.store import default_store
from tikgen.taichi import runtime
from tikgen.template import catalogue, shapes
from tikgen.template.arguments import Argument
from tikgen.template.base import Template
from tikgen.template.parameters import ProblemModel, canonical, make_model
from tikgen.template.schedules import make_schedule
from tikgen.version import __version__

DEFAULT_ARCH = "cpu"

_lock = threading.RLock()
_memo: dict[Any, Kernel] = {}
_sources: dict[str, Source] = {}
_kernels: dict[tuple[str, tuple[Any, ...]], Kernel] = {}
# Every kernel that someone holds: several may have come to have the same code.
_alive: weakref.WeakValueDictionary[int, Kernel] = weakref.WeakValueDictionary()
_numbers = itertools.count()


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
            runtime.current_arch(),
            runtime.is_debug(),
            catalogue.generation,
            *params.items(),
            # 1, 1.0 and True are equal, and not alike; so are tuples of them.
            *[repr(v) if type(v) is tuple else type(v) for v in params.values()],
        )
        kernel = _memo[key]
        if events.is_recording():
            events.emit("resolve", kernel.loaded.subject, time.perf_counter(), 0.0, memo=True)
        return kernel
    except KeyError:
        pass
    except TypeError:  # A dict among the parameters is not hashable: the variant's key decides.
        key = None
    with _lock:
        journal = events.Journal()
        try:
            variant, record = journal.timed(
                "resolve", lambda: choose(name, schedule, shape, arch, params), memo=False
            )
            source = _render_once(variant, journal)
            kernel = kernel_of(source, journal=journal).with_record(record)
        except TikgenError:
            journal.tell(events.Subject(str(name), "", 0, "tikgen"))
            raise
        journal.tell(kernel.loaded.subject, **_described(source, kernel))
        if runtime.is_initialised():
            check_arch(variant, runtime.current_arch() or DEFAULT_ARCH)
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
    if arch is not None and arch not in runtime.ARCHS:
        takes = ", ".join(runtime.ARCHS)
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
    arch = arch or runtime.current_arch() or DEFAULT_ARCH
    sizes = None
    if shape is not None:
        symbols = template.size_symbols(problem)
        arguments = template.arguments(problem)
        sizes = shapes.sizes_of_shape(template.name, symbols, shape, arguments)
    baked = tuple((sizes or {}).items())
    # Where Taichi checks the bounds of each axis, the plainest schedule is the right one.
    plainest = runtime.is_debug()
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
    defaults = {} if plainest else template.default_values(problem, arch, sizes)
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


def clear() -> None:
    """Unload every kernel, and forget every template and memo.

    Kernels still held cannot be launched again. Templates are read anew when next asked for.
    """
    with _lock:
        for kernel in _alive.values():
            kernel.unload()
        _memo.clear()
        _sources.clear()
        _kernels.clear()
        _alive.clear()
        catalogue.forget_templates()


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


def _described(source: Source, kernel: Kernel) -> dict[str, dict[str, Any]]:
    """Return what there is to know about the stages of a build, by their names."""
    variant, known = source.variant, kernel.variant
    params = {name: canonical(value) for name, value in variant.params.items()}
    return {
        "resolve": {"params": params, "schedule_origin": kernel.schedule_origin},
        "render": {"lines": source.text.count("\n")},
        "hash": {"digest": source.digest},
        "dedup": {"same_as": known.label if variant.key != known.key else None},
    }


def _render_once(variant: Variant, journal: events.Journal) -> Source:
    if variant.key not in _sources:
        text, line_map = journal.timed("render", lambda: render_text(variant))
        source = journal.timed("hash", lambda: hashed(variant, text, line_map))
        check_budget(variant.template.name, source.text)
        _sources[variant.key] = source
    return _sources[variant.key]


def kernel_of(
    source: Source,
    arguments_of: Callable[[Any, str], tuple[Argument, ...]] | None = None,
    journal: events.Journal | None = None,
) -> Kernel:
    """Return the one kernel with the code and the arguments of ``source``.

    Args:
        source: what to load, unless its like is loaded already.
        arguments_of: reads the arguments off the loaded kernel and the text, for sources whose
            template does not declare them.
        journal: takes the stage in which the kernel's like is looked for.
    """
    identity = _identity(source)
    journal = journal or events.Journal()
    with _lock:
        _sources.setdefault(source.variant.key, source)
        kernel = journal.timed("dedup", lambda: _kernels.get(identity))
        if kernel is None:
            kernel = _kernels[identity] = Kernel(load_source(source, arguments_of))
            _alive[next(_numbers)] = kernel
            _keep(source)
        return kernel


def _identity(source: Source) -> tuple[str, tuple[Any, ...]]:
    variant = source.variant
    return source.digest, variant.arguments + variant.workspace


def sources() -> tuple[Source, ...]:
    """Return every source that was rendered and not cleared, the oldest first."""
    with _lock:
        return tuple(_sources.values())


def note(source: Source) -> None:
    """Count ``source`` among :func:`sources`, though it was loaded elsewhere."""
    with _lock:
        _sources.setdefault(source.variant.key, source)


def kernels() -> tuple[Kernel, ...]:
    """Return every kernel that was built and not cleared, the oldest first."""
    with _lock:
        return tuple(_alive.values())


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Keep other threads from building, while a template and its kernels change together."""
    with _lock:
        yield


def replace(kernel: Kernel, source: Source, tell: Callable[[TikgenError | None], None]) -> None:
    """Offer the code of ``source`` to a kernel that was built, and build it so from now on.

    The kernel's next call takes the code, if it compiles; else the old code stays. Other kernels
    that were built for the same code are left alone.

    Args:
        kernel: as :func:`build` returned it.
        source: what to put in its place.
        tell: is called with None once the code is taken, else with what speaks against it.

    Raises:
        CompileBudgetExceeded: if the code would take minutes to compile.
        RenderError: if executing the text fails.
        KernelCompileError: if Taichi refuses the kernel's signature.
    """
    check_budget(source.variant.template.name, source.text)
    with _lock:
        loaded = load_source(source)  # Not that of a twin, whose parameters are others.
        _keep(source)
        _register(kernel, source)
        _memo.clear()
        _forget_outdated(source.variant.template, kernel.template)
        _sources[source.variant.key] = source
        for each in kernel.family:
            each.offer(loaded, lambda refusal: _settle(kernel, source, refusal, tell))


def keep(kernel: Kernel, variant: Variant) -> None:
    """Have ``kernel`` built for ``variant``, the code of which does not work."""
    with _lock:
        _sources[variant.key] = kernel.source
        _memo.clear()


def _settle(
    kernel: Kernel,
    source: Source,
    refusal: TikgenError | None,
    tell: Callable[[TikgenError | None], None],
) -> None:
    """Have ``kernel`` built for what it runs, once it took ``source`` or refused it."""
    with _lock:
        if not kernel.is_changing:
            _register(kernel, kernel.source)
            if refusal is not None and _sources.get(source.variant.key) is source:
                keep(kernel, source.variant)
        _memo.clear()
    tell(refusal)


def _register(kernel: Kernel, source: Source) -> None:
    """Have ``kernel`` built for the code of ``source`` and no other, unless another one is."""
    for identity in [i for i, known in _kernels.items() if known is kernel]:
        del _kernels[identity]
    _kernels.setdefault(_identity(source), kernel)


def _forget_outdated(new: Template, old: Template) -> None:
    """Forget what was built for a template in the state that it had before ``old``."""
    for key, source in list(_sources.items()):
        is_known = key.startswith((f"{new.key}(", f"{old.key}("))
        if source.variant.template.folder == new.folder and not is_known:
            del _sources[key]


def _keep(source: Source) -> None:
    """Put the text into the store under its digest, unless it is there and unharmed."""
    store = default_store()
    known = store.read("sources", source.digest)
    if known is None or "key" not in known:
        document = {
            "digest": source.digest,
            "text": source.text,
            "line_map": list(source.line_map),
            "template": source.variant.template.name,
            "label": source.variant.label,
            "key": key_fields(source.variant),
            "params": {name: canonical(v) for name, v in source.variant.params.items()},
            "tikgen": __version__,
        }
        store.write("sources", source.digest, document)

"""The pipeline in one call: resolve, render, load, wrap, with a memo and without duplicates."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tikgen import engines
from tikgen.errors import TikgenError
from tikgen.pipeline import events, records
from tikgen.pipeline.budget import check_budget
from tikgen.pipeline.choice import DEFAULT_ARCH as DEFAULT_ARCH
from tikgen.pipeline.choice import choose as choose
from tikgen.pipeline.choice import follows_sizes
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import check_arch, load_source
from tikgen.pipeline.rendering import Source, Variant, hashed, render_text, render_variant
from tikgen.pipeline.sized import SizedKernel
from tikgen.pipeline.variant_key import key_fields
from tikgen.store import default_store
from tikgen.taichi import runtime
from tikgen.taichi.freed import freed_in
from tikgen.template import catalogue
from tikgen.template.arguments import Argument
from tikgen.template.base import Template
from tikgen.version import __version__

_lock = threading.RLock()
# The last builds, kernels and texts. A kernel that is forgotten here and by its users is freed.
_memo: dict[Any, Kernel] = {}
_recent: dict[Kernel, None] = {}
_sources: dict[str, Source] = {}
_MOST_KERNELS, _MOST_SOURCES = 300, 2000
_kernels: weakref.WeakValueDictionary[tuple[Any, ...], Kernel] = weakref.WeakValueDictionary()
_sized: weakref.WeakValueDictionary[tuple[Any, ...], SizedKernel] = weakref.WeakValueDictionary()
# Every kernel that is referenced; several may have the same code after a rebuild.
_alive: weakref.WeakValueDictionary[int, Kernel] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def build(
    name: str | Template,
    *,
    schedule: Mapping[str, Any] | str | None = None,
    shape: tuple[int, ...] | Mapping[str, int] | None = None,
    arch: str | None = None,
    engine: str = engines.DEFAULT,
    **params: Any,
) -> Kernel:
    """Return the kernel of a template with the given parameters.

    Equal code and arguments give the same kernel object, as long as it is referenced or among the
    last 300. Taichi compiles nothing before the first launch, and ``ti.init`` need not have been
    called.

    Args:
        name: name of a template, or the template itself.
        schedule: schedule parameters as a dict, ``{}`` for the arch's default; ``"tuned"`` for
            the best that tuning found on this device for the nearest shape; ``"auto"`` (the
            default) for that if there is one, else for the arch's default. Schedule parameters
            among ``params`` override it.
        shape: sizes to bake into the kernel, in the order of the template's size symbols or by
            symbol; without it the kernel takes any.
        arch: arch whose schedule is taken: the current one by default, else cpu.
        engine: what launches the kernel, see :meth:`Kernel.with_engine`.
        params: problem and schedule parameters.

    Raises:
        UnknownTemplate: if no template has that name.
        ParameterError: if a parameter is unknown, missing, ill-typed or out of range, or if
            ``schedule="tuned"`` and nothing was tuned.
        RenderError: if the template is malformed.
        CompileBudgetExceeded: if the kernel would take minutes to compile.
        EngineUnavailable: if the engine cannot run here, or is unknown.
        UnsupportedOnArch: if Taichi runs, and ``arch``, or its own arch where that is not given,
            cannot run the kernel.
    """
    key: Any = None
    try:
        key = (
            name,
            schedule,
            shape,
            arch,
            engine,
            records.generation,
            runtime.current_arch(),
            runtime.is_debug(),
            catalogue.generation_for(name),
            *params.items(),
            # 1, 1.0 and True are equal but differ in type, also within tuples.
            *[repr(v) if type(v) is tuple else type(v) for v in params.values()],
        )
        kernel = _memo[key]
        if events.recordings():
            events.emit("resolve", kernel.loaded.subject, time.perf_counter(), 0.0, memo=True)
        return kernel
    except KeyError:
        pass
    except TypeError:  # A dict among the parameters is not hashable.
        key = None
    with _lock:
        journal = events.Journal()
        try:
            variant, record = journal.timed(
                "resolve",
                lambda: choose(
                    catalogue.current_template(name), schedule, shape, arch, params, engine=engine
                ),
                memo=False,
            )
            source = _render_once(variant, journal)
            kernel = kernel_of(source, journal=journal).with_record(record)
            if follows_sizes(variant, schedule, shape, params):
                kernel = _sized_of(kernel, variant, schedule, arch)
            kernel = kernel.with_engine(engine)
        except TikgenError:
            journal.emit(events.Subject(str(name), "", 0, "tikgen"))
            raise
        journal.emit(kernel.loaded.subject, **_described(source, kernel))
        if runtime.is_initialised():  # A launch checks the arch on which it runs.
            check_arch(variant, arch or runtime.current_arch() or DEFAULT_ARCH)
        if key is not None:
            _memo[key] = kernel
            _limit(_memo, _MOST_KERNELS)
        return kernel


def render(
    name: str | Template,
    *,
    schedule: Mapping[str, Any] | str | None = None,
    shape: tuple[int, ...] | Mapping[str, int] | None = None,
    arch: str | None = None,
    **params: Any,
) -> Source:
    """Return the rendered source of a variant, without loading it.

    Args:
        name: name of a template, or the template itself.
        schedule: schedule parameters as a dict, ``"auto"`` or ``"tuned"``, as :func:`build` takes
            them.
        shape: sizes to bake into the text, in the order of the template's size symbols or by
            symbol.
        arch: arch whose schedule is taken: the current one by default, else cpu.
        params: problem and schedule parameters.

    Raises:
        UnknownTemplate: if no template has that name.
        ParameterError: if a parameter is unknown, missing, ill-typed or out of range, or if
            ``schedule="tuned"`` and nothing was tuned.
        RenderError: if the template is malformed.
    """
    template = catalogue.current_template(name)
    return render_variant(resolve(template, schedule=schedule, shape=shape, arch=arch, **params))


def resolve(
    name: str | Template,
    *,
    schedule: Any = None,
    shape: Any = None,
    arch: Any = None,
    **params: Any,
) -> Variant:
    """Return the variant of a template; takes the arguments of :func:`build`."""
    return choose(name, schedule, shape, arch, params)[0]


def _sized_of(base: Kernel, variant: Variant, schedule: object, arch: str | None) -> Kernel:
    """Return the only kernel that chooses by sizes, for a problem and what was chosen without."""
    problem = tuple(variant.texts[name] for name in type(variant.problem).model_fields)
    key = (base, problem, schedule == "tuned", arch)
    known = _sized.get(key)
    if known is None:

        def at(variant: Variant, sizes: Mapping[str, int], engine: str) -> Kernel:
            return _chosen(variant, schedule, arch, sizes, engine)

        known = SizedKernel(base, variant, arch, schedule == "tuned", at, _lock)
        _sized[key] = known
    return known


def _limit(memo: dict[Any, Any], most: int) -> None:
    """Forget the oldest entry of a memo that has more than ``most``."""
    if len(memo) > most:
        del memo[next(iter(memo))]


def _chosen(
    near: Variant, schedule: Any, arch: str | None, sizes: Mapping[str, int], engine: str
) -> Kernel:
    """Return the kernel of a problem whose schedule is chosen for some sizes."""
    journal = events.Journal()
    given = dict(near.problem)
    variant, record = journal.timed(
        "resolve",
        lambda: choose(near.template, schedule, None, arch, given, sizes, engine),
        memo=False,
        sizes=dict(sizes),
    )
    source = _render_once(variant, journal)
    kernel = kernel_of(source, journal=journal).with_record(record, sizes)
    journal.emit(kernel.loaded.subject, **_described(source, kernel))
    return kernel


def _varied(variant: Variant) -> Kernel:
    """Return the kernel of a variant that follows from another kernel's."""
    with _lock:
        journal = events.Journal()
        source = _render_once(variant, journal)
        kernel = kernel_of(source, journal=journal)
        journal.emit(kernel.loaded.subject, **_described(source, kernel))
        return kernel


def handles(kernel: Kernel) -> tuple[Kernel, ...]:
    """Return the kernels through which the code of a kernel is called."""
    with _lock:
        return tuple(sized for sized in _sized.values() if sized.holds(kernel)) or (kernel,)


def clear() -> None:
    """Unload every kernel, and discard every template and memo.

    Existing kernels cannot be launched again. Templates are read again at their next use.
    """
    with _lock:
        for kernel in _alive.values():
            kernel.unload()
        _memo.clear()
        _recent.clear()
        _sources.clear()
        _kernels.clear()
        _sized.clear()
        _alive.clear()
        catalogue.forget_templates()


def _described(source: Source, kernel: Kernel) -> dict[str, dict[str, Any]]:
    """Return the details of each stage of a build."""
    variant, known = source.variant, kernel.variant
    return {
        "resolve": {"params": dict(variant.texts), "schedule_origin": kernel.schedule_origin},
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
        _limit(_sources, _MOST_SOURCES)
    return _sources[variant.key]


def kernel_of(
    source: Source,
    arguments_of: Callable[[Any, str], tuple[Argument, ...]] | None = None,
    journal: events.Journal | None = None,
) -> Kernel:
    """Return the only kernel with the code and the arguments of ``source``.

    It is loaded unless an equal one is; ``arguments_of`` is that of :class:`Loaded`, and
    ``journal`` keeps the stage ``dedup``.
    """
    identity = identity_of(source)
    journal = journal or events.Journal()
    with _lock:
        _sources.setdefault(source.variant.key, source)
        kernel = journal.timed("dedup", lambda: _kernels.get(identity))
        if kernel is None or freed_in(vars(kernel.loaded.module)):
            loaded = load_source(source, arguments_of)
            kernel = _kernels[identity] = Kernel(loaded, _varied)
            _alive[next(_numbers)] = kernel
            _keep(source)
        _recent.pop(kernel, None)
        _recent[kernel] = None
        _limit(_recent, _MOST_KERNELS)
        return kernel


def identity_of(source: Source) -> tuple[Any, ...]:
    """Return what decides whether two sources share a kernel: code, arguments and reference.

    Equal code may have another reference, such as one that was mended.
    """
    variant = source.variant
    return source.digest, variant.arguments, variant.workspace, variant.template.reference


def sources() -> tuple[Source, ...]:
    """Return every source that was rendered, oldest first."""
    with _lock:
        return tuple(_sources.values())


def note(source: Source) -> None:
    """Add a source that was loaded elsewhere to :func:`sources`."""
    with _lock:
        _sources.setdefault(source.variant.key, source)


def kernels() -> tuple[Kernel, ...]:
    """Return every kernel that was built and is referenced, oldest first."""
    with _lock:
        return tuple(_alive.values())


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Block builds in other threads while a template and its kernels change together."""
    with _lock:
        yield


def replace(kernel: Kernel, source: Source, report: Callable[[TikgenError | None], None]) -> None:
    """Offer new code to a kernel, and have :func:`build` return the kernel for it.

    The kernel's next call adopts the code if it compiles; else the old code stays. Other kernels
    of the same code do not change. Raises what :func:`build` raises.

    Args:
        kernel: a kernel that :func:`build` returned.
        source: its new source.
        report: is called with None once the code is adopted, or with the reason why not.
    """
    check_budget(source.variant.template.name, source.text)
    with _lock:
        loaded = load_source(source)  # Not that of an equal kernel with other parameters.
        _keep(source)
        _register(kernel, source)
        _memo.clear()
        _discard_outdated(source.variant.template, kernel.template)
        _sources[source.variant.key] = source
        for each in kernel.family:
            each.offer(loaded, lambda refusal: _settle(kernel, source, refusal, report))


def keep(kernel: Kernel, variant: Variant) -> None:
    """Have :func:`build` return ``kernel`` for ``variant``, whose own code does not work."""
    with _lock:
        _sources[variant.key] = kernel.source
        _memo.clear()


def _settle(
    kernel: Kernel,
    source: Source,
    refusal: TikgenError | None,
    report: Callable[[TikgenError | None], None],
) -> None:
    """Register ``kernel`` for the code that it runs, once it adopted or refused ``source``."""
    with _lock:
        if not kernel.is_changing:
            _register(kernel, kernel.source)
            if refusal is not None and _sources.get(source.variant.key) is source:
                keep(kernel, source.variant)
        _memo.clear()
    report(refusal)


def _register(kernel: Kernel, source: Source) -> None:
    """Register ``kernel`` for the code of ``source`` alone, unless another kernel has it."""
    for identity in [i for i, known in _kernels.items() if known is kernel]:
        del _kernels[identity]
    _kernels.setdefault(identity_of(source), kernel)


def _discard_outdated(new: Template, old: Template) -> None:
    """Discard the sources of a template from states before ``old``."""
    for key, source in list(_sources.items()):
        is_known = key.startswith((f"{new.key}(", f"{old.key}("))
        if source.variant.template.folder == new.folder and not is_known:
            del _sources[key]


def _keep(source: Source) -> None:
    """Put the text into the store under its digest, unless an intact copy is there."""
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
            "params": dict(source.variant.texts),
            "tikgen": __version__,
        }
        store.write("sources", source.digest, document)

"""Hooks on what Taichi does with a kernel: its stages, its launches, and the profiler's times.

Stages are rare, so their hooks stay in place. Launches are not: their hooks are there only while
something records.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import taichi as ti
from taichi.lang import impl, kernel_impl

from tikgen.taichi import error_stream, freed, kernels, loop_changes, passes, runtime, scopes

# Takes a stage, the kernel's Python function, the start, the seconds that it took, and details.
Report = Callable[[str, Any, float, float, dict[str, Any]], None]
# Start and stop of a launch, and the thread.
Span = tuple[float, float, int]
# Takes the number of launches since the last report, and those of them that were timed.
ReportLaunches = Callable[[int, list[Span]], None]

_LOG_LEVELS = ("trace", "debug", "info", "warn", "error", "critical")
_CACHE_WORDS = {
    "Cache kernel": "compiled",
    "from cache": "disk",
    "from in-memory cache": "memory",
}
# Instances that were transformed and wait for their first launch. Exported ones never have one.
_MOST_UNCOMPILED = 64
# Of each kernel so many launches are timed, and from then on every eighth.
_ALL_TIMED, _TIMED_EVERY = 1000, 8
_MOST_UNREPORTED = 4096


class StageHooks:
    """Reports each stage that Taichi takes a kernel through, up to its first launch.

    Args:
        is_wanted: returns whether the stages of a kernel's Python function are to be reported.
        is_own: returns whether it is of a kernel of tikgen.
        report: is called with each stage, in the thread in which it happened.
    """

    def __init__(
        self, is_wanted: Callable[[Any], bool], is_own: Callable[[Any], bool], report: Report
    ) -> None:
        self._is_wanted = is_wanted
        self._is_own = is_own
        self._report = report
        self._uncompiled: list[tuple[Any, Any, str]] = []
        self._instance = threading.local()
        self._compile_kernel = ti._lib.core.Program.compile_kernel
        # Seconds that stages took within the current launch, by thread.
        self.spent: dict[int, float] = {}
        self._hook(kernel_impl.Kernel, "__init__", self._register)
        self._hook(kernel_impl, "_get_tree_and_ctx", self._instantiate)
        self._hook(ti._lib.core.Program, "create_kernel", self._transform)

    def _hook(self, owner: Any, name: str, hook: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            return hook(original, *args, **kwargs)

        setattr(owner, name, hooked)

    def _timed(
        self, stage: str, function: Any, details: dict[str, Any], action: Callable[[], Any]
    ) -> Any:
        if not self._is_wanted(function):
            return action()
        start = time.perf_counter()
        try:
            return action()
        except Exception as error:
            details["error"] = str(error).strip()
            raise
        finally:
            seconds = time.perf_counter() - start
            thread = threading.get_ident()
            self.spent[thread] = self.spent.get(thread, 0.0) + seconds
            self._report(stage, function, start, seconds, details)

    def _register(self, original: Any, kernel: Any, *args: Any, **kwargs: Any) -> None:
        def make() -> None:
            original(kernel, *args, **kwargs)

        # Each kernel is registered twice, the second time for its derivative.
        mode = kwargs.get("autodiff_mode", args[1] if len(args) > 1 else None)
        if mode == kernel_impl.AutodiffMode.NONE:
            self._timed("register", args[0], {}, make)
        else:
            make()

    def _instantiate(self, original: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(kernel, kernel_impl.Kernel):  # A ti.func within a kernel.
            tree, context = original(kernel, *args, **kwargs)
            freed.refuse_freed(kernel.func, context.global_vars)
            scopes.distinguish(tree, context.global_vars)
            loop_changes.change_function(tree, kernel, context.global_vars, self._is_own)
            return tree, context
        signature = kernels.shown_signature(kernel, kwargs.get("arg_features"))
        self._instance.kernel, self._instance.signature = kernel, signature
        details = {"signature": signature, "number": len(kernel.compiled_kernels)}

        def instantiated() -> Any:
            tree, context = original(kernel, *args, **kwargs)
            freed.refuse_freed(kernel.func, context.global_vars)
            scopes.distinguish(tree, context.global_vars)
            loop_changes.change(tree, kernel, context.global_vars, self._is_own)
            return tree, context

        return self._timed("instantiate", kernel.func, details, instantiated)

    def _transform(self, original: Any, program: Any, *args: Any) -> Any:
        kernel, signature = self._instance.kernel, self._instance.signature
        self._instance.kernel = None  # Or it would be kept alive.
        made = self._timed("ast", kernel.func, {}, lambda: original(program, *args))
        if self._is_wanted(kernel.func):
            # Without those of an earlier ti.init, whose addresses may be used again.
            waiting = [entry for entry in self._uncompiled if _is_waiting(*entry[:2])]
            one = made, weakref.ref(kernel), signature
            self._uncompiled = [*waiting[1 - _MOST_UNCOMPILED :], one]
            self._watch_compiler()
        return made

    def _watch_compiler(self) -> None:
        """Hook the compiler, which every launch calls, while there is something to compile."""
        program = ti._lib.core.Program
        if not self._uncompiled:
            program.compile_kernel = self._compile_kernel
        elif program.compile_kernel is self._compile_kernel:
            program.compile_kernel = lambda *args: self._compile(*args)

    def _compile(self, program: Any, config: Any, caps: Any, made: Any) -> Any:
        found = [(its(), name) for each, its, name in self._uncompiled if each is made]
        if not found or found[0][0] is None:
            return self._compile_kernel(program, config, caps, made)
        self._uncompiled = [entry for entry in self._uncompiled if entry[0] is not made]
        self._watch_compiler()
        kernel, signature = found[0]
        details: dict[str, Any] = {"signature": signature, **runtime.init_options()}

        def compiled() -> Any:
            with passes.suited_to(kernel), _cache_status(details, profiled_name(kernel)):
                return self._compile_kernel(program, config, caps, made)

        return self._timed("compile", kernel.func, details, compiled)


def _is_waiting(made: Any, its: Callable[[], Any]) -> bool:
    kernel = its()
    return kernel is not None and made in kernel.compiled_kernels.values()


@contextlib.contextmanager
def _cache_status(details: dict[str, Any], name: str = "") -> Iterator[None]:
    """Put into ``details`` where Taichi took code from: compiled, disk, memory or unknown.

    Taichi writes that to its log only, together with messages of other threads.
    """
    core, level = ti._lib.core, ""
    details["cache"] = "unknown"

    def is_ours(line: str) -> bool:
        return line.startswith("[D ") and level not in ("trace", "debug")

    with error_stream.reading(is_ours) as lines:
        if lines is None:
            yield
            return
        # Read under the lock of `reading`: another thread may change it.
        level = next(name for name in _LOG_LEVELS if core.logging_effective(name))
        if level != "trace":
            core.set_logging_level("debug")
        try:
            yield
        finally:
            core.flush_log()
            core.set_logging_level(level)
    about = [line for line in lines if f"'{name}" in line]
    found = [s for words, s in _CACHE_WORDS.items() if any(words in line for line in about)]
    # Taichi logs what it stores and what it finds.
    otherwise = "compiled" if details.get("offline_cache") is False else "unknown"
    details["cache"] = found[0] if found else otherwise


class CallHook:
    """Reports each launch of a ``ti.kernel``: the kernel, its instance, its arguments.

    Kernel and instance are Taichi's own; :func:`tikgen.taichi.kernels.written` takes the kernel.
    """

    def __init__(self, report: Callable[[Any, Any, tuple[Any, ...]], None]) -> None:
        original = self._original = kernel_impl.Kernel.launch_kernel

        @functools.wraps(original)
        def launch(kernel: Any, instance: Any, *args: Any) -> Any:
            returned = original(kernel, instance, *args)
            report(kernel, instance, args)
            return returned

        kernel_impl.Kernel.launch_kernel = launch

    def remove(self) -> None:
        """Stop reporting launches."""
        kernel_impl.Kernel.launch_kernel = self._original


class _Tally:
    """The launches of one kernel since the last report."""

    __slots__ = ("count", "next_timed", "report", "reported", "spans")

    def __init__(self, report: ReportLaunches | None) -> None:
        self.report = report
        self.count = self.reported = 0
        self.next_timed = sys.maxsize if report is None else 0
        self.spans: list[Span] = []

    def hand_over(self) -> None:
        if self.report is not None:
            spans, count = self.spans[:], self.count  # Other threads may add to them meanwhile.
            del self.spans[: len(spans)]
            self.report(count - self.reported, spans)
            self.reported = count


class LaunchHook:
    """Counts and times the launches of each ``ti.kernel``, and reports many at once.

    The time of a launch excludes the stages within it.

    Args:
        report_of: is called once for each kernel, with its Python function and profiled name;
            returns what takes its launches, or None if they are not wanted.
        spent: :attr:`StageHooks.spent`.
    """

    def __init__(
        self, report_of: Callable[[Any, str], ReportLaunches | None], spent: dict[int, float]
    ) -> None:
        self._report_of = report_of
        self._reporting = threading.Lock()
        tallies = self._tallies = dict[Any, _Tally]()
        original = self._original = kernel_impl.Kernel.__call__
        clock, get_ident = time.perf_counter, threading.get_ident

        @functools.wraps(original)
        def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            tally = tallies.get(kernel) or self._begin(kernel)
            if tally.count < tally.next_timed:
                returned = original(kernel, *args, **kwargs)
                tally.count += 1
                return returned
            thread = get_ident()
            spent.pop(thread, None)
            start = clock()
            returned = original(kernel, *args, **kwargs)
            stop = clock()
            tally.spans.append((start + spent.pop(thread, 0.0), stop, thread))
            tally.count += 1
            if tally.count > _ALL_TIMED:
                tally.next_timed = tally.count + _TIMED_EVERY - 1
                if len(tally.spans) > _MOST_UNREPORTED:
                    self.report()
            return returned

        kernel_impl.Kernel.__call__ = launch

    def _begin(self, kernel: Any) -> _Tally:
        report = self._report_of(kernel.func, profiled_name(kernel))
        return self._tallies.setdefault(kernel, _Tally(report))

    def report(self) -> None:
        """Report the launches since the last time."""
        with self._reporting:
            for tally in list(self._tallies.values()):
                tally.hand_over()

    def remove(self) -> None:
        """Report the launches since the last time, and remove the hook."""
        kernel_impl.Kernel.__call__ = self._original
        self.report()


def profiled_name(kernel: Any) -> str:
    """Return the beginning of the names that Taichi's profiler has for a kernel."""
    primal = getattr(kernel, "_primal", kernel)
    return f"{primal.func.__name__}_c{primal.kernel_counter}_"


def device_times() -> dict[str, tuple[int, float]]:
    """Return by :func:`profiled_name` how many launches the profiler saw, and their seconds.

    The result is empty without ``ti.init(kernel_profiler=True)``.
    """
    program = impl.pytaichi.prog
    if program is None or not program.config().kernel_profiler:
        return {}
    runtime.sync()  # Vulkan has the times of finished launches only.
    program.sync_kernel_profiler()
    program.update_kernel_profiler()
    found = {}
    for kernel in impl.pytaichi.kernels:
        if kernel.compiled_kernels and hasattr(kernel, "func"):
            name = profiled_name(kernel)
            instances = [number for _, number, _ in kernel.compiled_kernels]
            infos = [program.query_kernel_profile_info(f"{name}{n}_") for n in instances]
            seconds = sum(info.counter * info.avg / 1e3 for info in infos)
            found[name] = (sum(info.counter for info in infos), seconds)
    return found

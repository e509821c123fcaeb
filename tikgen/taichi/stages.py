"""Reports the stages that Taichi takes a kernel through."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import taichi as ti
from taichi.lang import kernel_impl

from tikgen.taichi import error_stream, kernels, launches, runtime
from tikgen.taichi.functions import LIFE as LIFE

# What Taichi does to a kernel, told stage by stage to whoever wants to know. Stages are rare, so
# that their hooks stay in place; launches are not, and have a hook of their own that does not.

# Takes a stage, the kernel's Python function, when it began, the seconds it took, and details.
Report = Callable[[str, Any, float, float, dict[str, Any]], None]
_LOG_LEVELS = ("trace", "debug", "info", "warn", "error", "critical")
_CACHE_WORDS = {
    "Cache kernel": "compiled",
    "from cache": "disk",
    "from in-memory cache": "memory",
}
# Instances that were transformed, and are to be compiled once they are launched. Those exported
# ahead of time never are.
_MOST_UNCOMPILED = 64


class StageHooks:
    """Reports each stage that Taichi takes a kernel through, up to its first launch.

    Args:
        is_wanted: tells of a kernel's Python function whether anyone wants to know.
        report: takes what there is to know, in the thread in which it happened.
    """

    def __init__(self, is_wanted: Callable[[Any], bool], report: Report) -> None:
        self._is_wanted = is_wanted
        self._report = report
        self._uncompiled: list[tuple[Any, Any, str]] = []
        self._instance = threading.local()
        self._compile_kernel = ti._lib.core.Program.compile_kernel
        # Seconds that stages took within the launch under way, by thread.
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
            return original(kernel, *args, **kwargs)
        self._instance.kernel = kernel
        self._instance.signature = kernels._shown_signature(kernel, kwargs.get("arg_features"))
        details = {
            "signature": self._instance.signature,
            "number": len(kernel.compiled_kernels),
        }
        return self._timed(
            "instantiate", kernel.func, details, lambda: original(kernel, *args, **kwargs)
        )

    def _transform(self, original: Any, program: Any, *args: Any) -> Any:
        kernel, signature = self._instance.kernel, self._instance.signature
        self._instance.kernel = None  # Or it would be kept alive.
        made = self._timed("ast", kernel.func, {}, lambda: original(program, *args))
        if self._is_wanted(kernel.func):
            # Less those of an earlier ti.init: what is made now may lie where they lay.
            waiting = [w for w in self._uncompiled if w[0] in w[1].compiled_kernels.values()]
            self._uncompiled = [*waiting[1 - _MOST_UNCOMPILED :], (made, kernel, signature)]
            self._watch_compiler()
        return made

    def _watch_compiler(self) -> None:
        """Hook the compiler, which every launch asks, while there is something to compile."""
        program = ti._lib.core.Program
        if not self._uncompiled:
            program.compile_kernel = self._compile_kernel
        elif program.compile_kernel is self._compile_kernel:

            def hooked(*args: Any) -> Any:
                return self._compile(*args)

            program.compile_kernel = hooked

    def _compile(self, program: Any, config: Any, caps: Any, made: Any) -> Any:
        found = [entry for entry in self._uncompiled if entry[0] is made]
        if not found:
            return self._compile_kernel(program, config, caps, made)
        self._uncompiled = [entry for entry in self._uncompiled if entry[0] is not made]
        self._watch_compiler()
        _, kernel, signature = found[0]
        details: dict[str, Any] = {"signature": signature, **runtime.init_options()}

        def compiled() -> Any:
            with _cache_status(details, launches._profiled_name(kernel)):
                return self._compile_kernel(program, config, caps, made)

        return self._timed("compile", kernel.func, details, compiled)


@contextlib.contextmanager
def _cache_status(details: dict[str, Any], name: str = "") -> Iterator[None]:
    """Put into ``details`` where Taichi took code from: compiled, disk, memory or unknown.

    Taichi tells it in its log only, which it writes to the error stream; other threads launch
    other kernels meanwhile, and it tells of these as well.
    """
    core, level = ti._lib.core, ""
    details["cache"] = "unknown"

    def is_ours(line: str) -> bool:
        return line.startswith("[D ") and level not in ("trace", "debug")

    with error_stream.reading(is_ours) as lines:
        if lines is None:
            yield
            return
        # Not before, when another thread may be at it.
        level = next(name for name in _LOG_LEVELS if core.logging_effective(name))
        if level != "trace":
            core.set_logging_level("debug")
        try:
            yield
        finally:
            core.flush_log()
            core.set_logging_level(level)
    told = [line for line in lines if f"'{name}" in line]
    found = [s for words, s in _CACHE_WORDS.items() if any(words in line for line in told)]
    # Taichi tells what it keeps, and what it finds.
    otherwise = "compiled" if details.get("offline_cache") is False else "unknown"
    details["cache"] = found[0] if found else otherwise

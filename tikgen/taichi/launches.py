"""Reports the launches of kernels, and what Taichi's profiler measured of them."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from taichi.lang import impl, kernel_impl

from tikgen.taichi import runtime
from tikgen.taichi.functions import LIFE as LIFE


class CallHook:
    """Hands every launch of a ``ti.kernel`` over: the kernel, its instance, its arguments.

    The kernel and the instance are Taichi's own, the kernel known to :func:`written`.
    """

    def __init__(self, tell: Callable[[Any, Any, tuple[Any, ...]], None]) -> None:
        original = self._original = kernel_impl.Kernel.launch_kernel

        @functools.wraps(original)
        def launch(kernel: Any, instance: Any, *args: Any) -> Any:
            returned = original(kernel, instance, *args)
            tell(kernel, instance, args)
            return returned

        kernel_impl.Kernel.launch_kernel = launch

    def remove(self) -> None:
        """Stop telling of launches."""
        kernel_impl.Kernel.launch_kernel = self._original


# Start and stop of a launch, and the thread.
Span = tuple[float, float, int]
# Takes how many launches there were since the last time, and those of them that were timed.
Tell = Callable[[int, list[Span]], None]
# Of each kernel so many launches are timed, and from then on every eighth.
_ALL_TIMED, _TIMED_EVERY = 1000, 8
_MOST_UNTOLD = 4096


class _Tally:
    """Launches of one kernel that were not told yet."""

    __slots__ = ("count", "next_timed", "spans", "tell", "told")

    def __init__(self, tell: Tell | None) -> None:
        self.tell = tell
        self.count = self.told = 0
        self.next_timed = sys.maxsize if tell is None else 0
        self.spans: list[Span] = []

    def hand_over(self) -> None:
        if self.tell is not None:
            spans, count = self.spans[:], self.count  # Other threads may add to them meanwhile.
            del self.spans[: len(spans)]
            self.tell(count - self.told, spans)
            self.told = count


class LaunchHook:
    """Hands the number and the times of the launches of each ``ti.kernel`` over, many at once.

    ``tally_of`` is asked once for each kernel; it returns what takes them, or None where nobody
    wants to know. Stages within a launch do not count as launch.
    """

    def __init__(
        self,
        tally_of: Callable[[Any, str], Tell | None],
        spent: dict[int, float],
    ) -> None:
        self._tally_of = tally_of
        self._telling = threading.Lock()
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
                if len(tally.spans) > _MOST_UNTOLD:
                    self.tell()
            return returned

        kernel_impl.Kernel.__call__ = launch

    def _begin(self, kernel: Any) -> _Tally:
        tell = self._tally_of(kernel.func, _profiled_name(kernel))
        return self._tallies.setdefault(kernel, _Tally(tell))

    def tell(self) -> None:
        """Hand over what was not told yet."""
        with self._telling:
            for tally in list(self._tallies.values()):
                tally.hand_over()

    def remove(self) -> None:
        """Hand over what was not told yet, and stop telling of launches."""
        kernel_impl.Kernel.__call__ = self._original
        self.tell()


def profiled_name(kernel: Any) -> str:
    """Return the beginning of the names that Taichi's profiler has for a ``ti.kernel``."""
    return _profiled_name(kernel._primal)


def _profiled_name(primal: Any) -> str:
    return f"{primal.func.__name__}_c{primal.kernel_counter}_"


def device_times() -> dict[str, tuple[int, float]]:
    """Return by :func:`profiled_name` how many launches the profiler saw, and their seconds.

    The result is empty where Taichi runs without ``kernel_profiler=True``.
    """
    program = impl.pytaichi.prog
    if program is None or not program.config().kernel_profiler:
        return {}
    runtime.sync()  # Vulkan tells times only of what it was waited for.
    program.sync_kernel_profiler()
    program.update_kernel_profiler()
    found = {}
    for kernel in impl.pytaichi.kernels:
        if kernel.compiled_kernels and hasattr(kernel, "func"):
            name = _profiled_name(kernel)
            instances = [number for _, number, _ in kernel.compiled_kernels]
            infos = [program.query_kernel_profile_info(f"{name}{n}_") for n in instances]
            seconds = sum(info.counter * info.avg / 1e3 for info in infos)
            found[name] = (sum(info.counter for info in infos), seconds)
    return found

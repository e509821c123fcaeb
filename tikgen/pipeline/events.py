"""Events in the life of kernels, stage by stage, and the recordings that collect them."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tikgen.pipeline.launches import Launches as Launches
from tikgen.pipeline.launches import Subject as Subject
from tikgen.taichi import functions, hooks, kernels, runtime

# The stages of a kernel, in order, with their meanings.
STAGES = {
    "resolve": "find the template, check the parameters, choose the schedule",
    "render": "write the source from the template",
    "hash": "compute the digest of the code",
    "dedup": "look for a kernel with the same code",
    "load": "execute the source as a module",
    "register": "the decorator ti.kernel registers the function",
    "instantiate": "a new template signature: read its Python AST",
    "ast": "transform the Python AST into Taichi's",
    "compile": "IR passes and code generation, or code from a cache",
    "engine": "machine code for an engine beside Taichi, or why Taichi launches",
    "launch": "calls of the compiled kernel",
}
# The states of an actor and what it does in them. A batch of an actor is like a launch of a kernel.
ACTOR_STAGES = {
    "created": "an actor gets its queues",
    "launched": "an actor gets its kernel and its memory on the device",
    "active": "an actor begins to handle messages",
    "deactivated": "an actor pauses, and its messages wait",
    "session": "a kernel stays on the device and polls for messages",
    "batch": "an actor handles messages together",
    "failed": "an actor raised",
    "restart": "an actor is started again after it failed",
    "terminating": "an actor accepts nothing new, and handles what is queued",
    "terminated": "an actor has ended",
}
PROGRAM_STAGES = {"run": "a program runs steps"}
RENDERED, LIVE = "tikgen:", "tikgen-live:"
# One in so many launches over a cached context is timed, with and without a recording. They take
# microseconds. The first few are timed as well, since they differ from the rest.
_TIMED_EVERY, _SELDOM_TIMED_EVERY = 64, 1024
_FIRST_TIMED = 4

Sink = Callable[["Event"], None]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Event:
    """One stage of a kernel, an actor or a program.

    Attributes:
        stage: one of :data:`STAGES`, :data:`ACTOR_STAGES` or :data:`PROGRAM_STAGES`.
        subject: the kernel, actor or program.
        start: start in seconds of ``time.perf_counter``.
        seconds: duration.
        thread: identity of the thread.
        details: details of the stage by name; ``error`` if it failed.
    """

    stage: str
    subject: Subject
    start: float
    seconds: float
    thread: int
    details: Mapping[str, Any]

    @property
    def problem(self) -> str | None:
        """Return in one line why the stage failed, or None."""
        if "error" not in self.details:
            return None
        lines = [*filter(None, map(str.strip, str(self.details["error"]).splitlines())), ""]
        # Taichi's messages begin with a place in the code and end with what is wrong there.
        return lines[-2] if lines[0].startswith("File ") else lines[0]


class Living(Protocol):
    """A kernel that keeps its own events and counts its bound launches, which no hook sees."""

    subject: Subject
    life: deque[Event]
    bound_launches: int
    next_timed: int

    def profiled_name(self) -> str:
        """Return the name of the kernel in Taichi's profiler."""


class Recording:
    """The events and launches during a recording, with ``all_kernels`` also of foreign kernels."""

    def __init__(self, all_kernels: bool) -> None:
        self.all_kernels = all_kernels
        self.events: list[Event] = []
        self.started = time.perf_counter()
        self.stopped: float | None = None
        self._launches: dict[Subject, Launches] = {}
        # By the names of kernels in Taichi's profiler.
        self._device_before = runtime.epoch(), hooks.device_times()
        self._profiled: dict[str, Subject] = {}
        # Kernels with bound launches, and how many of these are counted or came before.
        self._bound: set[Living] = set()
        self._bound_before = weakref.WeakKeyDictionary[Living, int](
            {living: living.bound_launches for living in list(lives.values())}
        )

    @property
    def launches(self) -> list[Launches]:
        """Return the launches so far, one entry for each kernel."""
        if self.stopped is None and _launch_hook is not None:
            _launch_hook.report()
        self._count_bound()
        # Copied, since other threads may launch meanwhile.
        found = [launches for launches in list(self._launches.values()) if launches.count]
        for launches in found:
            launches.window = (self.stopped or time.perf_counter()) - self.started
        return found

    def wants(self, subject: Subject) -> bool:
        """Return whether ``subject`` is recorded."""
        return self.all_kernels or subject.origin in ("tikgen", "live", "actor", "program")

    def take(self, event: Event) -> None:
        """Keep an event if its subject is recorded."""
        if self.wants(event.subject):
            self.events.append(event)

    def tally(self, subject: Subject, profiled_name: str = "") -> Launches:
        """Return the counter of the launches of ``subject``."""
        if profiled_name and profiled_name not in self._profiled:
            self._profiled[profiled_name] = subject
        if subject not in self._launches:
            self._launches[subject] = Launches(subject)
        return self._launches[subject]

    def take_bound(self, living: Living, start: float, stop: float) -> int:
        """Add the time of a bound launch; return how many launches were timed so far."""
        launches = self.tally(living.subject, living.profiled_name())
        if self.wants(living.subject):
            self._bound.add(living)
            launches.add_times([(start, stop, threading.get_ident())])
        return launches.timed

    def watch_bound(self, living: Living) -> None:
        """Count the bound launches of a kernel, of which none need be timed."""
        if self.wants(living.subject):
            self.tally(living.subject, living.profiled_name())
            self._bound.add(living)

    def _count_bound(self) -> None:
        if self.stopped is not None:
            return
        for living in list(self._bound):
            count = living.bound_launches
            self.tally(living.subject).count += count - self._bound_before.get(living, 0)
            self._bound_before[living] = count

    def stop(self) -> None:
        """Count the remaining launches, and read the times of Taichi's profiler."""
        self._count_bound()
        self._bound.clear()  # A trace keeps no kernel alive.
        self.stopped = time.perf_counter()
        epoch, before = self._device_before
        if epoch is not runtime.epoch():  # Taichi's profiler was reset.
            before = {}
        for name, (count, seconds) in hooks.device_times().items():
            count_before, seconds_before = before.get(name, (0, 0.0))
            # Code from Taichi's cache may have the name under which it was compiled.
            if name in self._profiled and count > count_before:
                launches = self._launches[self._profiled[name]]
                launches.device_count += count - count_before
                launches.device_seconds = (
                    (launches.device_seconds or 0.0) + seconds - seconds_before
                )


# The living kernels by their names in events.
lives: weakref.WeakValueDictionary[Subject, Living] = weakref.WeakValueDictionary()

_lock = threading.RLock()
_sinks: tuple[Sink, ...] = ()
_recordings: tuple[Recording, ...] = ()


def subject_of(function: Any) -> Subject:
    """Return the subject of the kernel that a Python function became."""
    code = function.__code__
    file = code.co_filename
    if file.startswith(RENDERED):
        origin = "tikgen"
    elif file.startswith(LIVE):
        origin = "live"
    else:
        origin = "taichi" if file.startswith(kernels.TAICHI_FOLDER) else "script"
    if label := getattr(function.__globals__.get(functions.LIFE), "label", ""):
        return Subject(label, file, 1, origin)
    return Subject(function.__name__, file, code.co_firstlineno, origin)


def is_on() -> bool:
    """Return whether anything receives events."""
    return bool(_sinks)


def recordings() -> tuple[Recording, ...]:
    """Return the recordings in progress."""
    return _recordings


def emit(stage: str, subject: Subject, start: float, seconds: float, **details: Any) -> None:
    """Send an event to every sink, and add it to the life of ``subject``."""
    holder = lives.get(subject)
    if holder is None and not _sinks:
        return
    event = Event(stage, subject, start, seconds, threading.get_ident(), details)
    if holder is not None:
        holder.life.append(event)
    for sink in _sinks:
        sink(event)


class Journal:
    """Keeps the stages of a build until it is known which kernel results."""

    def __init__(self) -> None:
        self._passed: list[tuple[str, float, float, dict[str, Any]]] = []

    def timed(self, stage: str, action: Callable[[], Result], **details: Any) -> Result:
        """Return what ``action`` returns, and keep it as ``stage``."""
        start = time.perf_counter()
        try:
            return action()
        except Exception as error:
            details["error"] = str(error)
            raise
        finally:
            self._passed.append((stage, start, time.perf_counter() - start, details))

    def emit(self, subject: Subject, **details: Mapping[str, Any]) -> None:
        """Emit the stages, each with further ``details`` under its name."""
        for stage, start, seconds, known in self._passed:
            emit(stage, subject, start, seconds, **{**known, **details.get(stage, {})})
        self._passed.clear()


@contextlib.contextmanager
def collecting() -> Iterator[list[Event]]:
    """Collect the events of this thread."""
    found: list[Event] = []
    thread = threading.get_ident()

    def take(event: Event) -> None:
        if event.thread == thread:
            found.append(event)

    with _listening(take):
        yield found


@contextlib.contextmanager
def recording(all_kernels: bool = False) -> Iterator[Recording]:
    """Record the events and launches of every thread, as :class:`Recording` does."""
    global _recordings
    made = Recording(all_kernels)
    with _listening(made.take):
        with _lock:
            _recordings += (made,)
            _rehook_launches()
        for living in list(lives.values()):
            living.next_timed = 0
        try:
            yield made
        finally:
            with _lock:
                _recordings = tuple(r for r in _recordings if r is not made)
                _rehook_launches()
            made.stop()


def record_bound_launch(living: Living, start: float, stop: float) -> None:
    """Record the time of a launch over a cached context, and choose which one to time next."""
    timed = [each.take_bound(living, start, stop) for each in _recordings]
    every = _TIMED_EVERY if timed else _SELDOM_TIMED_EVERY
    few = min(timed, default=living.bound_launches) < _FIRST_TIMED
    living.next_timed = living.bound_launches + (1 if few else every)


def record_bound_launches(living: Living, count: int) -> None:
    """Add bound launches that nobody timed to those of a kernel."""
    for each in _recordings:
        each.watch_bound(living)
    living.bound_launches += count


@contextlib.contextmanager
def _listening(sink: Sink) -> Iterator[None]:
    """Hand every event to ``sink``."""
    global _sinks
    with _lock:
        _sinks += (sink,)
    try:
        yield
    finally:
        with _lock:
            _sinks = tuple(s for s in _sinks if s is not sink)


def _is_own(function: Any) -> bool:
    return subject_of(function) in lives


def _is_wanted(function: Any) -> bool:
    return bool(_sinks) or _is_own(function)


def _from_taichi(
    stage: str, function: Any, start: float, seconds: float, details: dict[str, Any]
) -> None:
    emit(stage, subject_of(function), start, seconds, **details)


_stage_hooks = hooks.StageHooks(_is_wanted, _is_own, _from_taichi)
_launch_hook: hooks.LaunchHook | None = None


def _rehook_launches() -> None:
    """Report launches to the recordings in progress."""
    global _launch_hook
    if _launch_hook is not None:
        _launch_hook.remove()
        _launch_hook = None
    if _recordings:
        _launch_hook = hooks.LaunchHook(_report_of, _stage_hooks.spent)


def _report_of(function: Any, profiled_name: str) -> hooks.ReportLaunches | None:
    """Return what takes the launches of a kernel, or None if it is not recorded."""
    subject = subject_of(function)
    adders = [r.tally(subject, profiled_name).add for r in _recordings if r.wants(subject)]
    if len(adders) < 2:
        return adders[0] if adders else None

    def add_to_all(count: int, spans: list[hooks.Span]) -> None:
        for add in adders:
            add(count, spans)

    return add_to_all

"""What happens to kernels, stage by stage: recorded while someone listens, free otherwise."""

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
from tikgen.taichi import functions, kernels, runtime, stages
from tikgen.taichi import launches as taichi_launches

STAGES = (
    "resolve",
    "render",
    "hash",
    "dedup",
    "load",
    "register",
    "instantiate",
    "ast",
    "compile",
    "launch",
)
# What actors go through: the states that they enter, and what they do in them. A batch is to them
# what a launch is to a kernel.
ACTOR_STAGES = (
    "created",
    "launched",
    "active",
    "deactivated",
    "session",
    "batch",
    "failed",
    "restart",
    "terminating",
    "terminated",
)
RENDERED, LIVE = "tikgen:", "tikgen-live:"
# Of launches over a cached context, which take microseconds, so few are timed: under a recording,
# and without one.
_TIMED_EVERY, _SELDOM_TIMED_EVERY = 64, 1024
# And the first few of them, since the very first is like no other.
_FIRST_TIMED = 4

Sink = Callable[["Event"], None]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Event:
    """One stage that a kernel went through.

    Attributes:
        stage: one of :data:`STAGES`, or of :data:`ACTOR_STAGES`.
        subject: the kernel or actor.
        start: when it began, in seconds of ``time.perf_counter``.
        seconds: how long it took.
        thread: identity of the thread.
        details: what there is to know about it; ``error`` if it failed.
    """

    stage: str
    subject: Subject
    start: float
    seconds: float
    thread: int
    details: Mapping[str, Any]

    @property
    def problem(self) -> str | None:
        """Return in one line why it failed, None if it did not."""
        if "error" not in self.details:
            return None
        lines = [*filter(None, map(str.strip, str(self.details["error"]).splitlines())), ""]
        # Taichi's messages begin with a place in the code and end with what is wrong there.
        return lines[-2] if lines[0].startswith("File ") else lines[0]


class Living(Protocol):
    """A kernel that keeps what happens to it, and counts its bound launches.

    Those go around Taichi's Python layer, where no hook would see them.
    """

    subject: Subject
    life: deque[Event]
    bound_launches: int
    next_timed: int

    def profiled_name(self) -> str:
        """Return the name under which Taichi's profiler knows the kernel."""
        ...


class Recording:
    """What was recorded: events in order, and the launches of each kernel."""

    def __init__(self, all_kernels: bool) -> None:
        self.all_kernels = all_kernels
        self.events: list[Event] = []
        self.started = time.perf_counter()
        self.stopped: float | None = None
        self._launches: dict[Subject, Launches] = {}
        # By the names under which Taichi's profiler knows kernels.
        self._device_before = runtime.epoch(), taichi_launches.device_times()
        self._profiled: dict[str, Subject] = {}
        # Kernels with bound launches, and how many of them came before or are counted already.
        self._bound: set[Living] = set()
        self._bound_before = weakref.WeakKeyDictionary[Living, int](
            {living: living.bound_launches for living in list(lives.values())}
        )

    @property
    def launches(self) -> list[Launches]:
        """Return the launches so far, one entry for each kernel."""
        if self.stopped is None and _launch_hook is not None:
            _launch_hook.tell()
        self._count_bound()
        # Copied, since other threads go on launching.
        found = [launches for launches in list(self._launches.values()) if launches.count]
        for launches in found:
            launches.window = (self.stopped or time.perf_counter()) - self.started
        return found

    def wants(self, subject: Subject) -> bool:
        """Tell whether what happens to ``subject`` is recorded."""
        return self.all_kernels or subject.origin in ("tikgen", "live", "actor")

    def take(self, event: Event) -> None:
        """Keep an event, if it is about a kernel that is recorded."""
        if self.wants(event.subject):
            self.events.append(event)

    def tally(self, subject: Subject, profiled_name: str = "") -> Launches:
        """Return what counts the launches of ``subject``."""
        if profiled_name and profiled_name not in self._profiled:
            self._profiled[profiled_name] = subject
        if subject not in self._launches:
            self._launches[subject] = Launches(subject)
        return self._launches[subject]

    def take_bound(self, living: Living, start: float, stop: float) -> int:
        """Take in how long a bound launch took; all of them are counted at the end.

        Returns how many launches of the kernel were timed so far.
        """
        launches = self.tally(living.subject, living.profiled_name())
        if self.wants(living.subject):
            self._bound.add(living)
            launches.add_times([(start, stop, threading.get_ident())])
        return launches.timed

    def _count_bound(self) -> None:
        if self.stopped is not None:
            return
        for living in list(self._bound):
            count = living.bound_launches
            self.tally(living.subject).count += count - self._bound_before.get(living, 0)
            self._bound_before[living] = count

    def stop(self) -> None:
        """Count what is still to be counted, and ask Taichi's profiler for times."""
        self._count_bound()
        self._bound.clear()  # Nor does a trace that is kept keep kernels.
        self.stopped = time.perf_counter()
        epoch, before = self._device_before
        if epoch is not runtime.epoch():  # Taichi's profiler began anew.
            before = {}
        for name, (count, seconds) in taichi_launches.device_times().items():
            count_before, seconds_before = before.get(name, (0, 0.0))
            # Code from Taichi's cache may have the name that it was compiled under.
            if name in self._profiled and count > count_before:
                launches = self._launches[self._profiled[name]]
                launches.device_count += count - count_before
                launches.device_seconds = (
                    (launches.device_seconds or 0.0) + seconds - seconds_before
                )


# By what each kernel is called in events.
lives: weakref.WeakValueDictionary[Subject, Living] = weakref.WeakValueDictionary()

_lock = threading.RLock()
_sinks: tuple[Sink, ...] = ()
_recordings: tuple[Recording, ...] = ()


def subject_of(function: Any) -> Subject:
    """Return the kernel that a Python function became."""
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
    """Tell whether anyone listens."""
    return bool(_sinks)


def is_recording() -> bool:
    """Tell whether a recording goes on."""
    return bool(_recordings)


def recordings() -> tuple[Recording, ...]:
    """Return the recordings that go on."""
    return _recordings


def emit(stage: str, subject: Subject, start: float, seconds: float, **details: Any) -> None:
    """Tell whoever listens that ``subject`` went through ``stage``, and note it in its life."""
    holder = lives.get(subject)
    if holder is None and not _sinks:
        return
    event = Event(stage, subject, start, seconds, threading.get_ident(), details)
    if holder is not None:
        holder.life.append(event)
    for sink in _sinks:
        sink(event)


class Journal:
    """The stages of a kernel in the making, told once it is known which kernel it is."""

    def __init__(self) -> None:
        self._passed: list[tuple[str, float, float, dict[str, Any]]] = []

    def timed(self, stage: str, action: Callable[[], Result], **details: Any) -> Result:
        """Return what ``action`` returns, and note it as ``stage``."""
        start = time.perf_counter()
        try:
            return action()
        except Exception as error:
            details["error"] = str(error)
            raise
        finally:
            self._passed.append((stage, start, time.perf_counter() - start, details))

    def tell(self, subject: Subject, **details: Mapping[str, Any]) -> None:
        """Emit what was noted.

        Args:
            subject: the kernel.
            details: more to know about each stage, by its name.
        """
        for stage, start, seconds, known in self._passed:
            emit(stage, subject, start, seconds, **{**known, **details.get(stage, {})})
        self._passed.clear()


@contextlib.contextmanager
def collecting() -> Iterator[list[Event]]:
    """Collect what happens in this thread."""
    found: list[Event] = []
    thread = threading.get_ident()

    def take(event: Event) -> None:
        if event.thread == thread:
            found.append(event)

    with _listening(take):
        yield found


@contextlib.contextmanager
def recording(all_kernels: bool = False) -> Iterator[Recording]:
    """Record what happens in every thread, and each launch.

    Args:
        all_kernels: also those that are not tikgen's, Taichi's own among them.
    """
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


def tell_bound_launch(living: Living, start: float, stop: float) -> None:
    """Take in the time of a launch over a cached context, and say which one to time next."""
    timed = [each.take_bound(living, start, stop) for each in _recordings]
    every = _TIMED_EVERY if timed else _SELDOM_TIMED_EVERY
    few = min(timed, default=living.bound_launches) < _FIRST_TIMED
    living.next_timed = living.bound_launches + (1 if few else every)


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


def _is_wanted(function: Any) -> bool:
    return bool(_sinks) or subject_of(function) in lives


def _from_taichi(
    stage: str, function: Any, start: float, seconds: float, details: dict[str, Any]
) -> None:
    emit(stage, subject_of(function), start, seconds, **details)


_stage_hooks = stages.StageHooks(_is_wanted, _from_taichi)
_launch_hook: taichi_launches.LaunchHook | None = None


def _rehook_launches() -> None:
    """Have launches told to the recordings that there are now."""
    global _launch_hook
    if _launch_hook is not None:
        _launch_hook.remove()
        _launch_hook = None
    if _recordings:
        _launch_hook = taichi_launches.LaunchHook(_tally_of, _stage_hooks.spent)


def _tally_of(
    function: Any, profiled_name: str
) -> Callable[[int, list[taichi_launches.Span]], None] | None:
    """Return what takes the times of a kernel's launches, None where nobody wants them."""
    subject = subject_of(function)
    adders = [r.tally(subject, profiled_name).add for r in _recordings if r.wants(subject)]
    if len(adders) < 2:
        return adders[0] if adders else None

    def add_to_all(count: int, spans: list[taichi_launches.Span]) -> None:
        for add in adders:
            add(count, spans)

    return add_to_all

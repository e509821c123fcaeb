"""The lives of kernels: their events and launches as data, from which every view is made."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tikgen.pipeline.events import (
    ACTOR_STAGES,
    PROGRAM_STAGES,
    RENDERED,
    STAGES,
    Event,
    Launches,
    Subject,
)
from tikgen.units import duration

ALL_STAGES = STAGES | ACTOR_STAGES | PROGRAM_STAGES
_CACHE = {
    "compiled": "compiled",
    "disk": "from the cache on disk",
    "memory": "from the cache in memory",
    "store": "from the store",
    "unknown": "compiled or cached, not known which",
}
_MOST_LINES = 8
_DIGEST, _SHORT_DIGEST = 16, 6


class _Recorded(Protocol):
    """The source of a trace; a recording in progress grows."""

    @property
    def events(self) -> Sequence[Event]: ...
    @property
    def launches(self) -> Sequence[Launches]: ...
    @property
    def started(self) -> float: ...
    @property
    def stopped(self) -> float | None: ...


@dataclass(frozen=True)
class Stage:
    """The sum of one stage of one kernel.

    Attributes:
        name: a stage in :mod:`tikgen.pipeline.events`.
        count: number of times that the kernel passed it.
        seconds: total time; None if no launch was timed.
        is_estimate: whether ``seconds`` is extrapolated from some of the launches.
        lines: details in words.
        has_failed: whether it raised.
    """

    name: str
    count: int
    seconds: float | None
    is_estimate: bool
    lines: tuple[str, ...]
    has_failed: bool

    @property
    def time(self) -> str:
        """Return the time as text."""
        if self.seconds is None:
            return "-"
        return f"{'~' if self.is_estimate else ''}{duration(self.seconds)}"


@dataclass(frozen=True)
class Life:
    """The life of one kernel or actor: its subject, its events in order, its launches."""

    subject: Subject
    events: tuple[Event, ...]
    launches: Launches | None

    @property
    def name(self) -> str:
        """Return the name of the kernel, on one line."""
        return " ".join(self.subject.name.split())

    @property
    def place(self) -> str:
        """Return the file and the line of the kernel."""
        return f"{self.subject.file}:{self.subject.line}" if self.subject.file else ""

    @property
    def short_place(self) -> str:
        """Return what distinguishes kernels of the same name: line of a file, or digest."""
        if self.subject.is_actor:
            return "actor"
        if self.subject.file.startswith(RENDERED):
            return self.subject.file.rpartition(":")[2][:_SHORT_DIGEST]
        return f"{Path(self.subject.file).name}:{self.subject.line}" if self.subject.file else ""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Return the sum of each stage of the kernel, in order."""
        numbers = {
            event.details.get("signature"): event.details.get("number")
            for event in self.events
            if event.stage == "instantiate"
        }
        found = []
        for name in ALL_STAGES:
            events = [event for event in self.events if event.stage == name]
            if events:
                found.append(_stage(name, events, numbers))
            if self.launches is not None and name == self.launches.stage:
                found.append(_launch_stage(self.launches))
        return tuple(found)


class Lives:
    """The lives of kernels; during a recording, their lives so far."""

    def __init__(self, recorded: _Recorded) -> None:
        self._recorded = recorded

    @property
    def events(self) -> tuple[Event, ...]:
        """Return every event except launches, in order of time."""
        return tuple(sorted(self._recorded.events, key=lambda event: event.start))

    @property
    def launches(self) -> tuple[Launches, ...]:
        """Return the launches, added up for each kernel."""
        return tuple(self._recorded.launches)

    @property
    def kernels(self) -> tuple[Life, ...]:
        """Return the life of each kernel, in order of their first events."""
        return _lives(self.events, self.launches)

    @property
    def started(self) -> float:
        """Return the start of the recording, in seconds of ``time.perf_counter``."""
        return self._recorded.started

    @property
    def seconds(self) -> float:
        """Return the duration of the recording so far."""
        stopped = self._recorded.stopped
        return (time.perf_counter() if stopped is None else stopped) - self.started

    @property
    def is_over(self) -> bool:
        """Return whether the recording has ended."""
        return self._recorded.stopped is not None


def _lives(events: Sequence[Event], launches: Sequence[Launches]) -> tuple[Life, ...]:
    happened: dict[Subject, list[Event]] = {}
    for event in sorted(events, key=lambda event: event.start):
        happened.setdefault(event.subject, []).append(event)
    launched = {each.subject: each for each in launches}

    def first(subject: Subject) -> float:
        if subject in happened:
            return happened[subject][0].start
        spans = launched[subject].spans
        return spans[0][0] if spans else math.inf

    return tuple(
        Life(subject, tuple(happened.get(subject, ())), launched.get(subject))
        for subject in sorted({**happened, **launched}, key=first)
    )


def _stage(name: str, events: Sequence[Event], numbers: Mapping[Any, Any]) -> Stage:
    lines = []
    for event in events:
        line = describe(event)
        if name == "compile" and len(events) > 1:
            line = f"#{numbers.get(event.details.get('signature'), '?')} {line}"
        if line:
            lines.append(line)
    return Stage(
        name,
        len(events),
        sum(event.seconds for event in events),
        False,
        _shortened(lines),
        any("error" in event.details for event in events),
    )


def _launch_stage(launches: Launches) -> Stage:
    count, timed = launches.count, launches.timed
    typical, first, lines = launches.typical, launches.first, []
    if typical is not None and first is not None and count > 1:
        longest = launches.longest
        if first == longest and timed > 1:
            longest = sorted(span[1] for span in launches.spans)[-2:][0]
            lines.append(f"first {duration(first)}, then")
        span = f"{duration(launches.shortest)} to {duration(longest)}"
        some = f", {timed:,} timed" if timed < count else ""
        lines.append(f"median {duration(typical)} ({span}{some})")
    if launches.device_seconds is not None and launches.device_count:
        each = launches.device_seconds / launches.device_count
        lines.append(f"device {duration(launches.device_seconds)}, {duration(each)} each")
    if launches.messages:
        lines.append(f"{launches.messages:,} messages, {launches.messages / count:.3g} each")
    return Stage(launches.stage, count, launches.total, timed < count, tuple(lines), False)


def describe(event: Event) -> str:
    """Return the details of an event as one line."""
    if event.problem is not None:
        return f"failed: {event.problem}".removesuffix(": ")
    return _describe(event.stage, event.details)


def _describe(stage: str, found: Mapping[str, Any]) -> str:
    if stage in ACTOR_STAGES or stage in PROGRAM_STAGES:
        return ", ".join(f"{name}={value}" for name, value in found.items())
    if stage == "resolve":
        origin = found.get("schedule_origin")
        params = ", ".join(f"{k}={v}" for k, v in found.get("params", {}).items())
        schedule = f"schedule: {origin}" if origin else ""
        return "; ".join(filter(None, (params, schedule, found.get("memo") and "from the memo")))
    if stage == "render":
        return f"{found['lines']} lines" if "lines" in found else ""
    if stage == "hash":
        return str(found.get("digest", ""))[:_DIGEST]
    if stage == "dedup":
        return f"the same code as {found['same_as']}" if found.get("same_as") else ""
    if stage == "instantiate":
        return f"#{found.get('number', '?')} ({found.get('signature', '')})"
    if stage == "compile":
        arch = f" for {found['arch']}" if found.get("arch") else ""
        status = _CACHE.get(found.get("cache", "unknown"), _CACHE["unknown"])
        return f"{status}{arch}"
    if stage == "engine":
        status = _CACHE.get(found.get("cache", ""), "")
        return ", ".join(filter(None, (found.get("engine"), status, found.get("why"))))
    return str(found.get({"load": "file", "register": "function"}.get(stage, ""), ""))


def _shortened(lines: Sequence[str]) -> tuple[str, ...]:
    """Return at most eight lines, without repetitions."""
    counts = Counter(lines)
    kept = [line if count == 1 else f"{line} ({count} times)" for line, count in counts.items()]
    if len(kept) > _MOST_LINES:
        more = len(kept) - _MOST_LINES + 1
        kept[_MOST_LINES - 1 :] = [f"... and {more} more"]
    return tuple(kept)

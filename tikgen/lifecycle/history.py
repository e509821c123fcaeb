"""The life of one kernel: its events and launches, and what each stage of them adds up to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tikgen.lifecycle.look import CACHE
from tikgen.pipeline.events import ACTOR_STAGES, RENDERED, STAGES, Event, Launches, Subject
from tikgen.units import duration

_MOST_LINES = 8
_DIGEST, _SHORT_DIGEST = 16, 6


@dataclass(frozen=True)
class Stage:
    """What one stage of one kernel adds up to.

    Attributes:
        name: one of :data:`tikgen.pipeline.events.STAGES`, or of ``ACTOR_STAGES`` there.
        count: how often the kernel went through it.
        seconds: the time that this took altogether; None where launches were not timed.
        is_estimate: whether ``seconds`` goes by some of the launches.
        lines: what is known about it, in words.
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
        """Return the time in words."""
        if self.seconds is None:
            return "-"
        return f"{'~' if self.is_estimate else ''}{duration(self.seconds)}"


@dataclass(frozen=True)
class Life:
    """One kernel or actor: its name and place, its events in order, its launches."""

    subject: Subject
    events: tuple[Event, ...]
    launches: Launches | None

    @property
    def name(self) -> str:
        """Return the name of the kernel, on one line."""
        return " ".join(self.subject.name.split())

    @property
    def place(self) -> str:
        """Return the file and the line where the kernel stands."""
        return f"{self.subject.file}:{self.subject.line}" if self.subject.file else ""

    @property
    def short_place(self) -> str:
        """Return what tells the kernel from others of its name: line of a file, or digest."""
        if self.subject.is_actor:
            return "actor"
        if self.subject.file.startswith(RENDERED):
            return self.subject.file.rpartition(":")[2][:_SHORT_DIGEST]
        return f"{Path(self.subject.file).name}:{self.subject.line}" if self.subject.file else ""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Return what each stage that the kernel went through adds up to, in order."""
        numbers = {
            event.details.get("signature"): event.details.get("number")
            for event in self.events
            if event.stage == "instantiate"
        }
        found = []
        for name in STAGES + ACTOR_STAGES:
            events = [event for event in self.events if event.stage == name]
            if events:
                found.append(_stage(name, events, numbers))
            if self.launches is not None and name == self.launches.stage:
                found.append(_launch_stage(self.launches))
        return tuple(found)


def lives(events: Sequence[Event], launches: Sequence[Launches]) -> tuple[Life, ...]:
    """Return the life of each kernel in order of what happened to it first."""
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
    """Return what an event says beside its time, as one line."""
    if event.problem is not None:
        return f"failed: {event.problem}".removesuffix(": ")
    return _describe(event.stage, event.details)


def _describe(stage: str, found: Mapping[str, Any]) -> str:
    if stage in ACTOR_STAGES:
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
        status = CACHE.get(found.get("cache", "unknown"), CACHE["unknown"])
        return f"{status}{arch}"
    return str(found.get({"load": "file", "register": "function"}.get(stage, ""), ""))


def _shortened(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines without repetitions, and not too many of them."""
    counts = Counter(lines)
    kept = [line if count == 1 else f"{line} ({count} times)" for line, count in counts.items()]
    if len(kept) > _MOST_LINES:
        more = len(kept) - _MOST_LINES + 1
        kept[_MOST_LINES - 1 :] = [f"... and {more} more"]
    return tuple(kept)

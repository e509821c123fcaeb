"""A trace in Chrome's trace event format, for Perfetto and chrome://tracing.

Format: "Trace Event Format" (Duca and Sinclair, Google, 2016), JSON object form, complete events.
Perfetto takes thread ids of 32 bits only, drops events without a duration, and requires the events
of a thread to nest. Times are multiples of 1/8 microsecond, which binary fractions represent
exactly: no reader can round them into an overlap.
"""

from __future__ import annotations

import heapq
import json
import math
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tikgen.lifecycle.history import Lives
from tikgen.pipeline.events import Subject
from tikgen.version import __version__

_PER_MICROSECOND = 8
_PER_SECOND = _PER_MICROSECOND * 1_000_000


class _Span(NamedTuple):
    """An interval, in whole units."""

    start: int
    stop: int
    lane: int | str
    name: str
    category: str
    arguments: dict[str, Any]


def text(trace: Lives) -> str:
    """Return the trace as a JSON document."""
    return json.dumps(document(trace), allow_nan=False)


def document(trace: Lives) -> dict[str, Any]:
    """Return the trace as the JSON object of the format."""
    pid = os.getpid()
    spans = sorted(_spans(trace), key=lambda span: (span.start, -span.stop))
    lanes = list(dict.fromkeys(span.lane for span in spans))
    numbers = {lane: number for number, lane in enumerate(lanes, 1)}
    events = [_name("process_name", pid, 1, f"tikgen {__version__}")]
    for lane, number in numbers.items():
        events.append(_name("thread_name", pid, number, _lane_name(lane, number)))
    events += [
        {
            "name": span.name,
            "cat": span.category,
            "ph": "X",
            "ts": span.start / _PER_MICROSECOND,
            "dur": (span.stop - span.start) / _PER_MICROSECOND,
            "pid": pid,
            "tid": numbers[span.lane],
            "args": span.arguments,
        }
        for lane in lanes
        for span in _nested(span for span in spans if span.lane == lane)
    ]
    return {"displayTimeUnit": "ms", "traceEvents": events, "otherData": {"tikgen": __version__}}


def _spans(trace: Lives) -> Iterator[_Span]:
    for event in trace.events:
        place = (event.subject, event.start, event.seconds, event.thread)
        yield _span(trace, event.stage, *place, event.details)
    for each in trace.launches:
        totals: dict[str, Any] = {"batches" if each.subject.is_actor else "launches": each.count}
        if each.messages:
            totals["messages"] = each.messages
        if each.device_seconds is not None:
            totals["device_seconds"] = each.device_seconds
        for start, seconds, thread in each.spans:
            yield _span(trace, each.stage, each.subject, start, seconds, thread, totals)


def _span(
    trace: Lives,
    stage: str,
    subject: Subject,
    start: float,
    seconds: float,
    thread: int,
    details: Mapping[str, Any],
) -> _Span:
    begin = round((start - trace.started) * _PER_SECOND)
    end = max(begin, round((start - trace.started + seconds) * _PER_SECOND))
    where = {"kernel": subject.name, "file": subject.file, "line": subject.line}
    arguments = {name: _plain(value) for name, value in {**where, **details}.items()}
    # Actors share a thread, so each gets a lane of its own.
    lane = subject.name if subject.is_actor else thread
    return _Span(
        begin, end, lane, f"{stage} {subject.name}", f"{stage},{subject.origin}", arguments
    )


def _nested(spans: Iterable[_Span]) -> Iterator[_Span]:
    """Yield the spans of a lane in order, changed so that they nest.

    A span that begins within another and ends after it is moved to the end of that one: the time
    of a launch excludes the stages within it, so it seems to begin a little early.
    """
    waiting = [(span.start, -span.stop, number, span) for number, span in enumerate(spans)]
    heapq.heapify(waiting)
    open_until: list[int] = []
    while waiting:
        _, _, number, span = heapq.heappop(waiting)
        while open_until and open_until[-1] <= span.start:
            open_until.pop()
        if open_until and open_until[-1] == span.stop - 1:  # A rounding error.
            span = span._replace(stop=open_until[-1])
        if open_until and open_until[-1] < span.stop:
            later = span._replace(start=open_until[-1])
            heapq.heappush(waiting, (later.start, -later.stop, number, later))
            continue
        open_until.append(span.stop)
        yield span


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": {"name": name}}


def _lane_name(lane: int | str, number: int) -> str:
    if isinstance(lane, str):
        return f"actor {lane}"
    if lane == threading.main_thread().ident:
        return "main thread"
    living = {each.ident: each.name for each in threading.enumerate()}
    return living.get(lane, f"thread {number}")


def _plain(value: Any) -> Any:
    """Return ``value`` as JSON can represent it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)

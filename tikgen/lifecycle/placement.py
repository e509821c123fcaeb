"""The picture of a trace as data: colours, lanes, blocks, and a nonlinear time axis.

Compilations take milliseconds and launches microseconds, with idle seconds between. So the width
of an interval between two events is the cube root of its time, and pauses are cut short.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tikgen.lifecycle.history import Life, Lives
from tikgen.units import counted, duration

# Distinct for colour-blind readers as well, after Okabe and Ito (2008): blues before Taichi, warm
# colours while Taichi compiles, green for launches.
COLOURS = {
    "resolve": "#9dd3f5",
    "render": "#56b4e9",
    "hash": "#b9b4dd",
    "dedup": "#8b83bd",
    "load": "#0072b2",
    "register": "#e8cf3f",
    "instantiate": "#e69f00",
    "ast": "#cc79a7",
    "compile": "#d55e00",
    "engine": "#7b5a3c",
    "launch": "#009e73",
    # Of actors, after Paul Tol's muted scheme (2021).
    "created": "#bbbbbb",
    "launched": "#88ccee",
    "active": "#999933",
    "deactivated": "#ddcc77",
    "session": "#dddddd",
    "batch": "#44aa99",
    "failed": "#882255",
    "restart": "#aa4499",
    "terminating": "#6655aa",
    "terminated": "#332288",
    # Of programs.
    "run": "#444444",
}
# The greatest width of a pause, in seconds or as a share of the whole time.
_LONGEST_PAUSE, _LONGEST_SHARE = 1e-3, 0.02
_LEAST_BETWEEN_TICKS = 0.09


@dataclass(frozen=True)
class Block:
    """One stage, or a row of launches without a stage of any kernel between them.

    Times are in seconds from the beginning of the trace. ``launches`` has the start and stop of
    each launch; ``holds_others`` is True if another stage took place within this one.
    """

    stage: str
    start: float
    stop: float
    thread: int
    label: str
    launches: tuple[tuple[float, float], ...] = ()
    has_failed: bool = False
    holds_others: bool = False


@dataclass(frozen=True)
class Lane:
    """One kernel with a unique name and its blocks, each before those within it."""

    life: Life
    name: str
    blocks: tuple[Block, ...]
    threads: tuple[int, ...]


class Layout:
    """The lanes of a trace, in order of their first events, and the time axis.

    ``hidden`` is the number of kernels without a lane: those that took the least time.
    """

    def __init__(self, trace: Lives, most: int) -> None:
        kernels = [
            life for life in trace.kernels if life.events or (life.launches and life.launches.spans)
        ]
        shown = sorted(kernels, key=_total, reverse=True)[:most]
        self.hidden = len(kernels) - len(shown)
        cuts = sorted(event.start for event in trace.events)
        counts = Counter(life.name for life in kernels)
        self.lanes = tuple(
            _lane(life, counts[life.name] > 1, trace.started, cuts)
            for life in kernels
            if any(life is each for each in shown)
        )
        blocks = [block for lane in self.lanes for block in lane.blocks]
        self._bend(blocks)

    def _bend(self, blocks: Sequence[Block]) -> None:
        times = sorted({0.0, *(t for block in blocks for t in (block.start, block.stop))})
        places, busy_until = [0.0], 0.0
        starts = sorted((block.start, block.stop) for block in blocks)
        longest = max(_LONGEST_PAUSE, _LONGEST_SHARE * times[-1])
        self.pauses: list[tuple[float, float]] = []
        number = 0
        for begin, end in itertools.pairwise(times):
            while number < len(starts) and starts[number][0] <= begin:
                busy_until = max(busy_until, starts[number][1])
                number += 1
            seconds = end - begin
            if busy_until <= begin and seconds > longest:
                seconds = longest
                self.pauses.append((begin, end))
            places.append(places[-1] + seconds ** (1 / 3))
        self._times = np.array(times)
        self._places = np.array(places) / (places[-1] or 1.0)

    def place(self, seconds: float) -> float:
        """Return the place of a time on the axis, from 0 to 1."""
        return float(np.interp(seconds, self._times, self._places))

    def ticks(self) -> list[tuple[float, str]]:
        """Return places on the axis that are not too close, each with its time as text."""
        found: list[tuple[float, str]] = []
        for seconds, place in zip(self._times, self._places, strict=True):
            if not found or place - found[-1][0] >= _LEAST_BETWEEN_TICKS:
                found.append((float(place), duration(float(seconds)) if seconds else "0"))
        return found


def _lane(life: Life, has_namesakes: bool, started: float, cuts: Sequence[float]) -> Lane:
    blocks = [
        Block(
            event.stage,
            event.start - started,
            event.start - started + event.seconds,
            event.thread,
            f"{event.stage} {duration(event.seconds)}",
            has_failed="error" in event.details,
        )
        for event in life.events
    ]
    blocks += _launches(life, started, cuts)
    blocks.sort(key=lambda block: (block.start, -block.stop))
    threads = tuple(dict.fromkeys(block.thread for block in blocks))
    by_thread = [[block for block in blocks if block.thread == thread] for thread in threads]
    name = f"{life.name} ({life.short_place})" if has_namesakes else life.name
    return Lane(life, name, tuple(block for row in by_thread for block in _marked(row)), threads)


def _marked(row: Sequence[Block]) -> Iterable[Block]:
    """Yield the blocks of a thread with ``holds_others`` set."""
    for block, following in zip(row, [*row[1:], None], strict=True):
        holds = following is not None and following.stop <= block.stop
        yield dataclasses.replace(block, holds_others=holds)


def _launches(life: Life, started: float, cuts: Sequence[float]) -> Iterable[Block]:
    """Yield a block for each row of launches without a stage of any kernel between them."""
    launches = life.launches
    if launches is None or not launches.spans:
        return
    rows: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for start, stop, thread in _settled(life):
        rows.setdefault((thread, bisect.bisect(cuts, start)), []).append(
            (start - started, stop - started)
        )
    is_exact = len(rows) == 1 or launches.count == len(launches.spans)
    for (thread, _), row in rows.items():
        text = counted(round(launches.count * len(row) / len(launches.spans)), launches.stage)
        stop = max(stop for _, stop in row)
        label = text if is_exact else f"~{text}"
        yield Block(launches.stage, row[0][0], stop, thread, label, tuple(row))


def _settled(life: Life) -> Iterator[tuple[float, float, int]]:
    """Yield start, stop and thread of each launch, moved to begin after the stages within it.

    The time of a launch excludes these stages, so it seems to begin a little early. The batches of
    an actor are exact, and lie within its sessions.
    """
    assert life.launches is not None
    is_exact = life.subject.is_actor
    events = [] if is_exact else sorted(life.events, key=lambda event: event.start)
    starts = [event.start for event in events]
    for start, seconds, thread in life.launches.spans:
        stop = start + seconds
        number = bisect.bisect(starts, start) - 1
        if number >= 0 and events[number].thread == thread:
            start = max(start, events[number].start + events[number].seconds)
        yield start, max(start, stop), thread


def _total(life: Life) -> float:
    return sum(stage.seconds or 0.0 for stage in life.stages)

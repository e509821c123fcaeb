"""The launches of one kernel: their number and their times."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import NamedTuple

from tikgen.taichi.hooks import Span

_MOST_SPANS = 2000


class Subject(NamedTuple):
    """The kernel, program or actor of an event.

    ``origin`` is ``tikgen``, ``live``, ``script`` for kernels of the user's own files, ``taichi``
    for those of Taichi itself (as in ``to_numpy``), ``program`` for a
    :class:`tikgen.Program`, or ``actor`` for an actor of :mod:`tikgen.ring`, which has a name and
    no file.
    """

    name: str
    file: str
    line: int
    origin: str

    @property
    def is_actor(self) -> bool:
        """Return whether it is an actor."""
        return self.origin == "actor"

    @property
    def is_kernel(self) -> bool:
        """Return whether it is a kernel."""
        return self.origin not in ("actor", "program")


@dataclass
class Launches:
    """The launches of one kernel, or the batches of one actor, during a recording.

    Attributes:
        subject: the kernel or actor.
        count: number of launches.
        timed: number of launches that were timed.
        seconds: total host time of the timed launches.
        shortest: host seconds of the shortest.
        longest: host seconds of the longest.
        spans: start, seconds and thread of timed launches, thinned out evenly if there are many.
        device_seconds: total time in Taichi's profiler, None if it is off or saw no launch.
        device_count: number of launches in that profiler.
        window: seconds of the recording, None if not known.
        messages: number of messages in the batches of an actor.
    """

    subject: Subject
    count: int = 0
    timed: int = 0
    seconds: float = 0.0
    shortest: float = 0.0
    longest: float = 0.0
    spans: list[tuple[float, float, int]] = field(default_factory=list, repr=False)
    device_seconds: float | None = None
    device_count: int = 0
    window: float | None = None
    messages: int = 0
    _stride: int = field(default=1, init=False, repr=False)

    @property
    def stage(self) -> str:
        """Return the name of the stage: ``launch`` or ``batch``."""
        return "batch" if self.subject.is_actor else "launch"

    @property
    def first(self) -> float | None:
        """Return the host seconds of the first timed launch, which may link and load."""
        return min(self.spans)[1] if self.spans else None

    @property
    def typical(self) -> float | None:
        """Return the median of the timed launches, without the first if there are others.

        The first may take a thousand times longer than any other.
        """
        if not self.spans:
            return None
        first = min(self.spans)
        others = [span[1] for span in self.spans if span is not first]
        return statistics.median(others or [first[1]])

    @property
    def total(self) -> float | None:
        """Return the host time of all launches, at most :attr:`window`.

        A launch that was not timed counts as a typical one.
        """
        if self.typical is None:
            return None
        found = self.seconds + max(0, self.count - self.timed) * self.typical
        return found if self.window is None else min(found, self.window)

    def add(self, count: int, spans: list[Span]) -> None:
        """Add ``count`` launches; ``spans`` are the start and stop of those that were timed."""
        self.count += count
        self.add_times(spans)

    def add_times(self, spans: list[Span]) -> None:
        """Add the times of launches that are counted elsewhere."""
        if not spans:
            return
        times = [stop - start for start, stop, _ in spans]
        least = min(times)
        self.shortest = min(self.shortest, least) if self.timed else least
        self.longest = max(self.longest, max(times))
        self.seconds += sum(times)
        first = -self.timed % self._stride
        self.timed += len(times)
        kept = spans[first :: self._stride]
        self.spans += [(start, stop - start, thread) for start, stop, thread in kept]
        while len(self.spans) > _MOST_SPANS:
            del self.spans[1::2]
            self._stride *= 2

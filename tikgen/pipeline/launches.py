"""The launches of one kernel: how many there were, and what they took."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import NamedTuple

from tikgen.taichi import launches

_MOST_SPANS = 2000


class Subject(NamedTuple):
    """The kernel that something happened to.

    ``origin`` is ``tikgen``, ``live``, ``script`` for kernels of the user's own files,
    ``taichi`` for those that Taichi makes, as ``to_numpy`` does, or ``actor`` for an actor of
    :mod:`tikgen.ring`, which has a name and no file.
    """

    name: str
    file: str
    line: int
    origin: str

    @property
    def is_actor(self) -> bool:
        """Tell whether it is no kernel, but an actor."""
        return self.origin == "actor"


@dataclass
class Launches:
    """The launches of one kernel, or the batches of one actor, while a recording went on.

    Attributes:
        subject: the kernel.
        count: how many there were.
        timed: how many of them were timed.
        seconds: host time of the timed ones, together.
        shortest: host seconds of the shortest.
        longest: host seconds of the longest.
        spans: start, seconds and thread of the timed ones; of many, every so many.
        device_seconds: what Taichi's profiler measured, None where it is off or saw none.
        device_count: how many launches that profiler saw.
        window: how long the recording took, None where that is not known.
        messages: how many messages there were in the batches of an actor.
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
        """Return what one of them is called: ``launch``, or ``batch``."""
        return "batch" if self.subject.is_actor else "launch"

    @property
    def first(self) -> float | None:
        """Return the host seconds of the first launch that was timed; it may link and load."""
        return min(self.spans)[1] if self.spans else None

    @property
    def typical(self) -> float | None:
        """Return the median of the launches that were timed, less the first where there are more.

        The first may take a thousand times longer than any other.
        """
        if not self.spans:
            return None
        first = min(self.spans)
        others = [span[1] for span in self.spans if span is not first]
        return statistics.median(others or [first[1]])

    @property
    def total(self) -> float | None:
        """Return the host time of all launches, never more than the recording took.

        Where some were not timed, each of them counts as a typical one.
        """
        if self.typical is None:
            return None
        found = self.seconds + max(0, self.count - self.timed) * self.typical
        return found if self.window is None else min(found, self.window)

    def add(self, count: int, spans: list[launches.Span]) -> None:
        """Count launches; ``spans`` are when those of them that were timed began and ended."""
        self.count += count
        self.add_times(spans)

    def add_times(self, spans: list[launches.Span]) -> None:
        """Take in when launches began and ended that are counted elsewhere."""
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
        while len(self.spans) > _MOST_SPANS:  # Thinned out evenly, so that they span all the time.
            del self.spans[1::2]
            self._stride *= 2

"""A schedule that was tried, and its latest record."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

from tikgen.pipeline.records import Record
from tikgen.tuning.space import Point


@dataclass(eq=False)
class Candidate:
    """A schedule that was tried.

    Attributes:
        point: its schedule.
        record: its latest record.
        score: its time over that of the default, or of the first candidate that has a time where
            the default has none; infinite where it has no time itself.
        rounds: how many rounds were asked for.
    """

    point: Point
    record: Record
    score: float
    rounds: float = math.inf

    def set_ratio(self, ratio: float, low: float = 0.0, high: float = 0.0) -> None:
        """Set the time over that of the default, and its interval, if any."""
        self.score = ratio
        self.record = dataclasses.replace(self.record, ratio=ratio, ratio_low=low, ratio_high=high)


def best_of(candidates: Iterable[Candidate | None]) -> Candidate | None:
    """Return the candidate with the least score, or None where none has a time."""
    timed = [c for c in candidates if c is not None and c.score < math.inf]
    return min(timed, key=lambda c: c.score, default=None)

"""What is known of a schedule that was tried."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

from tikgen.pipeline.records import Record
from tikgen.tuning.space import Point


@dataclass(eq=False)
class Candidate:
    """What is known of a candidate.

    Attributes:
        point: its schedule.
        record: its latest record.
        score: its time as a fraction of the default's, or where the default has none of that of
            the first candidate that has one; infinite where it has no time itself.
        rounds: for how many rounds it was asked.
    """

    point: Point
    record: Record
    score: float
    rounds: float = math.inf

    def set_ratio(self, ratio: float, low: float = 0.0, high: float = 0.0) -> None:
        """Change the time as a fraction of the default's, and the interval that it has, if any."""
        self.score = ratio
        self.record = dataclasses.replace(self.record, ratio=ratio, ratio_low=low, ratio_high=high)


def best_of(candidates: Iterable[Candidate | None]) -> Candidate | None:
    """Return the candidate with the least score, or None where none has a time."""
    timed = [c for c in candidates if c is not None and c.score < math.inf]
    return min(timed, key=lambda c: c.score, default=None)

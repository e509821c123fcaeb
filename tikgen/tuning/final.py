"""The final comparison: what a schedule must show to replace the default."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tikgen.tuning.job import Measurement
from tikgen.tuning.timing import median_interval

# Each process places arrays and code elsewhere, which may matter by some percent. More are taken
# where the interval is wide, as on a busy machine, and fewer where time is short.
LEAST_PROCESSES, PROCESSES, MOST_PROCESSES = 2, 3, 7
WIDE = 1.1
# A wider interval supports no claim, unless all of it says at least twice as fast.
WIDEST, AT_LEAST_TWICE = 1.35, 0.5
ROUNDS = 31
# In each process, however slow the kernels are: enough for an interval.
LEAST_ROUNDS = 6
# With a smaller gain the default is kept.
LEAST_GAIN = 0.02
# How much slower it may be on one kind of data, where it is faster on average.
MOST_LOSS = 0.02


@dataclass(frozen=True)
class Verdict:
    """How a schedule compares with the default.

    Attributes:
        ratio: its time over that of the default.
        low: lower end of the 95 % interval of the ratio.
        high: upper end.
        worst: the ratio on the kind of data where it is greatest.
    """

    ratio: float
    low: float
    high: float
    worst: float

    @property
    def is_wide(self) -> bool:
        """Return whether further rounds are worth their time."""
        return self.high > WIDE * self.low

    @property
    def is_faster(self) -> bool:
        """Return whether the schedule replaces the default."""
        gains = self.high < 1 and self.ratio <= 1 / (1 + LEAST_GAIN)
        is_known = self.high <= max(WIDEST * self.low, AT_LEAST_TWICE)
        return gains and is_known and self.worst <= 1 + MOST_LOSS


def judge(found: Sequence[Measurement]) -> Verdict:
    """Return the verdict of measurements beside the default, each from a process of its own.

    The interval of the median over all rounds is stretched until it holds the median of each
    process, since rounds of one process are not independent.
    """
    ratios = [ratio for each in found for ratio in each.ratios]
    low, high = median_interval(ratios)
    medians = [each.ratio for each in found]
    return Verdict(
        statistics.median(ratios),
        min(low, *medians),
        max(high, *medians),
        statistics.median(each.worst_ratio for each in found),
    )


def pooled(found: Sequence[Measurement]) -> Measurement:
    """Combine measurements of one candidate."""
    return dataclasses.replace(
        found[-1],
        seconds=statistics.median(each.seconds for each in found),
        spread=statistics.median(each.spread for each in found),
        rounds=sum(each.rounds for each in found),
    )

"""The last comparison: what a schedule must show to replace the default."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tikgen.tuning.job import Measurement
from tikgen.tuning.timing import median_interval

# A process of its own places arrays and code elsewhere, which may matter by some percent. There
# are more of them where the interval is wide, as on a busy machine, and less where time is short.
LEAST_PROCESSES, PROCESSES, MOST_PROCESSES = 2, 3, 7
WIDE = 1.1
# An interval whose ends differ by a greater factor says too little for a claim, unless all of it
# says that the schedule is at least twice as fast.
WIDEST, AT_LEAST_TWICE = 1.35, 0.5
ROUNDS = 31
# Of one process: enough for an interval, however slow the kernels are.
LEAST_ROUNDS = 6
# A schedule that gains less stays a tie, and the default is kept.
LEAST_GAIN = 0.02
# How much slower than the default it may be on one kind of data, where it is faster on average.
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
        """Tell whether further rounds are worth their time."""
        return self.high > WIDE * self.low

    @property
    def is_faster(self) -> bool:
        """Tell whether the schedule is to replace the default."""
        gains = self.high < 1 and self.ratio <= 1 / (1 + LEAST_GAIN)
        is_known = self.high <= max(WIDEST * self.low, AT_LEAST_TWICE)
        return gains and is_known and self.worst <= 1 + MOST_LOSS


def judge(found: Sequence[Measurement]) -> Verdict:
    """Return what measurements beside the default, each in a process of its own, say together.

    The interval is that of the median over all rounds, stretched so that it holds the median of
    each process: rounds of one process have more in common than chance.
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
    """Return measurements of one candidate as one."""
    return dataclasses.replace(
        found[-1],
        seconds=statistics.median(each.seconds for each in found),
        spread=statistics.median(each.spread for each in found),
        rounds=sum(each.rounds for each in found),
    )

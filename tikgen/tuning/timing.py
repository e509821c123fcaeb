"""Times launches in turn, so that whatever slows the machine down slows all of them down."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tikgen import taichi_bridge as bridge
from tikgen.device import device_name

Launch = Callable[[], object]

# Long against the resolution of the clock and against waiting for the device: to wait costs
# 0.6 to 1 ms on Vulkan, where Taichi holds back what it submits.
BATCH_SECONDS = 2e-3
GPU_BATCH_SECONDS = 4e-2
# All rounds together; slow kernels get fewer of them.
MOST_SECONDS = 4.0
# Beyond that many times the fastest one, a single round says enough.
HOPELESS = 2.0
_MOST_LAUNCHES = 100_000


@dataclass(frozen=True)
class Timing:
    """Seconds of a launch in each round.

    Attributes:
        rounds: the seconds, round by round.
    """

    rounds: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """Return the median of the rounds."""
        return float(np.median(self.rounds))

    @property
    def spread(self) -> float:
        """Return the interquartile range of the rounds over their median."""
        low, high = np.percentile(self.rounds, (25, 75))
        return float(high - low) / self.seconds

    def ratio_to(self, other: Timing) -> float:
        """Return the median of the ratios of both in each round, in which they were neighbours.

        Where the machine is slower in some rounds than in others, that tells more than the ratio
        of the medians.
        """
        return float(np.median(np.divide(self.rounds, other.rounds)))


def time_in_turn(launches: Sequence[Launch], rounds: int) -> list[Timing]:
    """Return the timing of each launch, measured in rounds in which each has its turn.

    A round times one batch of each: as many launches as take 2 ms, 40 ms on a GPU, and the wait
    for the device behind them. Which comes first alternates.

    Args:
        launches: what to time; each was compiled.
        rounds: rounds to take, less where they would take more than some seconds.
    """
    found = [_launches_a_batch(launch) for launch in launches]
    counts = [count for count, _ in found]
    affordable = int(MOST_SECONDS / max(sum(batch for _, batch in found), 1e-9))
    single = [batch / count for count, batch in found]
    least = 1 if max(single) > HOPELESS * min(single) else min(3, rounds)
    rounds = max(least, min(rounds, affordable))
    seconds: list[list[float]] = [[] for _ in launches]
    for number in range(rounds):
        order = range(len(launches)) if number % 2 == 0 else range(len(launches) - 1, -1, -1)
        for index in order:
            seconds[index].append(_batch(launches[index], counts[index]) / counts[index])
    return [Timing(tuple(each)) for each in seconds]


def _launches_a_batch(launch: Launch) -> tuple[int, float]:
    """Return how many launches make a batch, and its seconds; finding it out warms up."""
    launch()
    bridge.sync()
    count, wanted = 1, _batch_seconds()
    while (seconds := _batch(launch, count)) < wanted and count < _MOST_LAUNCHES:
        growth = 1.2 * wanted / max(seconds, 1e-9)
        count = min(_MOST_LAUNCHES, max(count + 1, math.ceil(count * min(growth, 10.0))))
    return count, seconds


def _batch_seconds() -> float:
    arch = bridge.current_arch() or "cpu"
    is_cpu = arch == "cpu" or "llvmpipe" in device_name(arch)
    return BATCH_SECONDS if is_cpu else GPU_BATCH_SECONDS


def _batch(launch: Launch, count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        launch()
    bridge.sync()
    return time.perf_counter() - began

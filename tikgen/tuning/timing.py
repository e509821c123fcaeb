"""Times launches in turn, so that drift of the machine affects all of them alike."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tikgen.machine.devices import device_name
from tikgen.taichi import runtime

Launch = Callable[[], object]

# Long against the resolution of the clock and the synchronisation, 0.6 to 1 ms on Vulkan.
BATCH_SECONDS = 2e-3
GPU_BATCH_SECONDS = 4e-2
# For all rounds; slow kernels get fewer rounds.
MOST_SECONDS = 4.0
# A kernel this many times as slow as the fastest one needs a single round.
HOPELESS = 2.0
_MOST_LAUNCHES = 100_000


@dataclass(frozen=True)
class Timing:
    """Seconds of a launch, round by round."""

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

    def ratios_to(self, other: Timing) -> tuple[float, ...]:
        """Return the ratio of both in each round, in which drift of the machine cancels."""
        return tuple(a / b for a, b in zip(self.rounds, other.rounds, strict=True))


def time_in_turn(
    launches: Sequence[Launch],
    rounds: int,
    *,
    least: int | None = None,
    seed: int = 0,
    prepare: Launch | None = None,
) -> list[Timing]:
    """Return the timing of each launch, measured in rounds.

    A round times one batch of each: as many launches as take 2 ms, 40 ms on a GPU, and a
    synchronisation. The order is drawn for every other round and reversed in the next.

    Args:
        launches: what to time, compiled.
        rounds: rounds to take, fewer where they would take more than some seconds.
        least: rounds to take in any case; None for three, or for one where one of the launches
            is far slower than another.
        seed: seed of the order.
        prepare: called before each batch, outside the time taken.
    """
    found = [_launches_a_batch(launch, prepare) for launch in launches]
    counts = [count for count, _ in found]
    affordable = int(MOST_SECONDS / max(sum(batch for _, batch in found), 1e-9))
    single = [batch / count for count, batch in found]
    if least is None:
        least = 1 if max(single) > HOPELESS * min(single) else 3
    rounds = max(min(least, rounds), min(rounds, affordable))
    rng = random.Random(seed)
    order = list(range(len(launches)))
    seconds: list[list[float]] = [[] for _ in launches]
    for number in range(rounds):
        if number % 2 == 0:
            rng.shuffle(order)
        else:
            order.reverse()
        for index in order:
            batch = _batch(launches[index], counts[index], prepare)
            seconds[index].append(batch / counts[index])
    return [Timing(tuple(each)) for each in seconds]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median, whatever the distribution.

    Two order statistics bound it (Conover 1999, section 3.2). With fewer than six values it is
    their range, whose confidence is lower.
    """
    ranked, count = sorted(values), len(values)
    rank, chance = 0, 0.5**count
    while chance <= 0.025:  # That at most so many values lie below the median.
        rank += 1
        chance += math.comb(count, rank) * 0.5**count
    rank = max(rank - 1, 0)
    return ranked[rank], ranked[-1 - rank]


def _launches_a_batch(launch: Launch, prepare: Launch | None) -> tuple[int, float]:
    """Return how many launches make a batch, and its seconds; also warms up."""
    launch()
    runtime.sync()
    count, wanted = 1, _batch_seconds()
    while (seconds := _batch(launch, count, prepare)) < wanted and count < _MOST_LAUNCHES:
        growth = 1.2 * wanted / max(seconds, 1e-9)
        count = min(_MOST_LAUNCHES, max(count + 1, math.ceil(count * min(growth, 10.0))))
    return count, seconds


def _batch_seconds() -> float:
    arch = runtime.current_arch() or "cpu"
    is_cpu = arch == "cpu" or "llvmpipe" in device_name(arch)
    return BATCH_SECONDS if is_cpu else GPU_BATCH_SECONDS


def _batch(launch: Launch, count: int, prepare: Launch | None) -> float:
    if prepare is not None:
        prepare()
        runtime.sync()
    began = time.perf_counter()
    for _ in range(count):
        launch()
    runtime.sync()
    return time.perf_counter() - began

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
# Launches as often as it is told.
Launches = Callable[[int], object]

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
    return time_batches(
        [_repeated(launch) for launch in launches], rounds, least=least, seed=seed, prepare=prepare
    )


def time_batches(
    works: Sequence[Launches],
    rounds: int,
    *,
    least: int | None = None,
    seed: int = 0,
    prepare: Launch | None = None,
    slowest: Callable[[float], float] = float,
) -> list[Timing]:
    """Return the timing of each work, as :func:`time_in_turn`, which explains the arguments.

    Args:
        works: each launches as often as it is told.
        rounds: rounds to take.
        least: rounds to take in any case.
        seed: seed of the order.
        prepare: called before each batch.
        slowest: returns the seconds of the process that took longest, when all have called it,
            where several measure together; all of them do the same then.
    """
    found = [_launches_a_batch(work, prepare, slowest) for work in works]
    counts = [count for count, _ in found]
    affordable = int(MOST_SECONDS / max(sum(batch for _, batch in found), 1e-9))
    single = [batch / count for count, batch in found]
    if least is None:
        least = 1 if max(single) > HOPELESS * min(single) else 3
    rounds = max(min(least, rounds), min(rounds, affordable))
    rng = random.Random(seed)
    order = list(range(len(works)))
    seconds: list[list[float]] = [[] for _ in works]
    for number in range(rounds):
        if number % 2 == 0:
            rng.shuffle(order)
        else:
            order.reverse()
        for index in order:
            batch = _batch(works[index], counts[index], prepare, slowest)
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


def _repeated(launch: Launch) -> Launches:
    def run(count: int) -> None:
        for _ in range(count):
            launch()

    return run


def _launches_a_batch(
    work: Launches, prepare: Launch | None, slowest: Callable[[float], float]
) -> tuple[int, float]:
    """Return how many launches make a batch, and its seconds; also warms up."""
    work(1)
    runtime.sync()
    count, wanted = 1, _batch_seconds()
    while (seconds := _batch(work, count, prepare, slowest)) < wanted and count < _MOST_LAUNCHES:
        growth = 1.2 * wanted / max(seconds, 1e-9)
        count = min(_MOST_LAUNCHES, max(count + 1, math.ceil(count * min(growth, 10.0))))
    return count, seconds


def _batch_seconds() -> float:
    arch = runtime.current_arch() or "cpu"
    is_cpu = arch == "cpu" or "llvmpipe" in device_name(arch)
    return BATCH_SECONDS if is_cpu else GPU_BATCH_SECONDS


def _batch(
    work: Launches, count: int, prepare: Launch | None, slowest: Callable[[float], float]
) -> float:
    if prepare is not None:
        prepare()
        runtime.sync()
    slowest(0.0)  # So that all begin together.
    began = time.perf_counter()
    work(count)
    runtime.sync()
    return slowest(time.perf_counter() - began)

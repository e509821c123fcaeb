"""Times calls against each other in turn, so that noise of the machine hits all of them alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SECONDS_A_ROUND = 0.01
# Threads of OpenMP spin for some milliseconds after their work, and slow the next program.
SECONDS_OF_REST = 0.02


@dataclass(frozen=True)
class Timing:
    """Seconds a call takes: median, interquartile range and how many rounds there were."""

    median: float
    iqr: float
    rounds: int


class Turns:
    """Times calls in rounds; in each, every call is timed once, after an untimed call of it.

    What a device was given is waited for inside the time taken. A call that is slow takes part
    in some of the rounds only, evenly spread.
    """

    def __init__(
        self,
        calls: Mapping[str, Callable[[], object]],
        finishes: Mapping[str, Callable[[], object]],
        *,
        rounds: int = 15,
        seconds_each: float = 3.0,
        seconds_a_round: float = SECONDS_A_ROUND,
    ) -> None:
        """Find how often to call each.

        Args:
            calls: what to time.
            finishes: waits, for each of them, until its device has done all it was given.
            rounds: how many rounds.
            seconds_each: about how long each call is timed for at most; three rounds are taken
                however long they take.
            seconds_a_round: how long a call is timed for in a round, its waits included.
        """
        self.rounds = rounds
        self._calls = calls
        self._finishes = finishes
        self.calls_a_round = {
            name: _calls_a_round(
                lambda n=name: self._warm(n), 10_000, lambda: None, seconds_a_round
            )
            for name in calls
        }
        self._every = {name: self._stride(name, seconds_each) for name in calls}
        self._round = 0
        self._times: dict[str, list[float]] = {name: [] for name in calls}

    def begin_round(self, last: str) -> None:
        """Time every call but ``last``, which is left ready to be timed."""
        for name in self._calls:
            if name != last and self._round % self._every[name] == 0:
                self._rest_and_warm(name)
                self.time(name)
        self._round += 1
        self._rest_and_warm(last)

    def time(self, name: str) -> None:
        """Time one call once."""
        self._times[name].append(self._seconds(name) / self.calls_a_round[name])

    def timings(self) -> dict[str, Timing]:
        """Return what was found."""
        return {name: _summary(times) for name, times in self._times.items()}

    def _stride(self, name: str, seconds_each: float) -> int:
        """Return n, where a call takes part in every n-th round."""
        needed = 2 * self.rounds * self._seconds(name)
        most = max(1, (self.rounds - 1) // 2)
        return min(max(1, math.ceil(needed / seconds_each)), most)

    def _rest_and_warm(self, name: str) -> None:
        time.sleep(SECONDS_OF_REST)
        self._warm(name)

    def _warm(self, name: str) -> None:
        self._calls[name]()
        self._finishes[name]()

    def _seconds(self, name: str) -> float:
        start = time.perf_counter()
        for _ in range(self.calls_a_round[name]):
            self._calls[name]()
        self._finishes[name]()
        return time.perf_counter() - start


def steps_in_turn(
    runs: Mapping[str, Callable[[int], object]],
    wait: Callable[[], object] = lambda: None,
    *,
    rounds: int = 15,
    seconds_a_round: float = 0.1,
) -> dict[str, float]:
    """Return the median of the seconds a step of each simulation, in rounds that take turns.

    Args:
        runs: does some steps, an even number of them.
        wait: waits for the device.
        rounds: how many rounds there are.
        seconds_a_round: about how long each simulation runs in a round.
    """
    counts = {name: _steps_for(run, seconds_a_round, wait) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(SECONDS_OF_REST)
            run(2)
            times[name].append(seconds_a_step(run, counts[name], wait))
    return {name: statistics.median(found) for name, found in times.items()}


def _steps_for(run: Callable[[int], object], seconds: float, wait: Callable[[], object]) -> int:
    """Return an even number of steps that take about so many seconds; few take longer to begin."""

    def timed(pairs: int) -> float:
        return 2 * pairs * seconds_a_step(run, 2 * pairs, wait)

    return 2 * _count_for(timed, 10**6, seconds)


def seconds_a_step(
    run: Callable[[int], object], steps: int, wait: Callable[[], object] = lambda: None
) -> float:
    """Return the seconds that one of some steps takes, until the device has done all of them."""
    wait()
    start = time.perf_counter()
    run(steps)
    wait()
    return (time.perf_counter() - start) / steps


def _summary(times: list[float]) -> Timing:
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return Timing(median, high - low, len(times))


def compare(
    calls: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 25,
    most_calls: int = 1_000_000,
    between: Callable[[], object] | None = None,
) -> dict[str, float]:
    """Return the median time of each call in seconds.

    Args:
        calls: what to time; each round times every one of them once, many calls in a row.
        rounds: how many rounds.
        most_calls: how many calls in a row at most.
        between: finishes, outside the time taken, the work that a device was given.
    """
    finish = between or (lambda: None)
    counts = {name: _calls_a_round(call, most_calls, finish) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(_seconds(call, counts[name]) / counts[name])
            finish()
    return {name: statistics.median(values) for name, values in times.items()}


def _calls_a_round(
    call: Callable[[], object],
    most: int,
    finish: Callable[[], object],
    seconds_a_round: float = SECONDS_A_ROUND,
) -> int:
    """Return how many calls take ``seconds_a_round``, ``most`` at the most."""
    call()  # The first call may compile.
    finish()

    def timed(count: int) -> float:
        seconds = _seconds(call, count)
        finish()
        return seconds

    return _count_for(timed, most, seconds_a_round)


def _count_for(timed: Callable[[int], float], most: int, seconds_a_round: float) -> int:
    """Return how often to do what takes ``timed(count)`` seconds, ``most`` times at the most."""
    count = 1
    while count < most and (seconds := timed(count)) < seconds_a_round / 2:
        count = max(2 * count, int(count * seconds_a_round / max(seconds, 1e-9) / 2))
    return min(count, most)


def _seconds(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start

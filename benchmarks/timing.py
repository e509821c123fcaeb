"""Times calls against each other in turn, so that noise of the machine hits all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

SECONDS_A_ROUND = 0.01


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


def _calls_a_round(call: Callable[[], object], most: int, finish: Callable[[], object]) -> int:
    """Return how many calls take SECONDS_A_ROUND, ``most`` at the most."""
    call()  # The first call may compile.
    finish()
    count = 1
    while count < most and (seconds := _seconds(call, count)) < SECONDS_A_ROUND / 2:
        count = max(2 * count, int(count * SECONDS_A_ROUND / max(seconds, 1e-9) / 2))
        finish()
    finish()
    return min(count, most)


def _seconds(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start

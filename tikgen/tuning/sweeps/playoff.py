"""Measures the fastest kernels of a problem again, in turn: a time by itself may be a lucky one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tikgen.tuning.job import Measurement

# Kernels of a problem that are compared, the fastest first.
CONTENDERS = 3
ROUNDS = 15

# The works of two kernels: the second is the baseline of the first.
Pair = tuple[str, str]


def text_of(pair: Pair) -> str:
    """Return the work of measuring a kernel beside another one."""
    return " beside ".join(pair)


def works_of(work: str) -> list[str]:
    """Return the works that :func:`text_of` joined, or the one work."""
    return work.split(" beside ")


def standings(
    times: Mapping[str, float], found: Callable[[Pair], Measurement | None]
) -> tuple[dict[str, float], Pair | None]:
    """Return the seconds of the kernels measured in turn so far, and the next pair, if any.

    The fastest kernel is measured beside the next one, and the faster of the two beside the third,
    until :data:`CONTENDERS` were compared and no other kernel, measured by itself, seems to be
    faster than the winner.

    Args:
        times: seconds of each kernel of a problem, measured by itself, by work.
        found: returns the measurement of a pair, or None where it was not measured.
    """
    champion, *waiting = sorted(times, key=times.__getitem__) or [""]
    seconds: dict[str, float] = {}
    for number, challenger in enumerate(waiting, 2):
        if number > CONTENDERS and times[challenger] >= seconds.get(champion, 0.0):
            break
        measured = found((challenger, champion))
        if measured is None:
            return seconds, (challenger, champion)
        if measured.ok:
            # All ratios refer to the first pair, however fast the machine was later.
            first = seconds.setdefault(champion, measured.baseline_seconds)
            seconds[challenger] = first * measured.ratio
            champion = min(champion, challenger, key=seconds.__getitem__)
    return seconds, None

"""What ranks do each by itself, and whose failure all of them have to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tikgen.errors import GridError
from tikgen.grid.processes import Processes
from tikgen.tuning.job import Measurement
from tikgen.tuning.measuring import failure

T = TypeVar("T")


class Ends(Exception):
    """A job ends on all ranks; the argument is its outcome."""

    def __init__(self, outcome: Measurement) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


def agreed(processes: Processes, work: Callable[[], T]) -> T:
    """Return what some work returns that needs no other rank.

    Raises:
        Ends: if it fails on one of the ranks, on all of them.
    """
    failed: Measurement | None = None
    try:
        done = work()
    except Exception as error:
        failed = outcome_of(error)
    processes.greatest([0.0])  # Ranks that wait here leave the cores to others.
    for rank, outcome in enumerate(processes.all(failed)):
        if outcome is not None:
            if rank:  # Where all fail alike, rank 0 is the first.
                message = f"rank {rank}: {outcome.message}"
                outcome = Measurement(outcome.kind, message, worst=outcome.worst)
            raise Ends(outcome)
    return done


def outcome_of(error: Exception) -> Measurement:
    """Return the outcome of a job that ends with an error."""
    if isinstance(error, Ends):
        return error.outcome
    if isinstance(error, GridError):
        return Measurement("refused", str(error))
    return failure(error)

"""What is said of a grid when it is made, checked."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.errors import GridError
from tikgen.grid.decomposition import by


def whole_number(name: str, given: Any, least: int) -> int:
    """Return a whole number; raise GridError if it is something else."""
    if isinstance(given, bool) or not isinstance(given, numbers.Integral) or given < least:
        raise GridError(f"{name} takes a whole number of {least} or more; got {given!r}")
    return int(given)


def whole_numbers(name: str, given: Any, dim: int | None, least: int) -> tuple[int, ...]:
    """Return whole numbers, one for each axis; raise GridError if it is something else."""
    several = tuple(given) if isinstance(given, Sequence) else (given,) * (dim or 1)
    for number in several:
        if isinstance(number, bool) or not isinstance(number, numbers.Integral) or number < least:
            raise GridError(f"{name} takes whole numbers of {least} or more; got {given!r}")
    if dim is not None and len(several) != dim:
        raise GridError(f"{name} takes a number, or one for each of {dim} axes; got {given!r}")
    return tuple(map(int, several))


def speeds_of(given: Any, processes: int) -> tuple[float, ...]:
    """Return how fast each process is; raise GridError if it is something else."""
    try:
        speeds = np.asarray(given)
        if speeds.dtype.kind not in "iuf":
            raise TypeError
    except (TypeError, ValueError):
        raise GridError(f"weights takes numbers greater than 0; got {given!r}") from None
    if speeds.shape != (processes,):
        raise GridError(f"weights takes a number for each of {processes} processes; got {given!r}")
    if not (np.isfinite(speeds) & (speeds > 0)).all():
        raise GridError(f"weights takes finite numbers greater than 0; got {given!r}")
    # None is 0 beside the greatest.
    return tuple(map(float, np.maximum(speeds / speeds.max(), 1e-300)))


def truths(given: Any, dim: int) -> tuple[bool, ...]:
    """Return for which axes a grid is periodic; raise GridError if it is something else."""
    several = tuple(given) if isinstance(given, Sequence) else (given,) * dim
    if len(several) != dim or not all(isinstance(each, bool | np.bool_) for each in several):
        raise GridError(
            f"periodic takes True or False, or one for each of {dim} axes; got {given!r}"
        )
    return tuple(map(bool, several))


def check_choices(sums: Any, **choices: Any) -> None:
    """Raise GridError unless something is a way to add up, and others are choices, or None."""
    for name, value in choices.items():
        if value is not None and not isinstance(value, bool | np.bool_):
            raise GridError(f"{name} takes True, False or None; got {value!r}")
    if not isinstance(sums, str) or sums not in ("fast", "exact"):
        raise GridError(f"sums takes 'fast' or 'exact'; got {sums!r}")


def counts_of(
    given: Any, shape: tuple[int, ...], processes: int, least: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the numbers of processes that a user wants along each axis."""
    counts = whole_numbers("ranks", given, None, least=1)
    if len(counts) != len(shape) or math.prod(counts) != processes:
        raise GridError(
            f"ranks takes a number for each of {len(shape)} axes, whose product is the number of "
            f"processes, {processes}; got {given!r}"
        )
    for axis, (count, points) in enumerate(zip(counts, shape, strict=True)):
        if count > 1 and points // count < least[axis]:
            raise GridError(
                f"{by(shape)} points cannot be divided among {count} processes along axis {axis}, "
                f"each as wide as its ghost layers, {least[axis]}; {points // least[axis] or 1} fit"
            )
    return counts


def differing(given: Sequence[Mapping[str, Any]]) -> str:
    """Return which parameters of a grid a process was given that differ from those of rank 0.

    Args:
        given: the parameters of each process.
    """
    first = given[0]
    rank, other = next((n, other) for n, other in enumerate(given) if other != first)
    names = [name for name in first if first[name] != other[name]]
    one, its = (", ".join(f"{n}={each[n]!r}" for n in names) for each in (first, other))
    return f"rank 0 has {one}, rank {rank} has {its}"

"""Compares an output with the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tikgen.pipeline.comparison import errors, fractions
from tikgen.template.base import NDArray


@dataclass(frozen=True)
class Verdict:
    """The comparison of an output.

    Attributes:
        worst: largest error as a fraction of the tolerance.
        error: largest absolute error.
        compared: where the tolerance is finite.
        message: what is wrong, or an empty string.
    """

    worst: float
    error: float
    compared: NDArray
    message: str = ""


def compare(name: str, actual: NDArray, expected: NDArray, allowed: Any) -> Verdict:
    """Compare the output ``name``; takes arrays as ``comparison.errors`` does."""
    error, limit = errors(actual, expected, allowed)
    fraction = fractions(error, limit)
    worst = float(fraction.max(initial=0))
    compared: NDArray = ~np.isposinf(limit)
    greatest = float(error[compared].max(initial=0))
    if worst <= 1:
        return Verdict(worst, greatest, compared)
    place = np.unravel_index(int(np.argmax(fraction)), fraction.shape)
    where = f"{name}[{', '.join(map(str, place))}]"
    return Verdict(
        worst,
        greatest,
        compared,
        f"{where} is {actual[place]!s}, expected {expected[place]!s}, "
        f"off by {float(error[place]):.3g} where {float(limit[place]):.3g} is allowed; "
        f"{int((fraction > 1).sum())} of {fraction.size} elements are wrong",
    )

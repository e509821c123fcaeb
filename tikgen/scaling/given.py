"""Numbers that are given to the model of scaling, those of NumPy among them."""

from __future__ import annotations

import math
import numbers
from typing import Any


def real(value: Any) -> float:
    """Return a number of 0 or more as a float; NaN if it is something else."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        found = float(value)
    except OverflowError:
        return math.nan
    return found if found >= 0 else math.nan


def whole(value: Any) -> int:
    """Return a whole number as an int of Python; -1 if it is something else."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return -1
    return int(value)


def shown(value: object) -> str:
    """Return the first characters of what was given; Python writes no number of 4,301 digits."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return f"a huge {type(value).__name__}"

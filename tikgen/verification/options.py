"""Checks the options that verification, tuning and sweeps have in common."""

from __future__ import annotations

import math
from typing import Any


def problems_of(*, seed: Any, timeout: Any) -> dict[str, str]:
    """Return what is wrong with a seed and a timeout, either of which may be None."""
    problems = {}
    if seed is not None and (type(seed) is not int or seed < 0):
        problems["seed"] = f"takes an integer of at least 0, or None; got {seed!r}"
    if timeout is not None and not (is_positive(timeout) and math.isfinite(timeout)):
        problems["timeout"] = f"takes a positive number of seconds; got {timeout!r}"
    return problems


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_positive(value: Any) -> bool:
    """Return whether a value is a number above 0."""
    return is_number(value) and value > 0

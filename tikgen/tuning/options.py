"""Checks the options that tuning and sweeps have in common."""

from __future__ import annotations

import math
from typing import Any

from tikgen.errors import ParameterError

QUICK_SECONDS = 60.0


def problems_of(*, seed: Any, timeout: Any) -> dict[str, str]:
    """Return what is wrong with a seed and a timeout, either of which may be None."""
    problems = {}
    if seed is not None and (type(seed) is not int or seed < 0):
        problems["seed"] = f"takes an integer of at least 0, or None; got {seed!r}"
    if timeout is not None and not (is_positive(timeout) and math.isfinite(timeout)):
        problems["timeout"] = f"takes a positive number of seconds; got {timeout!r}"
    return problems


def is_positive(value: Any) -> bool:
    """Return whether a value is a number above 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def budget_seconds(template: str, budget: str | float) -> float:
    """Return how many seconds a budget allows, infinite for ``"full"``.

    Raises:
        ParameterError: if it is neither ``"quick"``, ``"full"`` nor a positive number.
    """
    named = {"quick": QUICK_SECONDS, "full": math.inf}
    if isinstance(budget, str) and budget in named:
        return named[budget]
    if not is_positive(budget):
        problem = f"takes 'quick', 'full' or a number of seconds above 0; got {budget!r}"
        raise ParameterError(template, {"budget": problem})
    return float(budget)

"""Checks how long a tuning may take."""

from __future__ import annotations

import math

from tikgen.errors import ParameterError
from tikgen.verification.options import is_positive

QUICK_SECONDS = 60.0


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

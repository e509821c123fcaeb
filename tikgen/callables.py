"""Functions that users give: what they are called, and how many arguments they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def takes_arguments(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with so many arguments, as far as is known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # A function of C tells nothing.
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, that of its type where it has none."""
    return str(getattr(function, "__name__", type(function).__name__))

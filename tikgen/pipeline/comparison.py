"""Compares a result with its reference. Ejected files contain copies of these functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def worst_error(actual: np.ndarray, expected: np.ndarray, allowed: Any) -> float:
    """Return the greatest error as a fraction of ``allowed``; takes what :func:`errors` takes."""
    return float(fractions(*errors(actual, expected, allowed)).max(initial=0))


def errors(actual: np.ndarray, expected: np.ndarray, allowed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of each element, and its limit.

    The expected value rounded to the dtype of ``actual`` is always correct; a limit above 0 grows
    by the rounding error of any value within it. NaN must be NaN and infinity infinity, unless the
    limit is infinite; a finite value beyond the range of the dtype counts as infinity. Integers
    wrap. All arguments have the same shape; ``expected`` has higher precision, and ``allowed`` may
    be a number.
    """
    wide = np.longdouble  # Holds every 64-bit integer.
    limit = np.broadcast_to(np.asarray(allowed, wide), actual.shape)
    if actual.dtype.kind != "f":
        if expected.dtype.kind in "iub":
            expected = expected.astype(actual.dtype)
        return np.abs(actual.astype(wide) - expected.astype(wide)), limit
    info = np.finfo(actual.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = narrowed(expected, actual.dtype)
        right = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
        # Numbers more than half a step above the greatest one round to infinity.
        beyond = wide(info.max) * (1 + wide(info.eps) / 4)
        want, got = expected.astype(wide), actual.astype(wide)
        finite = np.isfinite(want)
        want = np.where(finite, np.clip(want, -beyond, beyond), want)
        got = np.where(finite & np.isinf(got), np.copysign(beyond, got), got)
        error = np.where(right, 0, np.abs(got - want))
        rounding = np.where(finite, info.eps * (np.abs(want) + limit) + info.tiny, 0)
        grown = np.where(limit > 0, limit + rounding, limit)
    limit = np.where(finite | np.isposinf(limit), grown, 0)
    # A NaN on one side only, or an undefined limit, is an infinite error.
    return np.where(np.isnan(error) | (np.isnan(limit) & ~right), np.inf, error), limit


def narrowed(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Return values rounded to a dtype."""
    if np.dtype(dtype) == np.float16:  # NumPy rounds extended precision twice, to f32 and to f16.
        values = values.astype(np.float64)
    return values.astype(dtype)


def fractions(error: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return each error as a fraction of its limit; 0 for an infinite limit."""
    fraction = np.where(error == 0, 0, np.inf).astype(np.longdouble)
    fraction = np.divide(error, limit, out=fraction, where=(limit > 0) & ~np.isposinf(limit))
    return np.where(np.isposinf(limit), 0, fraction)


def perturbed_error(
    evaluate: Callable[..., Any],
    values: Mapping[str, Any],
    dtype: Any,
    errors: Mapping[str, Any] | None = None,
) -> Any:
    """Return how much a function changes if its values change by a few units in the last place.

    Ejected files use it for expressions; verification has a running error analysis instead.
    ``evaluate`` takes the values by name, and ``errors`` has further absolute errors of them.
    """
    rng = np.random.default_rng()
    wide = {name: np.asarray(value).astype(dtype.wide) for name, value in values.items()}
    exact = evaluate(**wide)
    allowed = 512 * dtype.eps * (1 + np.abs(exact))
    for _ in range(16):
        moved = {}
        for name, value in wide.items():
            step = 8 * dtype.eps * np.abs(value) + (errors or {}).get(name, 0)
            moved[name] = (value + rng.choice((-1, 0, 1), value.shape) * step).astype(dtype.wide)
        allowed = np.maximum(allowed, 4 * np.abs(evaluate(**moved) - exact))
    return allowed

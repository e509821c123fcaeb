"""Says how far a result is from its reference. Ejected files carry copies of these functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def worst_error(actual: np.ndarray, expected: np.ndarray, allowed: Any) -> float:
    """Return the greatest error as a fraction of what is allowed; above 1 is a failure.

    Takes what :func:`errors` takes.
    """
    return float(fractions(*errors(actual, expected, allowed)).max(initial=0))


def errors(actual: np.ndarray, expected: np.ndarray, allowed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of each element, and how great it may be.

    The expected value rounded to the dtype of ``actual`` is right always; an allowance above 0
    grows by what rounding costs. NaN must be NaN and infinity infinity, unless the allowance is
    infinite; a finite value beyond the range of the dtype counts as infinity. Integers wrap.

    Args:
        actual: what the kernel wrote.
        expected: what it must write, in higher precision, of the same shape.
        allowed: greatest absolute error, a number or an array of the same shape.
    """
    wide = np.longdouble  # Holds every 64-bit integer.
    limit = np.broadcast_to(np.asarray(allowed, wide), actual.shape)
    if actual.dtype.kind != "f":
        if expected.dtype.kind in "iub":
            expected = expected.astype(actual.dtype)
        return np.abs(actual.astype(wide) - expected.astype(wide)), limit
    info = np.finfo(actual.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = expected.astype(actual.dtype)
        right = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
        # Half a step above the greatest number all is infinity: what lies beyond counts as that.
        beyond = wide(info.max) * (1 + wide(info.eps) / 4)
        want, got = expected.astype(wide), actual.astype(wide)
        finite = np.isfinite(want)
        want = np.where(finite, np.clip(want, -beyond, beyond), want)
        got = np.where(finite & np.isinf(got), np.copysign(beyond, got), got)
        error = np.where(right, 0, np.abs(got - want))
        rounding = np.where(finite, info.eps * np.abs(want) + info.tiny, 0)
        grown = np.where(limit > 0, limit + rounding, limit)
    limit = np.where(finite | np.isposinf(limit), grown, 0)
    # A NaN on one side only, or an undefined allowance, is infinitely wrong.
    return np.where(np.isnan(error) | (np.isnan(limit) & ~right), np.inf, error), limit


def fractions(error: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return each error as a fraction of its limit; an infinite limit forgives everything."""
    fraction = np.where(error == 0, 0, np.inf).astype(np.longdouble)
    fraction = np.divide(error, limit, out=fraction, where=limit > 0)
    return np.where(np.isposinf(limit), 0, fraction)


def perturbed_error(
    evaluate: Callable[..., Any],
    values: Mapping[str, Any],
    dtype: Any,
    errors: Mapping[str, Any] | None = None,
) -> Any:
    """Return how far a function moves when its values move by some units in the last place.

    Ejected files judge expressions by it; verification has a running error analysis instead.

    Args:
        evaluate: the function, of keyword arguments.
        values: one array or number a name.
        dtype: the dtype in which a kernel computes, with ``eps`` and ``wide``.
        errors: how far values may move beyond that.
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

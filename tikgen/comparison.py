"""Says how far a result is from its reference. Ejected files carry copies of these functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def worst_error(actual: np.ndarray, expected: np.ndarray, allowed: Any) -> float:
    """Return the greatest error as a fraction of what is allowed; above 1 is a failure.

    Args:
        actual: what the kernel wrote.
        expected: what it must write, in higher precision, of the same shape.
        allowed: greatest absolute error, a number or an array of the same shape. Rounding
            ``expected`` to the dtype of ``actual`` is allowed on top.
    """
    if actual.dtype.kind != "f":
        wide = np.longdouble  # Holds every 64-bit integer.
        if expected.dtype.kind in "iu":
            expected = expected.astype(actual.dtype)  # Integers wrap, as they do in a kernel.
        error = np.abs(actual.astype(wide) - expected.astype(wide))
        rounding = np.zeros_like(error)
    else:
        info = np.finfo(actual.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = expected.astype(actual.dtype)
            error = np.abs(actual.astype(expected.dtype) - expected)
            same = (np.isnan(actual) & np.isnan(rounded)) | (actual == rounded)
            error = np.where(same, 0, np.where(np.isfinite(error), error, np.inf))
            rounding = np.where(np.isfinite(expected), np.abs(expected) * info.eps + info.tiny, 0)
    limit = np.broadcast_to(np.asarray(allowed, dtype=error.dtype), error.shape)
    limit = np.where(limit > 0, limit + rounding, limit)
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.where(error == 0, 0, np.where(np.isposinf(limit), 0, error / limit))
    return float(fraction.max(initial=0))


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

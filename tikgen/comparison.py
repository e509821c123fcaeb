"""Says how far a result is from its reference. Ejected files carry a copy of this function."""

from __future__ import annotations

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

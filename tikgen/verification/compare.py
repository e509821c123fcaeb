"""Says whether an array is what the reference expects, and how far off it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.template import NDArray


@dataclass(frozen=True)
class Verdict:
    """How an output compares: greatest error, also as a fraction of what is allowed."""

    worst: float
    error: float
    message: str = ""


def compare(name: str, dtype: DType, actual: NDArray, expected: NDArray, tolerance: Any) -> Verdict:
    """Return how ``actual`` compares with ``expected`` where ``tolerance`` is allowed.

    The expected value rounded to ``dtype`` is right always; a tolerance above 0 grows by what
    rounding costs. NaN must be NaN and infinity infinity; a finite value beyond the range of
    ``dtype`` counts as infinity. Integers wrap as they do in a kernel.

    Args:
        name: name of the output.
        dtype: dtype of the output.
        actual: what the kernel wrote.
        expected: what the reference returned, in a wider dtype, of the same shape.
        tolerance: greatest error allowed, a number or an array of the same shape.
    """
    if dtype.is_float:
        return _compare_floats(name, dtype, actual, expected, tolerance)
    if expected.dtype.kind in "iub":
        expected = expected.astype(dtype.numpy)
    error = np.abs(actual.astype(np.longdouble) - expected.astype(np.longdouble))
    allowed = np.broadcast_to(np.asarray(tolerance, np.longdouble), actual.shape)
    return _verdict(name, actual, expected, error, allowed)


def _compare_floats(
    name: str, dtype: DType, actual: NDArray, expected: NDArray, tolerance: Any
) -> Verdict:
    info = np.finfo(dtype.numpy)
    want, got = expected.astype(np.longdouble), actual.astype(np.longdouble)
    rounded = expected.astype(dtype.numpy)
    right = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
    # Half a step above the greatest number all is infinity: what lies beyond counts as that.
    beyond = np.longdouble(info.max) * (1 + np.longdouble(info.eps) / 4)
    finite = np.isfinite(want)
    want = np.where(finite, np.clip(want, -beyond, beyond), want)
    got = np.where(finite & np.isinf(got), np.copysign(beyond, got), got)
    error = np.where(right, 0, np.abs(got - want))
    allowed = np.broadcast_to(np.asarray(tolerance, np.longdouble), want.shape)
    rounding = info.eps * np.abs(want) + info.tiny
    allowed = np.where(finite, np.where(allowed > 0, allowed + rounding, allowed), 0)
    # A NaN on one side only, or an undefined tolerance, is infinitely wrong.
    error = np.where(np.isnan(error) | (np.isnan(allowed) & ~right), np.inf, error)
    return _verdict(name, actual, expected, error, allowed)


def _verdict(
    name: str, actual: NDArray, expected: NDArray, error: NDArray, allowed: NDArray
) -> Verdict:
    unbounded = np.isposinf(allowed)
    fraction = np.where(error == 0, 0, np.inf)
    fraction = np.divide(error, allowed, out=fraction.astype(np.longdouble), where=allowed > 0)
    fraction = np.where(unbounded, 0, fraction)
    worst = float(fraction.max(initial=0))
    finite = error[~unbounded]
    greatest = float(finite.max(initial=0))
    if worst <= 1:
        return Verdict(worst, greatest)
    place = np.unravel_index(int(np.argmax(fraction)), fraction.shape)
    where = f"{name}[{', '.join(map(str, place))}]"
    return Verdict(
        worst,
        greatest,
        f"{where} is {actual[place]!s}, expected {expected[place]!s}, "
        f"off by {float(error[place]):.3g} where {float(allowed[place]):.3g} is allowed; "
        f"{int((fraction > 1).sum())} of {fraction.size} elements are wrong",
    )

"""What a reduction must give, in NumPy, and the greatest error allowed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .kinds import ACCUMULATED, accuracy, is_whole, total_numpy, wide_numpy
from .schedules import BLOCK


def reference(p: Any, *arguments: np.ndarray) -> np.ndarray:
    """Return the reduction, in higher precision."""
    x, out = arguments[0], arguments[-1]
    axis = None if is_whole(p) else p.axis
    with np.errstate(all="ignore"):
        if p.op not in ACCUMULATED:
            found = getattr(np, p.op)(x, axis=axis)
            return np.asarray(found, out.dtype).reshape(out.shape)
        wide = wide_numpy(p)
        if p.op == "prod":
            found = np.asarray(np.prod(x.astype(wide), axis=axis, dtype=wide))
            if wide.kind == "f":
                is_zero = np.any(x == 0, axis=axis) & np.all(np.isfinite(x), axis=axis)
                found = np.where(is_zero, 0, found)
            return found.reshape(out.shape)
        terms = summands(p, [a.astype(wide) for a in arguments])
        if wide.kind == "f":
            total = exact_sum(terms, axis)
        else:
            total = np.asarray(np.sum(terms, axis=axis, dtype=wide))
        if p.op == "mean":
            total = total / wide.type(x.size if axis is None else x.shape[axis])
        elif p.op == "norm2":
            total = np.sqrt(total)
        return total.reshape(out.shape)


def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
    """Return the greatest error allowed."""
    work = total_numpy(p)
    if p.op not in ACCUMULATED or work.kind != "f":
        return {"out": 0}
    axis = None if is_whole(p) else p.axis
    given = [inputs[name].astype(wide_numpy(p)) for name in ("x", "y") if name in inputs]
    n = given[0].size if axis is None else given[0].shape[axis]
    eps = float(np.finfo(work).eps)
    exact = np.abs(expected["out"])
    tiny = n * float(np.finfo(work).tiny)
    if p.op == "prod":
        return {
            "out": np.where(leaves_range(inputs["x"], axis, work), np.inf, n * eps * exact + tiny)
        }
    # Higham 2002, chapter 4. A term may also be rounded twice before it is added.
    factor = {"fast": n + 2.0, "pairwise": BLOCK + np.log2(n) + 4, "kahan": 4 * n * eps}
    is_rounded = p.op in ("dot", "norm2") or p.dtype.numpy != work
    with np.errstate(all="ignore"):
        size = np.sum(np.abs(summands(p, given)), axis=axis).reshape(exact.shape)
        error = eps * (min(factor[p.accuracy], n + 2.0) + 2 * is_rounded) * size
        if p.op == "mean":
            error = error / n
        elif p.op == "norm2":
            # The root halves a relative error; where the squares vanish it is their root.
            error = error / np.maximum(exact, np.sqrt(tiny)) + np.sqrt(tiny)
        error = error + 4 * eps * exact + tiny
        # Other sums of an infinite term may be NaN.
        return {"out": np.where(np.isinf(exact), 0, error) if accuracy(p) == "kahan" else error}


def summands(p: Any, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the terms that are added up."""
    if p.op == "dot":
        return inputs[0] * inputs[1]
    return inputs[0] * inputs[0] if p.op == "norm2" else inputs[0]


def leaves_range(x: np.ndarray, axis: int | None, work: np.dtype) -> np.ndarray:
    """Tell where a product may be infinite, 0 or NaN, as the order of its factors decides."""
    with np.errstate(all="ignore"):
        size = np.log2(np.abs(x.astype(np.float64)))
        size = np.where(np.isfinite(size), size, 0)
        info = np.finfo(work)
        above = np.sum(np.maximum(size, 0), axis=axis) >= np.log2(float(info.max))
        below = np.sum(np.minimum(size, 0), axis=axis) <= np.log2(float(info.tiny))
        # A number of f64 that is infinite in an accumulator of f32 is NaN times 0.
        becomes_infinite = np.isfinite(x) & ~np.isfinite(x.astype(work))
    decided = np.any(x == 0, axis=axis) | ~np.all(np.isfinite(x), axis=axis)
    decided &= ~np.any(becomes_infinite, axis=axis)
    return np.atleast_1d((above | below) & ~decided)


def exact_sum(terms: np.ndarray, axis: int | None) -> np.ndarray:
    """Return a sum in twice the precision of its terms: pairwise, with what every step loses."""
    total = terms.reshape(-1) if axis is None else np.moveaxis(terms, axis, 0)
    lost = np.zeros_like(total[0])
    while len(total) > 1:
        even = total if len(total) % 2 == 0 else np.concatenate([total, np.zeros_like(total[:1])])
        a, b = even[0::2], even[1::2]
        total = a + b
        of_b = total - a
        lost = lost + np.sum((a - (total - of_b)) + (b - of_b), axis=0)
    return np.where(np.isfinite(total[0]), total[0] + lost, total[0])

"""Numbers that show whether each of them was seen."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen import DType

from .kinds import ACCUMULATED, COMPENSABLE, accuracy, is_whole, total_numpy

# So many integers of 8 bits may have a sum that f32 does not hold; verification draws up to MOST.
LONG, MOST = 262_139, 2**24
# So many integers of 32 bits may have a sum that f64 does not hold.
LOSES_IN_F64 = 2**23 + 5


def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """Return inputs that plain random numbers do not suit."""
    shape = tuple(sizes[f"n{axis}"] for axis in range(p.dim))
    axis = p.dim - 1 if p.axis is None else p.axis
    if p.op in ("any", "all"):
        # Mostly all alike: one that differs decides.
        x = np.full(shape, p.op == "all")
        if rng.random() < 0.9:
            x[tuple(rng.integers(0, shape))] ^= True
        return {"x": x.astype(p.dtype.numpy)}
    if p.op == "prod":
        return {"x": factors(p, shape, rng)}
    if p.op not in ACCUMULATED:
        if rng.random() < 0.5:
            return {"x": extremes(p, shape, axis, rng)}
        if p.dtype.is_float and rng.random() < 0.5:
            # Now and then all are infinite, with one sign.
            some = rng.choice([-np.inf, np.inf, np.nan], rng.integers(1, 4))
            part = rng.choice([0.01, 0.5, 1.0])
            x = np.where(rng.random(shape) < part, rng.choice(some, shape), 1.0)
            return {"x": x.astype(p.dtype.numpy)}
        return {}
    if (
        accuracy(p) == "kahan"
        and shape[axis] > 2
        and math.prod(shape) < LOSES_IN_F64
        and rng.random() < 0.75
    ):
        return ill_conditioned(p, shape, axis, rng)
    is_long = math.prod(shape) > LONG // 2
    if not p.dtype.is_float and (is_long or rng.random() < 0.5):
        # Sums that f32 cannot hold exactly, nor 32 bits where they are long.
        most = min(2 ** int(rng.choice((20, 30))), p.dtype.highest)
        if math.prod(shape) >= LOSES_IN_F64:
            most = p.dtype.highest
        least = most - most // 16 if is_long or rng.random() < 0.5 else 0
        # Products of wide integers would wrap around.
        names = ("x", "y") if p.op == "dot" and p.dtype.bits <= 16 else ("x",)
        values = {name: rng.integers(least, most, shape, endpoint=True) for name in names}
        return {name: value.astype(p.dtype.numpy) for name, value in values.items()}
    if p.dtype.is_float and rng.random() < 0.5:
        # What a narrower dtype would take for 0, or for infinite.
        scale = 2.0 ** (rng.choice((-1, 1)) * (8 if p.dtype.bits == 16 else 40))
        names = ("x", "y") if p.op == "dot" else ("x",)
        return {n: (rng.uniform(-1, 1, shape) * scale).astype(p.dtype.numpy) for n in names}
    return {}


def workload(
    p: Any, sizes: Mapping[str, int], rng: np.random.Generator
) -> dict[str, dict[str, Any]]:
    """Return typical data, by its kind."""
    shape = tuple(sizes[f"n{axis}"] for axis in range(p.dim))
    if p.op in ("any", "all"):  # Nothing decides before the end.
        return {"undecided": {"x": np.full(shape, p.op == "all", p.dtype.numpy)}}
    if p.op == "prod" and p.dtype.is_float:
        # A product that left the range of its dtype would be one of zeros or infinities.
        signs = rng.choice(np.array([-1, 1], p.dtype.numpy), shape)
        return {"signs": {"x": signs}}
    return {"uniform": {}}


def sizes(p: Any) -> Mapping[str, tuple[int, ...]]:
    """Return the sizes that verification tries."""
    # The long ones fill the steps of many chunks.
    tried = {1: (1, 2, 7, 64, 131, 1009, 4099, 12289, 16411, LONG), 2: (1, 3, 17, 67)}
    return {f"n{axis}": tried.get(p.dim, (1, 2, 5, 13, 17)) for axis in range(p.dim)}


def full_sizes(p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
    """Return sizes that fill all parts of a schedule."""
    if s.team > 1:
        return ()
    axis = p.dim - 1 if is_whole(p) else p.axis
    parts = s.chunks if is_whole(p) else 1
    # As many parts as there may be, and longer ones.
    counts = [parts * s.grain, parts * s.grain + 1] if parts > 1 else []
    if p.op in COMPENSABLE and not p.dtype.is_float and p.dtype.bits <= 16:
        counts.append(min(parts * LONG, MOST))
    if accuracy(p) == "kahan" and p.dtype.bits == 32 and not p.dtype.is_float:
        counts.append(LOSES_IN_F64)
    found = [{f"n{k}": count if k == axis else 1 for k in range(p.dim)} for count in counts]
    if not is_whole(p) and s.strip:
        # Two strips and a part of one, of rows that fill two steps and leave one.
        wide = {f"n{axis}": 2 * s.unroll + 2, f"n{p.dim - 1}": 2 * s.strip + 1}
        found.append({f"n{k}": 2 for k in range(p.dim)} | wide)
    return tuple(found)


def factors(p: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return numbers whose product shows each of them."""
    if p.dtype.is_float:
        # Near 1, so that long products neither overflow nor vanish.
        x = rng.choice((-1.0, 1.0), shape) * 2.0 ** rng.uniform(-0.5, 0.5, shape)
        if rng.random() < 0.5:
            # But now and then they do, beside a 0, and some are infinite.
            x = x * (_greatest(p.dtype) / 2)
            if rng.random() < 0.5:
                x[tuple(rng.integers(0, shape))] = np.inf
            axis = p.dim - 1 if p.axis is None else p.axis
            lines = np.moveaxis(x, axis, -1)
            zeros = rng.integers(0, shape[axis], (*lines.shape[:-1], 1))
            np.put_along_axis(lines, zeros, 0.0, -1)
        return x.astype(p.dtype.numpy)
    signs = np.array((-1, 1) if p.dtype.is_signed else (1,))
    if total_numpy(p).kind == "f":
        # Few other than 1, so that f32 holds the product; or one that overflows beside a 0.
        x = rng.choice(signs, shape)
        x.flat[rng.integers(0, x.size, 10)] = 3
        if rng.random() < 0.5:
            x = np.full(shape, p.dtype.highest)
            x[tuple(rng.integers(0, shape))] = 0
        return x.astype(p.dtype.numpy)
    # Odd numbers, whose product wraps and never vanishes.
    highest = int((7, p.dtype.highest)[rng.integers(2)])
    lowest = -highest if p.dtype.is_signed else 0
    return rng.integers(lowest, highest, shape, p.dtype.numpy, endpoint=True) | 1


def extremes(p: Any, shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> np.ndarray:
    """Return numbers among which each line along the axis has one or two that decide."""
    is_min = p.op.endswith("min")
    x, best = rng.uniform(1, 20, shape), 0 if is_min else 21
    is_level = p.dtype.is_float or rng.random() < 0.5
    if not is_level:
        # Near the limit, so that what else there is in memory would decide.
        x = rng.integers(0, 20, shape)
        x = p.dtype.highest - x.astype(p.dtype.numpy) if is_min else p.dtype.lowest + x
        best = p.dtype.highest - 20 if is_min else p.dtype.lowest + 20
    x = x.astype(p.dtype.numpy)
    lines = np.moveaxis(x, axis, -1)
    for _ in range(rng.integers(1, 3)):
        if is_whole(p):
            x[tuple(rng.integers(0, shape))] = best
        else:
            places = rng.integers(0, shape[axis], (*lines.shape[:-1], 1))
            np.put_along_axis(lines, places, best, -1)
    if is_level and not is_whole(p):
        # What another line holds would decide.
        lines += (25 * rng.integers(0, 5, (*lines.shape[:-1], 1))).astype(x.dtype)
    if p.dtype.is_float:
        # Numbers of all their digits, often negative.
        x = (x * rng.uniform(0.9, 1.1) - rng.choice((0, 200))).astype(x.dtype)
    return x


def ill_conditioned(
    p: Any, shape: tuple[int, ...], axis: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Return terms that a plain sum loses beside great ones, or an infinite one."""
    great = 2.0 / float(np.finfo(total_numpy(p)).eps)
    x = rng.uniform(0, 4, shape)
    lines = np.moveaxis(x, axis, -1)
    one, other = rng.choice(shape[axis], 2, replace=False)
    if p.op == "norm2":
        x /= 8
        lines[..., one] = min(np.sqrt(great), _greatest(p.dtype))
    elif p.dtype.is_signed and great < _greatest(p.dtype):
        lines[..., one], lines[..., other] = great, -great
    if p.dtype.is_float and rng.random() < 0.25:
        lines[..., other] = np.inf
    found = {"x": x.astype(p.dtype.numpy)}
    return found | ({"y": np.ones(shape, p.dtype.numpy)} if p.op == "dot" else {})


def _greatest(dtype: DType) -> float:
    """Return the greatest finite number of a dtype."""
    return float(np.finfo(dtype.numpy).max if dtype.is_float else dtype.highest)

"""Exact sums of floats: terms are added to a long fixed-point number, in any order.

Whole numbers wide enough for every f64 are added without rounding, so that neither the order of the
terms nor their places matter. Limb n counts in units of ``2**(32*n - 1074)``, which is the smallest
f64 where n is 0. A limb has 64 bits for 32, so that 2**31 terms need no carry.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.engines import native, thread_pool

NDArray = npt.NDArray[Any]
_LIMBS = 66
# The limbs; then how often NaN, infinity and minus infinity were seen.
COUNT = _LIMBS + 3
NUMBER_BYTES = 8 * COUNT
# So many terms of 32 bits that a double holds their sum exactly.
_AT_ONCE = 1 << 20
# The context: how many terms, their address, that of the limbs.
_LOOP = """
define void @{name}(ptr %context) {{
entry:
  %count = load i64, ptr %context
  %terms_at = getelementptr i64, ptr %context, i64 1
  %terms = load ptr, ptr %terms_at
  %limbs_at = getelementptr i64, ptr %context, i64 2
  %limbs = load ptr, ptr %limbs_at
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %added ]
  %at = getelementptr {kind}, ptr %terms, i64 %i
  %term = load {kind}, ptr %at
{widened}
  %high = lshr i64 %bits, 52
  %exponent = and i64 %high, 2047
  %fraction = and i64 %bits, 4503599627370495
  %sign = ashr i64 %bits, 63
  %finite = icmp ne i64 %exponent, 2047
  br i1 %finite, label %number, label %special
special:
  %is_nan = icmp ne i64 %fraction, 0
  %infinity = sub i64 {infinity}, %sign
  %which = select i1 %is_nan, i64 {nan}, i64 %infinity
  %seen_at = getelementptr i64, ptr %limbs, i64 %which
  %seen = load i64, ptr %seen_at
  %more_seen = add i64 %seen, 1
  store i64 %more_seen, ptr %seen_at
  br label %added
number:
  %normal = icmp ne i64 %exponent, 0
  %one = zext i1 %normal to i64
  %hidden = shl i64 %one, 52
  %mantissa = or i64 %fraction, %hidden
  %place = sub i64 %exponent, %one
  %limb = lshr i64 %place, 5
  %shift = and i64 %place, 31
  %by = zext i64 %shift to i128
  %wide = zext i64 %mantissa to i128
  %shifted = shl i128 %wide, %by
  %low = trunc i128 %shifted to i64
  %above = lshr i128 %shifted, 64
  %piece2 = trunc i128 %above to i64
  %piece0 = and i64 %low, 4294967295
  %piece1 = lshr i64 %low, 32
{adds}
  br label %added
added:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
_ADD = """
  %flipped{n} = xor i64 %piece{n}, %sign
  %signed{n} = sub i64 %flipped{n}, %sign
  %place{n} = add i64 %limb, {n}
  %limb{n} = getelementptr i64, ptr %limbs, i64 %place{n}
  %known{n} = load i64, ptr %limb{n}
  %sum{n} = add i64 %known{n}, %signed{n}
  store i64 %sum{n}, ptr %limb{n}
"""
_TEXT = "".join(
    _LOOP.format(
        name=f"add_{8 * size}",
        kind=kind,
        widened=widened,
        infinity=_LIMBS + 1,
        nan=_LIMBS,
        adds="".join(_ADD.format(n=n) for n in range(3)),
    )
    for size, kind, widened in (
        (
            4,
            "float",
            "  %double = fpext float %term to double\n  %bits = bitcast double %double to i64",
        ),
        (8, "double", "  %bits = bitcast double %term to i64"),
    )
)


def add(limbs: NDArray, terms: NDArray) -> None:
    """Add terms to a fixed-point number.

    Args:
        limbs: the number, i64 of shape (COUNT,).
        terms: fewer than 2**31 numbers of f32 or f64.
    """
    terms = np.ascontiguousarray(terms)
    if _native() is None:
        flat = terms.reshape(-1)
        for start in range(0, flat.size, _AT_ONCE):
            add_by_numpy(limbs, flat[start : start + _AT_ONCE])
        return
    context = np.array([terms.size, terms.ctypes.data, limbs.ctypes.data], np.int64)
    _call(terms.itemsize)(context.ctypes.data)


def add_by_numpy(limbs: NDArray, terms: NDArray) -> None:
    """Add at most 2**20 terms, as native code does where there is any."""
    bits = terms.astype(np.float64).view(np.int64)
    exponent, fraction = (bits >> 52) & 2047, bits & ((1 << 52) - 1)
    special = exponent == 2047
    limbs[_LIMBS] += np.count_nonzero(special & (fraction != 0))
    for kind, is_negative in ((1, False), (2, True)):
        limbs[_LIMBS + kind] += np.count_nonzero(
            special & (fraction == 0) & ((bits < 0) == is_negative)
        )
    mantissa = np.where(special, 0, fraction | ((exponent > 0).astype(np.int64) << 52))
    place = np.where(special, 0, exponent - (exponent > 0))
    limb, shift, sign = place >> 5, place & 31, np.where(bits < 0, -1, 1)
    low = (mantissa & 0xFFFFFFFF) << shift
    high = ((mantissa >> 32) << shift) + (low >> 32)
    for n, piece in enumerate((low & 0xFFFFFFFF, high & 0xFFFFFFFF, high >> 32)):
        found = np.bincount(limb + n, (sign * piece).astype(np.float64), _LIMBS)
        limbs[:_LIMBS] += found.astype(np.int64)


def rounded(every: NDArray, dtype: npt.DTypeLike) -> NDArray:
    """Return the sum of fixed-point numbers, rounded once, as an array of one element.

    Args:
        every: the numbers, i64 of shape (number of them, COUNT).
        dtype: f32 or f64.
    """
    kind = np.dtype(dtype)
    nans, infinite, negative = every[:, _LIMBS:].sum(axis=0).tolist()
    if nans or (infinite and negative):
        return np.full(1, np.nan, kind)
    if infinite or negative:
        return np.full(1, np.inf if infinite else -np.inf, kind)
    total = 0
    for rank, limb in np.argwhere(every[:, :_LIMBS]).tolist():
        total += int(every[rank, limb]) << (32 * limb)
    return nearest(total, kind)


def nearest(total: int, kind: np.dtype[Any]) -> NDArray:
    """Return the float nearest to a whole number of the smallest f64, ties to even.

    The bits are made of whole numbers, as a processor may take subnormal floats for 0.
    """
    mantissa, unit = (23, 1074 - 149) if kind.itemsize == 4 else (52, 0)
    magnitude = abs(total)
    less = max(unit, magnitude.bit_length() - mantissa - 1)
    kept, rest = magnitude >> less, magnitude & ((1 << less) - 1)
    half = (1 << less) >> 1
    kept += less > 0 and (rest > half or (rest == half and kept & 1 == 1))
    infinity = ((1 << (8 * kind.itemsize - 1 - mantissa)) - 1) << mantissa
    bits = min(((less - unit) << mantissa) + kept, infinity)
    sign = int(total < 0) << (8 * kind.itemsize - 1)
    return np.array([sign | bits], f"u{kind.itemsize}").view(kind)


@functools.cache
def _native() -> native.Library | None:
    """Return the native code, None where there is none."""
    if native.problem() or thread_pool.problem():
        return None
    return thread_pool.library_of(_TEXT, {}, "exact sums")


@functools.cache
def _call(size: int) -> Any:
    """Return the native function that adds terms of some bytes."""
    library = _native()
    assert library is not None
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address(f"add_{8 * size}"))

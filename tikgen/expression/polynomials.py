"""Functions that Taichi lacks, as polynomials without a branch, of which LLVM makes vectors.

All that must not be rounded is done in integers, which fast math leaves alone, and no number in
between is infinite or NaN. Results on cpu and Vulkan were within 1.9 units in the last place of the
exact ones. Polynomials interpolate at Chebyshev's nodes, the exponential's is Taylor's.
"""

from __future__ import annotations

from tikgen.dtypes import DType

# The function that computes each operation, and what they call.
OWN = {"atan": "atan_of", "cosh": "cosh_of", "sinh": "sinh_of"}
CALLED = {"cosh_of": "half_exp_of", "sinh_of": "half_exp_of"}

# Coefficients from the highest power down: of 1 - atan(x) / x over x*x, of sinh(x) / x - 1 over
# x*x, and of exp(x).
_ATAN = {
    32: "0.06214722670224024 -0.1066801869885602 0.14256537087941412 -0.1999931345953925 "
    "0.333333307125219",
    64: "0.017539916204913773 -0.03781854858641458 0.050336850838998956 -0.05847669756799626 "
    "0.06663232236816255 -0.07692086789119736 0.09090900168668452 -0.11111110899821627 "
    "0.14285714283138384 -0.19999999999987714 0.33333333333333326",
}
_SINH = {
    32: "2.8062802582276946e-06 0.00019838101968683888 0.00833333967591706 0.16666666646842135",
    64: "7.746178593018827e-13 1.6057679623801638e-10 2.5052117695907823e-08 "
    "2.7557319191381816e-06 0.00019841269841324198 0.008333333333333299 0.16666666666666666",
}
_EXP = {
    32: "1/5040 1/720 1/120 1/24 1/6 0.5 1.0 1.0",
    64: "1/6227020800 1/479001600 1/39916800 1/3628800 1/362880 1/40320 1/5040 1/720 1/120 1/24 "
    "1/6 0.5 1.0 1.0",
}
# Fixed-point numbers: binary digits behind the point, log(2), and what that is too small by.
_FIXED = {32: (24, 11629080, -1.904654299957768e-09), 64: (53, 6243314768165359, 2.31904681384e-17)}
# The bits of a number whose sinh is infinite: 90 and 711.
_LIMIT = {32: 0x42B40000, 64: 0x4086380000000000}
# The bits of the largest number, of 2**60 and of 1.
_LAST = {32: 0x7F7FFFFF, 64: 0x7FEFFFFFFFFFFFFF}
_FAR = {32: 0x5D800000, 64: 0x43B0000000000000}
_ONE = {32: 0x3F800000, 64: 0x3FF0000000000000}


def words(dtype: DType) -> dict[str, str]:
    """Return what replaces the words in capitals in the texts, for f32 or f64."""
    bits = dtype.bits
    signed = DType(f"i{bits}")
    digits, ln2, missing = _FIXED[bits]
    return {
        "ATAN_SERIES": _lines(_ATAN[bits]),
        "SINH_SERIES": _lines(_SINH[bits]),
        "EXP_SERIES": _lines(_EXP[bits]),
        "PER_UNIT": f"2.0**{digits}",
        "UNIT": f"2.0**-{digits}",
        "LOG_TWO": signed.literal(ln2),
        "MISSING": repr(missing),
        "LIMIT": signed.literal(_LIMIT[bits]),
        "LAST": signed.literal(_LAST[bits]),
        "FAR": signed.literal(_FAR[bits]),
        "BITS_OF_ONE": signed.literal(_ONE[bits]),
    }


def _lines(numbers: str) -> str:
    """Return numbers for a tuple, four a line."""
    each = [number.replace("/", " / ") for number in numbers.split()]
    rows = [each[n : n + 4] for n in range(0, len(each), 4)]
    return "".join(f"\n        {', '.join(row)}," for row in rows) + "\n    "


TEXTS = {
    "atan_of": '''
@ti.func
def atan_of(x):
    """Return the arc tangent, by that of the nearest of 0, 1/2, 1, 3/2 and infinity."""
    bits = ti.bit_cast(x, SIGNED) & MAGNITUDE
    size = ti.bit_cast(ti.min(bits, FAR), DTYPE)
    near = ti.select(size < DTYPE(1.1875), DTYPE(1.0), DTYPE(1.5))
    angle = ti.select(size < DTYPE(1.1875), DTYPE(0.7853981633974483), DTYPE(0.982793723247329))
    near = ti.select(size < DTYPE(0.6875), DTYPE(0.5), near)
    angle = ti.select(size < DTYPE(0.6875), DTYPE(0.4636476090008061), angle)
    near = ti.select(size < DTYPE(0.4375), ZERO, near)
    angle = ti.select(size < DTYPE(0.4375), ZERO, angle)
    is_far = size > DTYPE(2.4375)
    angle = ti.select(is_far, DTYPE(1.5707963267948966), angle)
    above = ti.select(is_far, -ONE, size - near)
    slope = above / ti.select(is_far, size, ONE + near * size)
    square = slope * slope
    series = ZERO
    for c in ti.static((ATAN_SERIES)):
        series = series * square + DTYPE(c)
    angle += slope - slope * square * series
    # With the sign of x.
    value = ti.bit_cast(angle, SIGNED) | (ti.bit_cast(x, SIGNED) ^ bits)
    return ti.select(bits > INFINITY, x, ti.bit_cast(value, DTYPE))
''',
    "half_exp_of": '''
@ti.func
def half_exp_of(bits):
    """Return the bits of half the exponential of a number of these bits, which is not negative."""
    size = ti.bit_cast(ti.min(bits, LIMIT), DTYPE)
    twos = ti.cast(size * DTYPE(1.4426950408889634) + HALF, SIGNED)
    # Less a multiple of log(2), in integers: fast math would lose digits.
    units = ti.cast(size * DTYPE(PER_UNIT), SIGNED) - twos * LOG_TWO
    rest = ti.cast(units, DTYPE) * DTYPE(UNIT)
    rest -= ti.cast(twos, DTYPE) * DTYPE(MISSING)
    power = ZERO
    for c in ti.static((EXP_SERIES)):
        power = power * rest + DTYPE(c)
    found = ti.bit_cast(power, SIGNED) + ((twos - ONE_BIT) << STORED)
    return ti.min(found, INFINITY)
''',
    "cosh_of": '''
@ti.func
def cosh_of(x):
    """Return the hyperbolic cosine."""
    bits = ti.bit_cast(x, SIGNED) & MAGNITUDE
    half_bits = half_exp_of(bits)
    half = ti.bit_cast(ti.min(half_bits, LAST), DTYPE)
    value = ti.bit_cast(half + DTYPE(0.25) / half, SIGNED)
    value = ti.select(half_bits < INFINITY, value, INFINITY)
    return ti.select(bits > INFINITY, x, ti.bit_cast(value, DTYPE))
''',
    "sinh_of": '''
@ti.func
def sinh_of(x):
    """Return the hyperbolic sine, of small numbers by a series."""
    bits = ti.bit_cast(x, SIGNED) & MAGNITUDE
    half_bits = half_exp_of(bits)
    half = ti.bit_cast(ti.min(half_bits, LAST), DTYPE)
    value = ti.bit_cast(half - DTYPE(0.25) / half, SIGNED)
    value = ti.select(half_bits < INFINITY, value, INFINITY)
    size = ti.bit_cast(ti.min(bits, BITS_OF_ONE), DTYPE)
    square = size * size
    series = ZERO
    for c in ti.static((SINH_SERIES)):
        series = series * square + DTYPE(c)
    near = ti.bit_cast(size + size * square * series, SIGNED)
    value = ti.select(bits < BITS_OF_ONE, near, value)
    value |= ti.bit_cast(x, SIGNED) ^ bits
    return ti.select(bits > INFINITY, x, ti.bit_cast(value, DTYPE))
''',
}

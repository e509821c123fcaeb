"""Logarithms, inverse hyperbolic functions and others that are accurate near 0, on every arch.

As in `polynomials`, all that must not be rounded is done in integers, and no number in between is
infinite or NaN. A number is split into a power of 2 and digits d from sqrt(1/2) to sqrt(2), whose
logarithm is 2 atanh((d - 1)/(d + 1)) by Taylor's series; that of 1 + x is 2 atanh(x/(2 + x)) where
1 + x lies in that range, so that no digit of a small x is lost (Muller, Elementary Functions).

- asinh(x) = log1p(x + x**2/(1 + sqrt(1 + x**2))), and with t = x - 1
  acosh(x) = log1p(t + sqrt(t*(2 + t))); beyond 2**60 both are log1p(x) + log(2);
- atanh(x) = log1p(2 x/(1 - x))/2;
- expm1(x) = 2**k expm1(r) + (2**k - 1), where r = x - k log(2) is at most 0.35;
- hypot(x, y) = a sqrt(1 + (b/a)**2), where a is the larger magnitude, scaled by a power of 2.
"""

from __future__ import annotations

import math

from tikgen.dtypes import DType

# The function that computes each operation, and those that it calls.
OWN = {
    "acosh": "acosh_of",
    "asinh": "asinh_of",
    "atanh": "atanh_of",
    "expm1": "expm1_of",
    "hypot": "hypot_of",
    "log10": "log10_of",
    "log1p": "log1p_of",
    "log2": "log2_of",
}
_BY_LOG1P = ("log_series_of", "log1p_of")
CALLED: dict[str, tuple[str, ...]] = {
    "acosh_of": _BY_LOG1P,
    "asinh_of": _BY_LOG1P,
    "atanh_of": _BY_LOG1P,
    "log10_of": ("log_series_of", "split_of"),
    "log1p_of": ("log_series_of",),
    "log2_of": ("log_series_of", "split_of"),
}
# Terms of the series of 2 atanh(s) beyond 2 s, and of expm1(r) beyond r.
_TERMS = {32: (5, 7), 64: (10, 13)}
# The bits of sqrt(1/2), of 40, of 88.73 and 709.79, and the binary digits of the least number.
_SPLIT = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_FORTY = {32: 0x42200000, 64: 0x4044000000000000}
_LARGEST = {32: 0x42B175C3, 64: 0x40862E51EB851EB8}
_DEEPEST = {32: 149, 64: 1074}
# The bits of 2**100 and 2**-100.
_LARGE = {32: 0x71800000, 64: 0x4630000000000000}
_SMALL = {32: 0x0D800000, 64: 0x39B0000000000000}


def words(dtype: DType) -> dict[str, str]:
    """Return what replaces the words in capitals in the texts, for f32 or f64."""
    bits = dtype.bits
    signed = DType(f"i{bits}")
    logs, powers = _TERMS[bits]
    bias, stored = (127, 23) if bits == 32 else (1023, 52)
    return {
        "LOG_SERIES": ", ".join(f"2 / {2 * n + 1}" for n in range(logs, 0, -1)),
        "POWER_SERIES": ", ".join(f"1 / {math.factorial(n)}" for n in range(powers + 1, 1, -1)),
        "BITS_OF_SPLIT": signed.literal(_SPLIT[bits]),
        "BITS_OF_FORTY": signed.literal(_FORTY[bits]),
        "BITS_OF_LARGEST": signed.literal(_LARGEST[bits]),
        "BITS_OF_LARGE": signed.literal(_LARGE[bits]),
        "BITS_OF_SMALL": signed.literal(_SMALL[bits]),
        "BELOW_ALL": signed.literal((2 * bias + 1 << stored) - 2 ** (bits - 1)),
        "DEEPEST": signed.literal(_DEEPEST[bits]),
        "HALF_EXPONENT": signed.literal(bias - 1),
        "NATURAL": dtype.literal(math.log(2)),
        "DECIMAL": dtype.literal(math.log10(2)),
        "OF_TWO": dtype.literal(1 / math.log(2)),
        "OF_TEN": dtype.literal(1 / math.log(10)),
    }


_LOG = '''
@ti.func
def {name}(x):
    """Return the logarithm to the base {base}."""
    bits = ti.bit_cast(x, SIGNED)
    twos, digits = split_of(ti.select((bits > NO_BITS) & (bits < INFINITY), bits, BITS_OF_ONE))
    series = log_series_of((digits - ONE) / (digits + ONE))
    found = ti.bit_cast(twos{per_two} + series * {per_unit}, SIGNED)
    found = ti.select(bits == INFINITY, INFINITY, found)
    found = ti.select((bits & MAGNITUDE) == NO_BITS, BELOW_ALL, found)
    is_none = (bits > INFINITY) | ((bits < NO_BITS) & ((bits & MAGNITUDE) != NO_BITS))
    return ti.bit_cast(ti.select(is_none, NAN, found), DTYPE)
'''

TEXTS = {
    "log_series_of": '''
@ti.func
def log_series_of(s):
    """Return the logarithm of (1 + s)/(1 - s), where s is at most 0.172."""
    square = s * s
    series = ZERO
    for c in ti.static((LOG_SERIES,)):
        series = series * square + DTYPE(c)
    return s + s + s * square * series
''',
    "split_of": '''
@ti.func
def split_of(bits):
    """Return the power of 2 and the digits of a positive number of these bits."""
    # The least numbers, which a processor may take for 0, are counted.
    counted = ti.bit_cast(ti.cast(bits, DTYPE), SIGNED)
    is_least = bits < HIDDEN
    whole = ti.select(is_least, counted, bits)
    twos = (whole - BITS_OF_SPLIT) >> STORED
    digits = ti.bit_cast(whole - (twos << STORED), DTYPE)
    return ti.cast(twos - ti.select(is_least, DEEPEST, NO_BITS), DTYPE), digits
''',
    "log1p_of": '''
@ti.func
def log1p_of(x):
    """Return the logarithm of 1 + x, of small numbers to their last digit."""
    bits = ti.bit_cast(x, SIGNED)
    size = bits & MAGNITUDE
    is_below = (bits < NO_BITS) & (size >= BITS_OF_ONE)
    near = ti.bit_cast(ti.select(is_below | (size >= INFINITY), NO_BITS, bits), DTYPE)
    whole = ti.bit_cast(ONE + near, SIGNED)
    twos = (whole - BITS_OF_SPLIT) >> STORED
    digits = ti.bit_cast(whole - (twos << STORED), DTYPE)
    is_small = twos == NO_BITS
    above = ti.select(is_small, near, digits - ONE)
    slope = above / ti.select(is_small, TWO + near, digits + ONE)
    found = ti.bit_cast(ti.cast(twos, DTYPE) * NATURAL + log_series_of(slope), SIGNED)
    found = ti.select(bits == INFINITY, INFINITY, found)
    found = ti.select(is_below, ti.select(size == BITS_OF_ONE, BELOW_ALL, NAN), found)
    found = ti.select(size < BITS_OF_SMALL, bits, found)
    found = ti.select(size > INFINITY, NAN, found | (bits ^ size))
    return ti.bit_cast(found, DTYPE)
''',
    "log2_of": _LOG.format(name="log2_of", base=2, per_two="", per_unit="OF_TWO"),
    "log10_of": _LOG.format(name="log10_of", base=10, per_two=" * DECIMAL", per_unit="OF_TEN"),
    "asinh_of": '''
@ti.func
def asinh_of(x):
    """Return the inverse hyperbolic sine."""
    bits = ti.bit_cast(x, SIGNED) & MAGNITUDE
    size = ti.bit_cast(ti.min(bits, LAST), DTYPE)
    near = ti.bit_cast(ti.min(bits, FAR), DTYPE)
    square = near * near
    above = near + square / (ONE + ti.sqrt(ONE + square))
    is_near = bits < FAR
    value = log1p_of(ti.select(is_near, above, size)) + ti.select(is_near, ZERO, NATURAL)
    found = ti.select(bits >= INFINITY, bits, ti.bit_cast(value, SIGNED))
    return ti.bit_cast(found | (ti.bit_cast(x, SIGNED) ^ bits), DTYPE)
''',
    "acosh_of": '''
@ti.func
def acosh_of(x):
    """Return the inverse hyperbolic cosine."""
    bits = ti.bit_cast(x, SIGNED)
    inside = ti.max(bits, BITS_OF_ONE)
    size = ti.bit_cast(ti.min(inside, LAST), DTYPE)
    near = ti.bit_cast(ti.min(inside, FAR), DTYPE) - ONE
    above = near + ti.sqrt(near * (TWO + near))
    is_near = bits < FAR
    value = log1p_of(ti.select(is_near, above, size)) + ti.select(is_near, ZERO, NATURAL)
    found = ti.select(bits == INFINITY, INFINITY, ti.bit_cast(value, SIGNED))
    return ti.bit_cast(ti.select((bits < BITS_OF_ONE) | (bits > INFINITY), NAN, found), DTYPE)
''',
    "atanh_of": '''
@ti.func
def atanh_of(x):
    """Return the inverse hyperbolic tangent."""
    bits = ti.bit_cast(x, SIGNED) & MAGNITUDE
    size = ti.bit_cast(ti.select(bits < BITS_OF_ONE, bits, NO_BITS), DTYPE)
    found = ti.bit_cast(log1p_of((size + size) / (ONE - size)) * HALF, SIGNED)
    found = ti.select(bits < BITS_OF_ONE, found, ti.select(bits == BITS_OF_ONE, INFINITY, NAN))
    return ti.bit_cast(found | (ti.bit_cast(x, SIGNED) ^ bits), DTYPE)
''',
    "expm1_of": '''
@ti.func
def expm1_of(x):
    """Return the exponential less 1, of small numbers to their last digit."""
    bits = ti.bit_cast(x, SIGNED) & MAGNITUDE
    is_below = ti.bit_cast(x, SIGNED) < NO_BITS
    most = ti.select(is_below, BITS_OF_FORTY, BITS_OF_LARGEST)
    size = ti.bit_cast(ti.min(bits, most), DTYPE)
    twos = ti.cast(size * DTYPE(1.4426950408889634) + HALF, SIGNED)
    # Less a multiple of log(2), in integers: fast math would lose digits.
    units = ti.cast(size * DTYPE(PER_UNIT), SIGNED) - twos * LOG_TWO
    rest = ti.cast(units, DTYPE) * DTYPE(UNIT)
    rest -= ti.cast(twos, DTYPE) * DTYPE(MISSING)
    rest = ti.select(twos == NO_BITS, size, rest)
    rest = ti.select(is_below, -rest, rest)
    power = ZERO
    for c in ti.static((POWER_SERIES,)):
        power = power * rest + DTYPE(c)
    value = rest + rest * rest * power
    twos = ti.select(is_below, -twos, twos)
    # Half of the result, which is doubled by its bits: 2**128 is no number.
    half = ti.bit_cast((twos + HALF_EXPONENT) << STORED, DTYPE)
    found = ti.bit_cast(value * half + (half - HALF), SIGNED) + HIDDEN
    found = ti.select(twos == NO_BITS, ti.bit_cast(value, SIGNED), ti.min(found, INFINITY))
    found = ti.select((bits == INFINITY) & ~is_below, INFINITY, found)
    found = found | (ti.bit_cast(x, SIGNED) ^ bits)
    return ti.select(bits > INFINITY, x, ti.bit_cast(found, DTYPE))
''',
    "hypot_of": '''
@ti.func
def hypot_of(x, y):
    """Return the length of a vector, without squares that are too large or too small."""
    a, b = ti.bit_cast(x, SIGNED) & MAGNITUDE, ti.bit_cast(y, SIGNED) & MAGNITUDE
    high, low = ti.max(a, b), ti.min(a, b)
    is_finite = high < INFINITY
    scale = ti.select(high > BITS_OF_LARGE, DTYPE(2.0**-60), ONE)
    scale = ti.select(high < BITS_OF_SMALL, DTYPE(2.0**60), scale)
    large = ti.bit_cast(ti.select(is_finite, high, BITS_OF_ONE), DTYPE)
    small = ti.bit_cast(ti.select(is_finite, low, NO_BITS), DTYPE)
    whole = large * scale
    # GPUs take the least numbers for 0, too.
    ratio = (small * scale) / ti.select(whole == ZERO, ONE, whole)
    found = ti.bit_cast(large * ti.sqrt(ONE + ratio * ratio), SIGNED)
    is_infinite = (high == INFINITY) | (low == INFINITY)
    found = ti.select(is_finite, found, ti.select(is_infinite, INFINITY, NAN))
    return ti.bit_cast(found, DTYPE)
''',
}

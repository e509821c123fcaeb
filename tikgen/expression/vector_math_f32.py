"""Transcendental functions in f32 of which LLVM makes vectors, for loops of a processor.

They compute in f64, without a branch or a call. Results are within 0.6 units in the last place of
the exact ones, angles of points within 2.
"""

from __future__ import annotations

_TURNS = '''
@ti.func
def word_of(pairs: ti.template(), number, shift):
    """Return 32 bits from two words that follow each other."""
    found = pairs[4]
    for n in ti.static(range(4)):
        found = ti.select(number == n, pairs[n], found)
    return ti.bit_shr(found << shift, ti.u64(32))


@ti.func
def quarters_of(bits):
    """Return the quarter turns of an angle in units of 2**-62, modulo a turn.

    The digits are multiplied by those of 2 / pi that matter (Payne and Hanek 1983).
    """
    pairs = ti.static([
        ti.u64(0x00000000A2F9836E), ti.u64(0xA2F9836E4E441529), ti.u64(0x4E441529FC2757D1),
        ti.u64(0xFC2757D1F534DDC0), ti.u64(0xF534DDC0DB629599), ti.u64(0xDB6295993C439041),
        ti.u64(0x3C439041FE5163AB),
    ])
    digits = ti.cast(bits & 0x7FFFFF | 0x800000, ti.u64)
    place = (bits >> 23) - 120
    shift = ti.cast(place & 31, ti.u64)
    high = digits * word_of(pairs[:5], place >> 5, shift)
    middle = digits * word_of(pairs[1:6], place >> 5, shift)
    low = digits * word_of(pairs[2:], place >> 5, shift)
    return (high << ti.u64(32)) + middle + ti.bit_shr(low, ti.u64(32))


@ti.func
def turned_of(size):
    """Return what an angle has beyond the nearest quarter turn, as an f64, and how many."""
    is_small = size < ti.f32(0.5)
    quarters = quarters_of(ti.bit_cast(size, ti.i32)) + ti.u64(1 << 61)
    rest = ti.cast(quarters & ti.u64((1 << 62) - 1), ti.i64) - ti.i64(1 << 61)
    angle = ti.select(
        is_small, ti.cast(size, ti.f64), ti.cast(rest, ti.f64) * ti.f64(3.4061215800865545e-19)
    )
    return angle, ti.select(is_small, 0, ti.cast(ti.bit_shr(quarters, ti.u64(62)), ti.i32))


@ti.func
def sine_series(angle):
    """Return the sine of an angle of at most an eighth of a turn, an f64."""
    q = angle * angle
    sine = ti.f64(2.7557313621385722e-06)
    for c in ti.static((-0.00019841269829653785, 0.008333333333319589, -0.16666666666666632, 1.0)):
        sine = sine * q + ti.f64(c)
    return sine * angle


@ti.func
def cosine_series(angle):
    """Return the cosine of an angle of at most an eighth of a turn, an f64."""
    q = angle * angle
    cosine = ti.f64(-2.7557311937e-07)
    for c in ti.static(
        (2.48015872888517e-05, -0.001388888888885901, 0.04166666666666624, -0.5, 1.0)
    ):
        cosine = cosine * q + ti.f64(c)
    return cosine
'''
_WAVE = '''
@ti.func
def wave_of(size, ahead):
    """Return the sine of an angle that is not negative, and of some quarter turns besides."""
    angle, turn = turned_of(size)
    turn += ahead
    value = ti.cast(ti.select(turn & 1 == 0, sine_series(angle), cosine_series(angle)), ti.f32)
    value = ti.select(turn & 2 == 0, value, -value)
    is_none = ti.bit_cast(size, ti.i32) >= 0x7F800000
    return ti.select(is_none, ti.bit_cast(ti.i32(0x7FC00000), ti.f32), value)
'''
_SINE = '''
@ti.func
def sine_of(angle):
    """Return the sine of an f32, in a way that LLVM makes vectors of."""
    size = wave_of(ti.abs(angle), 0)
    sign = ti.bit_cast(angle, ti.i32) & ti.i32(-2147483648)
    return ti.bit_cast(ti.bit_cast(size, ti.i32) ^ sign, ti.f32)
'''
_COSINE = '''
@ti.func
def cosine_of(angle):
    """Return the cosine of an f32, in a way that LLVM makes vectors of."""
    return wave_of(ti.abs(angle), 1)
'''
_TANGENT = '''
@ti.func
def tangent_of(angle):
    """Return the tangent of an f32, in a way that LLVM makes vectors of."""
    bits = ti.bit_cast(angle, ti.i32) & 0x7FFFFFFF
    rest, turn = turned_of(ti.bit_cast(bits, ti.f32))
    sine, cosine = sine_series(rest), cosine_series(rest)
    is_odd = turn & 1 == 1
    value = ti.select(is_odd, -cosine, sine) / ti.select(is_odd, sine, cosine)
    found = ti.bit_cast(ti.cast(value, ti.f32), ti.i32) ^ ti.bit_cast(angle, ti.i32) ^ bits
    return ti.bit_cast(ti.select(bits >= 0x7F800000, 0x7FC00000, found), ti.f32)
'''
_WIDE_EXP = '''
@ti.func
def wide_exp_of(x):
    """Return the exponential of an f64 of at most 700, to 9 digits or more."""
    twos = x * ti.f64(1.4426950408889634)
    whole = ti.cast(twos + ti.select(twos < 0.0, ti.f64(-0.5), ti.f64(0.5)), ti.i32)
    rest = (twos - ti.cast(whole, ti.f64)) * ti.f64(0.6931471805599453)
    power = ti.f64(1 / 5040)
    for c in ti.static((1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)):
        power = power * rest + ti.f64(c)
    return power * ti.bit_cast(ti.cast(whole + 1023, ti.i64) << 52, ti.f64)
'''
_EXP = '''
@ti.func
def exp_of(x):
    """Return the exponential of an f32, in a way that LLVM makes vectors of."""
    # Beyond these numbers results are infinite or 0.
    near = ti.max(ti.min(x, ti.f32(89.0)), ti.f32(-104.0))
    is_nan = (ti.bit_cast(x, ti.i32) & 0x7FFFFFFF) > 0x7F800000
    return ti.select(is_nan, x, ti.cast(wide_exp_of(ti.cast(near, ti.f64)), ti.f32))
'''
_TANH = '''
@ti.func
def tanh_of(x):
    """Return the hyperbolic tangent of an f32, in a way that LLVM makes vectors of."""
    bits = ti.bit_cast(x, ti.i32) & 0x7FFFFFFF
    size = ti.cast(ti.min(ti.abs(x), ti.f32(10.0)), ti.f64)
    far = ti.f64(1.0) - ti.f64(2.0) / (wide_exp_of(size + size) + ti.f64(1.0))
    square = size * size
    near = size * (ti.f64(1.0) - square * (ti.f64(1 / 3) - square * ti.f64(2 / 15)))
    value = ti.cast(ti.select(bits < 0x3A800000, near, far), ti.f32)
    return ti.select(bits > 0x7F800000, x, ti.select(ti.bit_cast(x, ti.i32) < 0, -value, value))
'''
_DIGITS = '''
@ti.func
def digits_of(bits):
    """Return an f32 of these bits as digits from 0.7 to 1.42, an f64, and a power of 2."""
    # The digits of the least numbers, which a processor may take for 0.
    least = ti.cast(bits, ti.f64) * ti.f64(1.401298464324817e-45)
    usual = ti.cast(ti.bit_cast(bits, ti.f32), ti.f64)
    wide = ti.bit_cast(ti.select(bits < 0x800000, least, usual), ti.i64)
    twos = ti.cast(wide >> 52, ti.i32) - 1023
    digits = ti.bit_cast(wide & ti.i64((1 << 52) - 1) | ti.i64(1023 << 52), ti.f64)
    is_high = digits > ti.f64(1.4142135623730951)
    twos += ti.select(is_high, 1, 0)
    return digits * ti.select(is_high, ti.f64(0.5), ti.f64(1.0)), twos


@ti.func
def wide_log_of(bits):
    """Return the natural logarithm of a positive f32 of these bits as an f64, to 9 digits."""
    digits, twos = digits_of(bits)
    s = (digits - ti.f64(1.0)) / (digits + ti.f64(1.0))
    q = s * s
    series = ti.f64(2 / 13)
    for c in ti.static((2 / 11, 2 / 9, 2 / 7, 2 / 5, 2 / 3, 2.0)):
        series = series * q + ti.f64(c)
    return ti.cast(twos, ti.f64) * ti.f64(0.6931471805599453) + s * series
'''
_LOG = '''
@ti.func
def log_of(x):
    """Return the natural logarithm of an f32, in a way that LLVM makes vectors of."""
    bits = ti.bit_cast(x, ti.i32)
    value = ti.cast(wide_log_of(bits), ti.f32)
    value = ti.select(bits == 0x7F800000, x, value)
    value = ti.select((bits & 0x7FFFFFFF) == 0, ti.bit_cast(ti.i32(-8388608), ti.f32), value)
    is_nan = (bits > 0x7F800000) | ((bits < 0) & (bits != -2147483648))
    return ti.select(is_nan, ti.bit_cast(ti.i32(0x7FC00000), ti.f32), value)
'''
_POWER = '''
@ti.func
def power_of(base, exponent):
    """Return a power of an f32 that is not negative, in a way that LLVM makes vectors of."""
    bits = ti.bit_cast(base, ti.i32) & 0x7FFFFFFF
    power = ti.bit_cast(exponent, ti.i32) & 0x7FFFFFFF
    size = ti.cast(ti.bit_cast(ti.min(power, 0x5F000000), ti.f32), ti.f64)
    sign = ti.select(ti.bit_cast(exponent, ti.i32) < 0, ti.f64(-1.0), ti.f64(1.0))
    product = size * sign * wide_log_of(bits)
    near = ti.max(ti.min(product, ti.f64(89.0)), ti.f64(-104.0))
    value = ti.bit_cast(ti.cast(wide_exp_of(near), ti.f32), ti.i32)
    is_zero = bits == 0
    end = ti.select(is_zero == (sign < 0.0), 0x7F800000, 0)
    value = ti.select(is_zero | (bits == 0x7F800000), end, value)
    value = ti.select((power == 0) | (bits == 0x3F800000), 0x3F800000, value)
    is_nan = ((bits > 0x7F800000) & (power != 0)) | ((power > 0x7F800000) & (bits != 0x3F800000))
    return ti.bit_cast(ti.select(is_nan, 0x7FC00000, value), ti.f32)
'''
_ARC = '''
@ti.func
def arc_of(y, x):
    """Return the angle of a point that is not the origin, of two f32."""
    a, b = ti.bit_cast(y, ti.i32) & 0x7FFFFFFF, ti.bit_cast(x, ti.i32) & 0x7FFFFFFF
    low, high = ti.min(a, b), ti.max(a, b)
    # Of two infinities the quotient is 1, of one it is 0.
    low = ti.select((high == 0x7F800000) & (low != high), 0, low)
    last = 0x7F7FFFFF
    above = ti.cast(ti.bit_cast(ti.min(low, last), ti.f32), ti.f64)
    slope = ti.cast(above / ti.cast(ti.bit_cast(ti.min(high, last), ti.f32), ti.f64), ti.f32)
    angle = atan_of(slope)
    angle = ti.select(a > b, ti.f32(1.5707963267948966) - angle, angle)
    angle = ti.select(ti.bit_cast(x, ti.i32) < 0, ti.f32(3.141592653589793) - angle, angle)
    sign = ti.bit_cast(y, ti.i32) & ti.i32(-2147483648)
    return ti.bit_cast(ti.bit_cast(angle, ti.i32) ^ sign, ti.f32)
'''

# The function of each operation: its name, and the texts that define it.
FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sin": ("sine_of", (_TURNS, _WAVE, _SINE)),
    "cos": ("cosine_of", (_TURNS, _WAVE, _COSINE)),
    "tan": ("tangent_of", (_TURNS, _TANGENT)),
    "exp": ("exp_of", (_WIDE_EXP, _EXP)),
    "tanh": ("tanh_of", (_WIDE_EXP, _TANH)),
    "log": ("log_of", (_DIGITS, _LOG)),
    "pow": ("power_of", (_DIGITS, _WIDE_EXP, _POWER)),
    "atan2": ("arc_of", (_ARC,)),
}

"""Transcendental functions in f64 of which LLVM makes vectors, for loops of a processor.

They have no branch, no call, no table in memory and no conversion between f64 and i64, which few
processors do in vectors. No number in between is infinite or NaN. Fast math would join what must
be rounded apart: `kept_of` hides a number from it. Results are within 5 units in the last place of
the exact ones; sines of angles from 2**30 on within 2**-58 of them.
"""

from __future__ import annotations

_KEPT = '''
@ti.func
def kept_of(x, whole):
    """Return x, which fast math does not look into: the compiler cannot know that whole < 2**30."""
    nothing = ti.cast((whole + (1 << 30)) >> 31, ti.i64)
    return ti.bit_cast(ti.bit_cast(x, ti.i64) ^ nothing, ti.f64)
'''
_TURNS = '''
@ti.func
def far_quarters_of(bits):
    """Return the quarter turns of an angle of at least 2**30 in units of 2**-62, modulo a turn.

    The digits are multiplied by those of 2 / pi that matter (Payne and Hanek 1983).
    """
    words = ti.static([
        ti.u64(0x000000A2F9836E4E), ti.u64(0x441529FC2757D1F5), ti.u64(0x34DDC0DB6295993C),
        ti.u64(0x439041FE5163ABDE), ti.u64(0xBBC561B7246E3A42), ti.u64(0x4DD2E006492EEA09),
        ti.u64(0xD1921CFE1DEB1CB1), ti.u64(0x29A73EE88235F52E), ti.u64(0xBB4484E99C7026B4),
        ti.u64(0x5F7E413991D63983), ti.u64(0x5339F49C845F8BBD), ti.u64(0xF9283B1FF897FFDE),
        ti.u64(0x05980FEF2F118B5A), ti.u64(0x0A6D1F6D367ECF27), ti.u64(0xCB09B74F463F669E),
        ti.u64(0x5FEA2D7527BAC7EB), ti.u64(0xE5F17B3D0739F78A), ti.u64(0x5292EA6BFB5FB11F),
    ])
    place = ti.cast(ti.bit_shr(bits, ti.i64(52)), ti.i32) - (1023 + 30)
    # The words at a place and the two behind it, by halves, quarters and so on.
    by_8 = [ti.select(place & 512 != 0, words[n + 8], words[n]) for n in ti.static(range(10))]
    by_4 = [ti.select(place & 256 != 0, by_8[n + 4], by_8[n]) for n in ti.static(range(6))]
    by_2 = [ti.select(place & 128 != 0, by_4[n + 2], by_4[n]) for n in ti.static(range(4))]
    by_1 = [ti.select(place & 64 != 0, by_2[n + 1], by_2[n]) for n in ti.static(range(3))]
    shift = ti.cast(place & 63, ti.u64)
    back = ti.u64(63) - shift
    one = by_1[0] << shift | ti.bit_shr(ti.bit_shr(by_1[1], ti.u64(1)), back)
    two = by_1[1] << shift | ti.bit_shr(ti.bit_shr(by_1[2], ti.u64(1)), back)
    # Products of 32 bits by 32, which vectors have.
    digits = ti.cast(bits & ti.i64((1 << 52) - 1) | ti.i64(1 << 52), ti.u64)
    half, low = ti.u64(32), ti.u64(0xFFFFFFFF)
    d1, d0 = ti.bit_shr(digits, half), digits & low
    w3, w2 = ti.bit_shr(one, half), one & low
    w1, w0 = ti.bit_shr(two, half), two & low
    found = ((d0 * w3 + d1 * w2) << half) + d0 * w2 + d1 * w1
    return found + ti.bit_shr(d0 * w1, half) + ti.bit_shr(d1 * w0, half)


@ti.func
def turned_of(bits):
    """Return what an angle of these bits has beyond the nearest quarter turn, and how many."""
    is_far = bits >= ti.i64(0x41D0000000000000)
    size = ti.bit_cast(ti.select(is_far, ti.i64(0), bits), ti.f64)
    whole = ti.cast(size * ti.f64(0.6366197723675814) + ti.f64(0.5), ti.i32)
    # In three parts, of which two have few enough digits for exact products (Cody and Waite 1980).
    turns = ti.cast(whole, ti.f64)
    rest = kept_of(size - turns * ti.f64(1.570796012878418), whole)
    rest = kept_of(rest - turns * ti.f64(3.139164164167596e-07), whole)
    rest -= turns * ti.f64(6.223372171896613e-14)
    quarters = far_quarters_of(bits) + ti.u64(1 << 61)
    # As numbers from 2**52 on, whose last bits are these.
    lifted = ti.u64(0x4330000000000000)
    high = ti.bit_cast(ti.bit_shr(quarters, ti.u64(31)) & ti.u64(0x7FFFFFFF) | lifted, ti.f64)
    low = ti.bit_cast(quarters & ti.u64(0x7FFFFFFF) | lifted, ti.f64)
    high = kept_of(high - ti.f64(2.0**52 + 2.0**30), whole)
    low = kept_of(low - ti.f64(2.0**52), whole)
    angle = (high * ti.f64(2.0**31) + low) * ti.f64(3.4061215800865545e-19)
    far_turn = ti.cast(ti.bit_shr(quarters, ti.u64(62)), ti.i32)
    return ti.select(is_far, angle, rest), ti.select(is_far, far_turn, whole)


@ti.func
def sine_series(rest):
    """Return the sine of an angle of at most an eighth of a turn."""
    q = rest * rest
    sine = ti.f64(1.58969099521155e-10)
    for c in ti.static((
        -2.5050760253406863e-08, 2.7557313707070068e-06, -0.0001984126982985795,
        0.00833333333332249, -0.16666666666666632,
    )):
        sine = sine * q + ti.f64(c)
    return rest + rest * q * sine


@ti.func
def cosine_series(rest):
    """Return the cosine of an angle of at most an eighth of a turn."""
    q = rest * rest
    cosine = ti.f64(-1.1359647557788195e-11)
    for c in ti.static((
        2.087572321298175e-09, -2.7557314351390663e-07, 2.480158728947673e-05,
        -0.001388888888887411, 0.0416666666666666, -0.5, 1.0,
    )):
        cosine = cosine * q + ti.f64(c)
    return cosine
'''
_WAVE = '''
@ti.func
def wave_of(bits, ahead):
    """Return the bits of the sine of an angle of these bits, and of some quarter turns besides."""
    rest, turn = turned_of(bits)
    turn += ahead
    value = ti.select(turn & 1 == 0, sine_series(rest), cosine_series(rest))
    found = ti.bit_cast(value, ti.i64) ^ ti.cast(turn & 2, ti.i64) << 62
    return ti.select(bits >= ti.i64(0x7FF0000000000000), ti.i64(0x7FF8000000000000), found)
'''
_SINE = '''
@ti.func
def sine_of(angle):
    """Return the sine of an f64, in a way that LLVM makes vectors of."""
    sign = ti.bit_cast(angle, ti.i64) & ti.i64(-9223372036854775808)
    return ti.bit_cast(wave_of(ti.bit_cast(angle, ti.i64) ^ sign, 0) ^ sign, ti.f64)
'''
_COSINE = '''
@ti.func
def cosine_of(angle):
    """Return the cosine of an f64, in a way that LLVM makes vectors of."""
    return ti.bit_cast(wave_of(ti.bit_cast(angle, ti.i64) & ti.i64(0x7FFFFFFFFFFFFFFF), 1), ti.f64)
'''
_TANGENT = '''
@ti.func
def tangent_of(angle):
    """Return the tangent of an f64, in a way that LLVM makes vectors of."""
    sign = ti.bit_cast(angle, ti.i64) & ti.i64(-9223372036854775808)
    bits = ti.bit_cast(angle, ti.i64) ^ sign
    rest, turn = turned_of(bits)
    sine, cosine = sine_series(rest), cosine_series(rest)
    is_odd = turn & 1 == 1
    value = ti.select(is_odd, -cosine, sine) / ti.select(is_odd, sine, cosine)
    found = ti.bit_cast(value, ti.i64) ^ sign
    is_none = bits >= ti.i64(0x7FF0000000000000)
    return ti.bit_cast(ti.select(is_none, ti.i64(0x7FF8000000000000), found), ti.f64)
'''
_POWER_OF_TWO = '''
@ti.func
def raised_of(rest, whole):
    """Return the bits of exp(rest) * 2**whole, for |rest| < 0.36 and whole from -1100 to 1024."""
    power = ti.f64(2.51004110820149e-08)
    for c in ti.static((
        2.7620121717381933e-07, 2.7557268406190795e-06, 2.4801521225986432e-05,
        0.00019841269863088255, 0.0013888888917258759, 0.008333333333330055,
        0.04166666666662404, 0.16666666666666669, 0.5, 1.0, 1.0,
    )):
        power = power * rest + ti.f64(c)
    # What is less than the least normal number is multiplied by a power of 2 at the end.
    is_low = whole < -1000
    twos = ti.cast(whole + ti.select(is_low, 128, 0), ti.i64)
    found = ti.bit_cast(power, ti.i64) + (twos << 52)
    infinite = ti.i64(0x7FF0000000000000)
    is_infinite = found >= infinite
    number = ti.bit_cast(ti.select(is_infinite, ti.bit_cast(power, ti.i64), found), ti.f64)
    number *= ti.select(is_low, ti.f64(2.0**-128), ti.f64(1.0))
    return ti.select(is_infinite, infinite, ti.bit_cast(number, ti.i64))
'''
_EXP = '''
@ti.func
def exp_of(x):
    """Return the exponential of an f64, in a way that LLVM makes vectors of."""
    # Beyond these numbers results are infinite or 0.
    near = ti.max(ti.min(x, ti.f64(710.0)), ti.f64(-746.0))
    twos = near * ti.f64(1.4426950408889634)
    whole = ti.cast(twos + ti.select(twos < 0.0, ti.f64(-0.5), ti.f64(0.5)), ti.i32)
    # Less a multiple of log(2) in two parts, of which the first has an exact product.
    multiple = ti.cast(whole, ti.f64)
    rest = kept_of(near - multiple * ti.f64(0.6931471803691238), whole)
    rest -= multiple * ti.f64(1.9082149292705877e-10)
    value = ti.bit_cast(raised_of(rest, whole), ti.f64)
    bits = ti.bit_cast(x, ti.i64) & ti.i64(0x7FFFFFFFFFFFFFFF)
    return ti.select(bits > ti.i64(0x7FF0000000000000), x, value)
'''
_TANH = '''
@ti.func
def tanh_of(x):
    """Return the hyperbolic tangent of an f64, in a way that LLVM makes vectors of."""
    sign = ti.bit_cast(x, ti.i64) & ti.i64(-9223372036854775808)
    bits = ti.bit_cast(x, ti.i64) ^ sign
    size = ti.min(ti.bit_cast(bits, ti.f64), ti.f64(22.0))
    # Small numbers by a quotient of polynomials (Cody and Waite 1980).
    q = size * size
    above = (ti.f64(-0.9643991794250523) * q - ti.f64(99.28772310019185)) * q
    below = ((q + ti.f64(112.81167849163293)) * q + ti.f64(2235.4883906010045)) * q
    above, below = above - ti.f64(1614.6876844170845), below + ti.f64(4844.063053251255)
    near = size + size * q * (above / below)
    far = ti.f64(1.0) - ti.f64(2.0) / (exp_of(size + size) + ti.f64(1.0))
    value = ti.bit_cast(ti.select(size < ti.f64(0.625), near, far), ti.i64) | sign
    return ti.select(bits > ti.i64(0x7FF0000000000000), x, ti.bit_cast(value, ti.f64))
'''
_DIGITS = '''
@ti.func
def digits_of(bits):
    """Return a positive number of these bits as digits from 0.7 to 1.42 and a power of 2."""
    is_tiny = bits < ti.i64(1 << 52)
    # The digits of the least numbers, which a processor may take for 0.
    lifted = ti.bit_cast(bits & ti.i64((1 << 52) - 1) | ti.i64(0x4330000000000000), ti.f64)
    least = ti.bit_cast(lifted - ti.f64(2.0**52), ti.i64)
    wide = ti.select(is_tiny, least, bits)
    twos = ti.cast(ti.bit_shr(wide, ti.i64(52)), ti.i32) - ti.select(is_tiny, 1023 + 1074, 1023)
    digits = ti.bit_cast(wide & ti.i64((1 << 52) - 1) | ti.i64(1023 << 52), ti.f64)
    is_high = digits > ti.f64(1.4142135623730951)
    twos += ti.select(is_high, 1, 0)
    return digits * ti.select(is_high, ti.f64(0.5), ti.f64(1.0)), twos


@ti.func
def log_series(digits):
    """Return the natural logarithm of digits from 0.7 to 1.42."""
    f = digits - ti.f64(1.0)
    s = f / (digits + ti.f64(1.0))
    q = s * s
    series = ti.f64(0.14798198605116586)
    for c in ti.static((
        0.15313837699209373, 0.1818357216161805, 0.22222198432149784, 0.2857142874366239,
        0.3999999999940942, 0.6666666666666735,
    )):
        series = series * q + ti.f64(c)
    return f - s * (f - series * q)
'''
_LOG = '''
@ti.func
def log_of(x):
    """Return the natural logarithm of an f64, in a way that LLVM makes vectors of."""
    bits = ti.bit_cast(x, ti.i64)
    digits, twos = digits_of(bits)
    found = ti.cast(twos, ti.f64) * ti.f64(0.6931471805599453) + log_series(digits)
    value = ti.bit_cast(found, ti.i64)
    value = ti.select(bits == ti.i64(0x7FF0000000000000), bits, value)
    is_nan = (bits > ti.i64(0x7FF0000000000000)) | (bits < 0)
    value = ti.select(is_nan, ti.i64(0x7FF8000000000000), value)
    is_zero = bits & ti.i64(0x7FFFFFFFFFFFFFFF) == 0
    return ti.bit_cast(ti.select(is_zero, ti.i64(-4503599627370496), value), ti.f64)
'''
_POWER = '''
@ti.func
def few_of(x):
    """Return the first 26 digits of an f64: the product of two such numbers is exact."""
    return ti.bit_cast(ti.bit_cast(x, ti.i64) & ti.i64(-(1 << 27)), ti.f64)


@ti.func
def power_of(base, exponent):
    """Return a power of an f64 that is not negative, in a way that LLVM makes vectors of."""
    sizes, one, infinite = ti.i64(0x7FFFFFFFFFFFFFFF), ti.i64(1023 << 52), ti.i64(2047 << 52)
    bits = ti.bit_cast(base, ti.i64) & sizes
    power = ti.bit_cast(exponent, ti.i64) & sizes
    size = ti.bit_cast(ti.min(power, ti.i64(0x43D0000000000000)), ti.f64)
    digits, twos = digits_of(bits)
    # 0 or 1, which the compiler cannot know.
    unknown = ti.cast(ti.min(size, ti.f64(1.0)) * digits, ti.i32)
    # The logarithm in base 2 in three parts: twos, a number of 52 digits, and what it lacks.
    f = digits - ti.f64(1.0)
    below = digits + ti.f64(1.0)
    below_few = few_of(below)
    s = few_of(f / below)
    left = kept_of(f - s * below_few, unknown)
    left = (left - s * (digits - kept_of(below_few - ti.f64(1.0), unknown))) / below
    q = (s + left) * (s + left)
    series = ti.f64(0.1308723619665962)
    for c in ti.static((
        0.13268714792348096, 0.15386241881938595, 0.18181795600060793, 0.22222222392089008,
        0.28571428570801954, 0.4000000000000088, 0.6666666666666666,
    )):
        series = series * q + ti.f64(c)
    left = (left + left + (s + left) * q * series) * ti.f64(1.4426950408889634)
    left += s * ti.f64(3.851925982253235e-08)
    middle = kept_of(s * ti.f64(2.885390043258667), unknown)
    # Times the exponent, in parts again.
    whole = ti.cast(twos, ti.f64)
    log = few_of(whole + middle + left)
    left += kept_of(kept_of(whole - log, unknown) + middle, unknown)
    sign = ti.select(ti.bit_cast(exponent, ti.i64) < 0, ti.f64(-1.0), ti.f64(1.0))
    product = kept_of(few_of(size) * log, unknown) * sign
    more = ((size - few_of(size)) * log + size * left) * sign
    is_over, is_under = product > ti.f64(1024.25), product < ti.f64(-1100.0)
    is_beyond = is_over | is_under
    product = ti.select(is_beyond, ti.f64(0.0), product)
    more = ti.select(is_beyond, ti.f64(0.0), more)
    twos = ti.cast(product + ti.select(product < 0.0, ti.f64(-0.5), ti.f64(0.5)), ti.i32)
    rest = kept_of(product - ti.cast(twos, ti.f64), twos) + more
    value = raised_of(rest * ti.f64(0.6931471805599453), twos)
    value = ti.select(is_over, infinite, ti.select(is_under, ti.i64(0), value))
    is_zero = bits == 0
    end = ti.select(is_zero == (sign < 0.0), infinite, ti.i64(0))
    value = ti.select(is_zero | (bits == infinite), end, value)
    value = ti.select((power == 0) | (bits == one), one, value)
    is_nan = ((bits > infinite) & (power != 0)) | ((power > infinite) & (bits != one))
    return ti.bit_cast(ti.select(is_nan, ti.i64(0x7FF8000000000000), value), ti.f64)
'''
_ARC = '''
@ti.func
def arc_of(y, x):
    """Return the angle of a point that is not the origin, of two f64."""
    sizes, infinite, last = ti.i64(0x7FFFFFFFFFFFFFFF), ti.i64(2047 << 52), ti.i64((2047 << 52) - 1)
    a, b = ti.bit_cast(y, ti.i64) & sizes, ti.bit_cast(x, ti.i64) & sizes
    low, high = ti.min(a, b), ti.max(a, b)
    # Of two infinities the quotient is 1, of one it is 0.
    low = ti.select((high == infinite) & (low != high), ti.i64(0), low)
    above = ti.bit_cast(ti.min(low, last), ti.f64)
    angle = atan_of(above / ti.bit_cast(ti.min(high, last), ti.f64))
    angle = ti.select(a > b, ti.f64(1.5707963267948966) - angle, angle)
    angle = ti.select(ti.bit_cast(x, ti.i64) < 0, ti.f64(3.141592653589793) - angle, angle)
    sign = ti.bit_cast(y, ti.i64) & ti.i64(-9223372036854775808)
    return ti.bit_cast(ti.bit_cast(angle, ti.i64) ^ sign, ti.f64)
'''
_ARC_SINE = '''
@ti.func
def arc_sine_of(x):
    """Return the arc sine of an f64, in a way that LLVM makes vectors of."""
    square = ti.max((ti.f64(1.0) - x) * (ti.f64(1.0) + x), ti.f64(0.0))
    angle = ti.bit_cast(arc_of(x, ti.sqrt(square)), ti.i64)
    is_none = ti.bit_cast(x, ti.i64) & ti.i64(0x7FFFFFFFFFFFFFFF) > ti.i64(1023 << 52)
    return ti.bit_cast(ti.select(is_none, ti.i64(0x7FF8000000000000), angle), ti.f64)
'''
_ARC_COSINE = '''
@ti.func
def arc_cosine_of(x):
    """Return the arc cosine of an f64, in a way that LLVM makes vectors of."""
    square = ti.max((ti.f64(1.0) - x) * (ti.f64(1.0) + x), ti.f64(0.0))
    angle = ti.bit_cast(arc_of(ti.sqrt(square), x), ti.i64)
    is_none = ti.bit_cast(x, ti.i64) & ti.i64(0x7FFFFFFFFFFFFFFF) > ti.i64(1023 << 52)
    return ti.bit_cast(ti.select(is_none, ti.i64(0x7FF8000000000000), angle), ti.f64)
'''
# The function of each operation: its name, and the texts that define it.
FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sin": ("sine_of", (_KEPT, _TURNS, _WAVE, _SINE)),
    "cos": ("cosine_of", (_KEPT, _TURNS, _WAVE, _COSINE)),
    "tan": ("tangent_of", (_KEPT, _TURNS, _TANGENT)),
    "exp": ("exp_of", (_KEPT, _POWER_OF_TWO, _EXP)),
    "tanh": ("tanh_of", (_KEPT, _POWER_OF_TWO, _EXP, _TANH)),
    "log": ("log_of", (_DIGITS, _LOG)),
    "pow": ("power_of", (_KEPT, _POWER_OF_TWO, _DIGITS, _POWER)),
    "atan2": ("arc_of", (_ARC,)),
    "asin": ("arc_sine_of", (_ARC, _ARC_SINE)),
    "acos": ("arc_cosine_of", (_ARC, _ARC_COSINE)),
}

"""Transcendental functions in f32 of which LLVM makes vectors, for loops of a processor.

Taichi calls the C library for one number at a time, and a loop with such a call is not vectorised:
a sine took 8 ns, and takes 1.7. Results are within 0.6 units in the last place of the exact ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tikgen.dtypes import DType
from tikgen.expression import polynomials
from tikgen.expression.tree import Node

# Each function of Taichi and that which takes its place.
_IN_VECTORS = {
    "sin": "sine_of",
    "cos": "cosine_of",
    "exp": "exp_of",
    "log": "log_of",
    "tanh": "tanh_of",
}
_CALL = re.compile(rf"\bti\.({'|'.join(_IN_VECTORS)})\(")

_WAVE = '''
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
def wave_of(size, ahead):
    """Return the sine of an angle that is not negative, and of some quarter turns besides."""
    bits = ti.bit_cast(size, ti.i32)
    is_small = size < ti.f32(0.5)
    # To the nearest quarter turn.
    quarters = quarters_of(bits) + ti.u64(1 << 61)
    rest = ti.cast(quarters & ti.u64((1 << 62) - 1), ti.i64) - ti.i64(1 << 61)
    turn = ahead + ti.select(is_small, 0, ti.cast(ti.bit_shr(quarters, ti.u64(62)), ti.i32))
    angle = ti.select(
        is_small, ti.cast(size, ti.f64), ti.cast(rest, ti.f64) * ti.f64(3.4061215800865545e-19)
    )
    q = angle * angle
    sine = ti.f64(2.7557313621385722e-06)
    for c in ti.static((-0.00019841269828653785, 0.008333333333319589, -0.16666666666666632, 1.0)):
        sine = sine * q + ti.f64(c)
    cosine = ti.f64(-2.7557311937e-07)
    for c in ti.static(
        (2.48015872888517e-05, -0.001388888888885901, 0.04166666666666624, -0.5, 1.0)
    ):
        cosine = cosine * q + ti.f64(c)
    value = ti.cast(ti.select(turn & 1 == 0, sine * angle, cosine), ti.f32)
    value = ti.select(turn & 2 == 0, value, -value)
    return ti.select(bits >= 0x7F800000, ti.bit_cast(ti.i32(0x7FC00000), ti.f32), value)
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
_POWER = '''
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
_LOG = '''
@ti.func
def log_of(x):
    """Return the natural logarithm of an f32, in a way that LLVM makes vectors of."""
    bits = ti.bit_cast(x, ti.i32)
    # The digits of the least numbers, which a processor may take for 0.
    least = ti.cast(bits, ti.f64) * ti.f64(1.401298464324817e-45)
    wide = ti.bit_cast(ti.select(bits < 0x800000, least, ti.cast(x, ti.f64)), ti.i64)
    twos = ti.cast(wide >> 52, ti.i32) - 1023
    digits = ti.bit_cast(wide & ti.i64((1 << 52) - 1) | ti.i64(1023 << 52), ti.f64)
    is_high = digits > ti.f64(1.4142135623730951)
    twos += ti.select(is_high, 1, 0)
    digits *= ti.select(is_high, ti.f64(0.5), ti.f64(1.0))
    s = (digits - ti.f64(1.0)) / (digits + ti.f64(1.0))
    q = s * s
    series = ti.f64(2 / 13)
    for c in ti.static((2 / 11, 2 / 9, 2 / 7, 2 / 5, 2 / 3, 2.0)):
        series = series * q + ti.f64(c)
    value = ti.cast(ti.cast(twos, ti.f64) * ti.f64(0.6931471805599453) + s * series, ti.f32)
    value = ti.select(bits == 0x7F800000, x, value)
    value = ti.select((bits & 0x7FFFFFFF) == 0, ti.bit_cast(ti.i32(-8388608), ti.f32), value)
    is_nan = (bits > 0x7F800000) | ((bits < 0) & (bits != -2147483648))
    return ti.select(is_nan, ti.bit_cast(ti.i32(0x7FC00000), ti.f32), value)
'''
_TEXTS = {
    "sine_of": (_WAVE, _SINE),
    "cosine_of": (_WAVE, _COSINE),
    "exp_of": (_POWER, _EXP),
    "tanh_of": (_POWER, _TANH),
    "log_of": (_LOG,),
}
NAMES = frozenset({*_TEXTS, "word_of", "quarters_of", "wave_of", "wide_exp_of"})
VECTORISED = frozenset(_IN_VECTORS)


def vectorised(functions: frozenset[str], dtype: DType) -> frozenset[str]:
    """Return those of some functions that LLVM makes vectors of in a dtype."""
    in_vectors = VECTORISED.union(polynomials.OWN)
    return in_vectors & functions if dtype.computed is DType.f32 else frozenset()


def in_vectors(code: str, dtype: DType) -> str:
    """Return the code of an expression in a dtype with calls that LLVM makes vectors of."""
    if not vectorised(VECTORISED, dtype):
        return code
    return _CALL.sub(lambda call: f"{_IN_VECTORS[call[1]]}(", code)


def vector_functions(nodes: Iterable[Node], dtype: DType) -> str:
    """Return the definitions of each ``ti.func`` that the code of nodes calls in vectors."""
    used = vectorised(frozenset[str]().union(*(node.kinds for node in nodes)), dtype)
    needed = [own for name, own in _IN_VECTORS.items() if name in used]
    texts = dict.fromkeys(text.strip() for own in needed for text in _TEXTS[own])
    return "\n\n\n".join(texts)

"""The functions that the Taichi code of expressions calls, and the operations that need them."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable

from tikgen.dtypes import DType
from tikgen.expression import logarithms, polynomials
from tikgen.expression.tree import SHIFTS, Node

_OWN = {"round": "round_half_even", "sign": "sign_of", "atan2": "angle_of"}
_OWN |= polynomials.OWN | logarithms.OWN
# What functions call, in the order in which it is defined.
_CALLED = {name: (called,) for name, called in polynomials.CALLED.items()} | logarithms.CALLED
_CALLED |= dict.fromkeys(("floor_divide", "remainder"), ("truncated_remainder",))
_FIRST = ("truncated_remainder", "half_exp_of", "log_series_of", "split_of", "log1p_of")
# Operations that some dtypes compute in a function.
_HELPED = frozenset({"//", "%", "**", "pow", "abs", *SHIFTS, *_OWN})


def helper_of(node: Node, dtype: DType) -> str:
    """Return the name of the function that computes ``node`` in ``dtype``, or an empty string."""
    if node.op in ("//", "%"):
        if is_power_of_two(node.args[1], dtype):
            return ""
        return "floor_divide" if node.op == "//" else "remainder"
    if node.op == "**":
        if dtype.is_float and node.whole_exponent is not None:
            # A power of a power kills the process within Taichi.
            return "whole_power" if node.args[0].op == "**" else ""
        if dtype.is_float:
            return "" if is_positive(node.args[0]) else "power"
        return "whole_power"
    if node.op in SHIFTS:
        if node.args[1].op == "number" and dtype.bits >= 32:
            return ""
        return "shifted_left" if node.op == "<<" else "shifted_right"
    if node.op == "abs" and dtype.is_signed and not dtype.is_float:
        return "abs_of"
    return _OWN.get(node.op, "")


def is_positive(node: Node) -> bool:
    """Return whether the tree is a finite literal above 0."""
    return node.op == "constant" or (node.op == "number" and 0 < float(node.value) < float("inf"))


def is_power_of_two(node: Node, dtype: DType) -> bool:
    """Return whether the tree is a float literal with exact quotients."""
    if not dtype.is_float or node.op != "number":
        return False
    value = abs(float(node.value))
    return 2**-64 <= value <= 2**64 and value.hex().startswith("0x1.0000000000000p")


def helper_functions(nodes: Iterable[Node], dtype: DType) -> str:
    """Return the definitions of each ``ti.func`` that the Taichi code of ``nodes`` calls."""
    nodes = list(nodes)
    is_widened = dtype.computed is not dtype and any(node.args and node.names for node in nodes)
    dtype = dtype.computed
    helped = (node for node in nodes if not _HELPED.isdisjoint(node.kinds))
    needed = {helper_of(part, dtype) for node in helped for part in node.nodes} - {""}
    needed |= {"widened"} if is_widened else set()
    if dtype.is_float:
        needed = needed.union(*(_CALLED.get(name, ()) for name in needed))
    replaced = _float_words(dtype) if dtype.is_float else _integer_words(dtype)
    # Functions that others call come first.
    order = [name for name in _FIRST if name in needed] + sorted(needed.difference(_FIRST))
    return "\n\n\n".join(
        re.sub(r"\b[A-Z_]+\b", lambda word: replaced.get(word[0], word[0]), _text(name, dtype))
        for name in order
    )


def _text(name: str, dtype: DType) -> str:
    texts = _FLOAT if dtype.is_float else _SIGNED if dtype.is_signed else _UNSIGNED
    return (texts.get(name) or _BOTH[name]).strip()


@functools.cache
def _integer_words(dtype: DType) -> dict[str, str]:
    working = dtype.working
    words = {"DTYPE": dtype.taichi, "WORKING": working.taichi}
    words |= {"MINUS": working.literal(-1)} if working.is_signed else {}
    # One more place than the last shift gives 0, or -1 for negative numbers.
    shifted = "n >> ti.select(is_within, count, LAST_BIT)"
    beyond = shifted if dtype.is_signed else f"ti.select(is_within, {shifted}, ZERO)"
    words["BEYOND"] = beyond.replace("LAST_BIT", working.literal(dtype.bits - 1)).replace(
        "ZERO", working.literal(0)
    )
    words |= {"LEAST": working.literal(int(dtype.lowest))} if dtype.is_signed else {}
    return words | {
        "NOTHING": dtype.literal(0),
        "ZERO": working.literal(0),
        "ONE": working.literal(1),
        "WIDTH": working.literal(dtype.bits),
    }


@functools.cache
def _float_words(dtype: DType) -> dict[str, str]:
    bits, stored = dtype.bits, {32: 23, 64: 52}[dtype.bits]
    signed = DType(f"i{bits}")
    bias = 127 if bits == 32 else 1023
    infinity = (2 * bias + 1) << stored
    return {
        "DTYPE": dtype.taichi,
        "WORKING": dtype.taichi,
        "NOTHING": dtype.literal(0),
        "SIGNED": signed.taichi,
        "UNSIGNED": f"ti.u{bits}",
        "MAGNITUDE": signed.literal(2 ** (bits - 1) - 1),
        "INFINITY": signed.literal(infinity),
        "NAN": signed.literal(infinity | 1 << (stored - 1)),
        "HIDDEN": signed.literal(1 << stored),
        "FRACTION": signed.literal((1 << stored) - 1),
        "STORED": signed.literal(stored),
        "ROOM": signed.literal(bits - stored - 1),
        "LIFT": signed.literal(bias + stored),
        "NO_BITS": signed.literal(0),
        "NO_UNITS": DType(f"u{bits}").literal(0),
        "ONE_BIT": signed.literal(1),
        "PI": dtype.literal(math.pi),
        "HALF": dtype.literal(0.5),
        "ZERO": dtype.literal(0),
        "ONE": dtype.literal(1),
        "TWO": dtype.literal(2),
        **polynomials.words(dtype),
        **logarithms.words(dtype),
    }


# Taichi folds // and % of constants wrongly, but raw_div correctly. A zero divisor, or the least
# integer divided by -1, would kill the process on cpu.
_SIGNED = {
    "floor_divide": '''
@ti.func
def floor_divide(a, b):
    """Divide and round down; give 0 for a divisor of 0, and wrap around, as NumPy does."""
    n, d = ti.cast(a, WORKING), ti.cast(b, WORKING)
    safe = ti.select((d == ZERO) | (d == MINUS), ONE, d)
    quotient = ti.raw_div(n, safe)
    rest = n - quotient * safe
    quotient -= ti.cast((rest != ZERO) & ((rest ^ safe) < ZERO), WORKING)
    quotient = ti.select(d == MINUS, -n, quotient)
    return ti.cast(ti.select(d == ZERO, ZERO, quotient), DTYPE)
''',
    "remainder": '''
@ti.func
def remainder(a, b):
    """Return what is left after dividing and rounding down; 0 for a divisor of 0."""
    n, d = ti.cast(a, WORKING), ti.cast(b, WORKING)
    safe = ti.select((d == ZERO) | (d == MINUS), ONE, d)
    rest = n - ti.raw_div(n, safe) * safe
    rest += ti.select((rest != ZERO) & ((rest ^ safe) < ZERO), safe, ZERO)
    return ti.cast(rest, DTYPE)
''',
    "abs_of": '''
@ti.func
def abs_of(x):
    """Return the magnitude; the least integer has none, and stays, as in NumPy."""
    n = ti.cast(x, WORKING)
    return ti.cast(ti.select((n <= MINUS) & (n != LEAST), -n, n), DTYPE)
''',
}
_UNSIGNED = {
    "floor_divide": '''
@ti.func
def floor_divide(a, b):
    """Divide and round down; give 0 for a divisor of 0, as NumPy does."""
    n, d = ti.cast(a, WORKING), ti.cast(b, WORKING)
    quotient = ti.raw_div(n, ti.select(d == ZERO, ONE, d))
    return ti.cast(ti.select(d == ZERO, ZERO, quotient), DTYPE)
''',
    "remainder": '''
@ti.func
def remainder(a, b):
    """Return what is left after dividing; 0 for a divisor of 0."""
    n, d = ti.cast(a, WORKING), ti.cast(b, WORKING)
    safe = ti.select(d == ZERO, ONE, d)
    return ti.cast(n - ti.raw_div(n, safe) * safe, DTYPE)
''',
}
_BOTH = {
    "sign_of": '''
@ti.func
def sign_of(x):
    """Return 1, 0 or -1."""
    return ti.cast(x > NOTHING, DTYPE) - ti.cast(x < NOTHING, DTYPE)
''',
    # No processor and no compiler says what a shift beyond the width gives.
    "shifted_left": '''
@ti.func
def shifted_left(a, b):
    """Shift bits to the left; a count that is negative or beyond the width gives 0, as in NumPy."""
    n, count = ti.cast(a, WORKING), ti.cast(b, WORKING)
    is_within = (count >= ZERO) & (count < WIDTH)
    return ti.cast(ti.select(is_within, n << ti.select(is_within, count, ZERO), ZERO), DTYPE)
''',
    "shifted_right": '''
@ti.func
def shifted_right(a, b):
    """Shift bits to the right; beyond the width all become the sign bit, as in NumPy."""
    n, count = ti.cast(a, WORKING), ti.cast(b, WORKING)
    is_within = (count >= ZERO) & (count < WIDTH)
    return ti.cast(BEYOND, DTYPE)
''',
    # Taichi folds powers of the constants that it finds in double precision.
    "whole_power": '''
@ti.func
def whole_power(base, exponent: ti.template()):
    """Multiply out a power; integers wrap around."""
    result = ONE
    square = ti.cast(base, WORKING)
    for bit in ti.static(range(7)):
        if ti.static(exponent >> bit & 1):
            result *= square
        square *= square
    return ti.cast(result, DTYPE)
''',
}
_OWN_TEXTS = polynomials.TEXTS | logarithms.TEXTS
_FLOAT = _OWN_TEXTS | {
    # Fast math may take the last comparisons for true, and NaN gives 0. Taichi folds x == x always.
    "sign_of": '''
@ti.func
def sign_of(x):
    """Return 1, 0 or -1, and NaN for NaN."""
    sign = ti.cast(x > NOTHING, DTYPE) - ti.cast(x < NOTHING, DTYPE)
    return ti.select((x <= NOTHING) | (x >= NOTHING), sign, x)
''',
    # Whole numbers of units in the last place have an exact remainder, also with fast math.
    "truncated_remainder": '''
@ti.func
def truncated_remainder(x, y):
    """Return x less a whole multiple of y, with the sign of x, exactly (C's fmod)."""
    a = ti.bit_cast(x, SIGNED) & MAGNITUDE
    b = ti.bit_cast(y, SIGNED) & MAGNITUDE
    rest = x
    if (b == NO_BITS) | (a >= INFINITY) | (b > INFINITY):
        rest = ti.bit_cast(NAN, DTYPE)
    elif a >= b:
        low = ti.max(b >> STORED, ONE_BIT)
        distance = ti.max(a >> STORED, ONE_BIT) - low
        n, d = a & FRACTION, b & FRACTION
        units = ti.cast(ti.select(a >= HIDDEN, n | HIDDEN, n), UNSIGNED)
        divisor = ti.cast(ti.select(b >= HIDDEN, d | HIDDEN, d), UNSIGNED)
        units = units - ti.raw_div(units, divisor) * divisor
        while distance > NO_BITS:
            step = ti.min(distance, ROOM)
            units = units << ti.cast(step, UNSIGNED)
            units = units - ti.raw_div(units, divisor) * divisor
            distance -= step
        # To a number by its digits, as a product may become one with a power that counts as 0.
        size = ti.bit_cast(ti.cast(units, DTYPE), SIGNED)
        if units == NO_UNITS:
            size = NO_BITS
        elif (size >> STORED) + low > LIFT:
            size += (low - LIFT) << STORED
        else:
            size = ti.cast(units, SIGNED) << (low - ONE_BIT)
        rest = ti.bit_cast(size | (ti.bit_cast(x, SIGNED) ^ a), DTYPE)
    return rest
''',
    "remainder": '''
@ti.func
def remainder(x, y):
    """Return what is left after dividing and rounding down, exactly, as NumPy does."""
    rest = truncated_remainder(x, y)
    bits = ti.bit_cast(rest, SIGNED)
    if ((bits & MAGNITUDE) != NO_BITS) & ((bits ^ ti.bit_cast(y, SIGNED)) < NO_BITS):
        rest += y
    return rest
''',
    # The archs round halves differently, but the quotient lies next to a whole number.
    "floor_divide": '''
@ti.func
def floor_divide(x, y):
    """Divide exactly and round down, as NumPy does."""
    rest = truncated_remainder(x, y)
    bits = ti.bit_cast(rest, SIGNED)
    quotient = (x - rest) / y
    if ((bits & MAGNITUDE) != NO_BITS) & ((bits ^ ti.bit_cast(y, SIGNED)) < NO_BITS):
        quotient -= ONE
    return ti.select(y == ZERO, x / y, ti.round(quotient))
''',
    # LLVM would compare halves, which kills the process on processors with AVX-512 and without
    # arithmetic of halves.
    "widened": '''
@ti.func
def widened(x):
    """Return an f16 as an f32, whose last 13 bits are 0, in a way that the compiler keeps."""
    return ti.bit_cast(ti.bit_cast(ti.cast(x, ti.f32), ti.i32) & ti.i32(-8192), ti.f32)
''',
    # On vulkan ti.pow gives NaN for a base below 0, and for 0 ** 0; 0 for negative powers of 0.
    "power": '''
@ti.func
def power(base, exponent):
    """Raise to a power; only whole powers of negative numbers are numbers, as in NumPy."""
    size = ti.pow(ti.abs(base), exponent)
    half = exponent * HALF
    is_odd = (ti.floor(exponent) == exponent) & (ti.floor(half) != half)
    is_even = ti.floor(half) == half
    result = ti.select(is_odd, -size, ti.select(is_even, size, ti.sqrt(base)))
    result = ti.select(base < ZERO, result, size)
    result = ti.select((base == ZERO) & (exponent < ZERO), ONE / ti.abs(base), result)
    return ti.select(exponent == ZERO, ONE, result)
''',
    # Taichi rounds halves to even on some archs and away from zero on others.
    "round_half_even": '''
@ti.func
def round_half_even(x):
    """Round to the nearest whole number, halves to the even one."""
    low = ti.floor(x)
    rest = x - low
    is_odd = low - TWO * ti.floor(low * HALF) == ONE
    return ti.select((rest > HALF) | ((rest == HALF) & is_odd), low + ONE, low)
''',
    # Vulkan differs in the angle of the origin, and of NaN and infinity.
    "angle_of": '''
@ti.func
def angle_of(y, x):
    """Return the angle of a point, that of the origin by the signs of its zeros, as in NumPy."""
    is_origin = (x == ZERO) & (y == ZERO)
    size = ti.select(ti.bit_cast(x, SIGNED) < NO_BITS, PI, ZERO)
    at_origin = ti.select(ti.bit_cast(y, SIGNED) < NO_BITS, -size, size)
    angle = ti.select(is_origin, at_origin, ti.atan2(y, ti.select(is_origin, ONE, x)))
    return ti.select(ti.math.isnan(x) | ti.math.isnan(y), x + y, angle)
''',
}
HELPERS = frozenset({*_SIGNED, *_UNSIGNED, *_BOTH, *_FLOAT})


def definition(name: str, dtype: DType) -> str:
    """Return the definition of one ``ti.func`` for a float dtype."""
    replaced = _float_words(dtype)
    text = _text(name, dtype)
    return re.sub(r"\b[A-Z_]+\b", lambda word: replaced.get(word[0], word[0]), text)

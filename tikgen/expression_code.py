"""Prints the tree of an expression: as canonical text, as NumPy code and as Taichi code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from tikgen.dtypes import DType
from tikgen.expression_tree import COMPARISONS, CONSTANTS, Node

# How tightly each operation binds, as in Python's grammar.
_OR, _AND, _NOT, _COMPARE = 1, 2, 3, 4
_BIT_OR, _BIT_AND, _ADD, _MULTIPLY, _UNARY, _POWER, _ATOM = 5, 6, 7, 8, 9, 10, 11
_BINDING = {"or": _OR, "and": _AND, "not": _NOT, "neg": _UNARY, "**": _POWER}
_BINDING |= dict.fromkeys(COMPARISONS, _COMPARE)
_BINDING |= dict.fromkeys("+-", _ADD) | dict.fromkeys(("*", "/", "//", "%"), _MULTIPLY)

# A piece of code, and how tightly its outermost operation binds.
Piece = tuple[str, int]


class Code:
    """Prints Python with as few parentheses as it takes; subclasses change what differs."""

    def number(self, node: Node) -> str:
        """Return code for the whole tree."""
        return self.piece(node)[0]

    def piece(self, node: Node) -> Piece:
        """Return code for the tree, and how tightly it binds."""
        if node.op == "name":
            return str(node.value), _ATOM
        if node.op == "constant":
            return str(node.value), _ATOM
        if node.op == "number":
            return repr(node.value), _UNARY if str(node.value)[0] == "-" else _ATOM
        if node.op == "cast":
            return self.piece(node.args[0])
        if node.op == "neg":
            return "-" + self.inside(node.args[0], _UNARY), _UNARY
        if node.op == "not":
            return "not " + self.inside(node.args[0], _NOT), _NOT
        if node.op in _BINDING:
            return self.infix(node, node.op, _BINDING[node.op])
        return self.call(node.op, node)

    def infix(self, node: Node, symbol: str, binding: int) -> Piece:
        """Return code for an operator between two operands."""
        # Operators group to the left, ** to the right, and comparisons must not chain.
        left = binding + (binding in (_POWER, _COMPARE))
        right = _UNARY if binding == _POWER else binding + 1
        first, second = self.inside(node.args[0], left), self.inside(node.args[1], right)
        return f"{first} {symbol} {second}", binding

    def inside(self, node: Node, binding: int) -> str:
        """Return code for an operand, in parentheses where it binds less than ``binding``."""
        text, own = self.piece(node)
        return text if own >= binding else f"({text})"

    def call(self, function: str, node: Node) -> Piece:
        """Return code for a call on the operands of ``node``."""
        return f"{function}({', '.join(self.number(arg) for arg in node.args)})", _ATOM


class NumpyCode(Code):
    """Prints NumPy code in which ``dtype`` makes every literal a scalar of the right type."""

    _FUNCTIONS: ClassVar = {
        "acos": "np.arccos",
        "asin": "np.arcsin",
        "atan2": "np.arctan2",
        "max": "np.fmax",
        "min": "np.fmin",
        "round": "np.rint",
    }
    _LOGIC: ClassVar = {"or": ("|", _BIT_OR), "and": ("&", _BIT_AND)}

    def piece(self, node: Node) -> Piece:
        """Return code for the tree, and how tightly it binds."""
        if node.op == "number":
            return f"dtype({node.value!r})", _ATOM
        if node.op == "constant":
            return f"dtype(np.{node.value})", _ATOM
        if node.op == "cast":
            return self.call("dtype", node)
        if node.op == "not":
            return "~" + self.inside(node.args[0], _UNARY), _UNARY
        if node.op in self._LOGIC:
            return self.infix(node, *self._LOGIC[node.op])
        if node.op == "**" and (exponent := node.whole_exponent) is not None:
            return f"{self.inside(node.args[0], _ATOM)} ** {exponent}", _POWER
        return super().piece(node)

    def call(self, function: str, node: Node) -> Piece:
        """Return code for a call on the operands of ``node``."""
        known = function if function == "dtype" else f"np.{function}"
        return super().call(self._FUNCTIONS.get(function, known), node)


class TaichiCode(Code):
    """Prints Taichi code in which every literal and every result is of one dtype."""

    def __init__(self, values: Mapping[str, str], dtype: DType) -> None:
        self._values = values
        self._dtype = dtype
        # Taichi gets several operations on 8 and 16 bits wrong, so they are done in 32.
        self._is_narrow = not dtype.is_float and dtype.bits < 32

    def piece(self, node: Node) -> Piece:
        """Return code for the tree, and how tightly it binds."""
        narrow_call = {"abs": "ti.abs", "min": "ti.min", "max": "ti.max"}
        if node.op == "name":
            return self._values[str(node.value)], _ATOM
        if node.op == "constant":
            return self._dtype.literal(CONSTANTS[str(node.value)]), _ATOM
        if node.op == "number":
            assert not isinstance(node.value, str)
            return self._dtype.literal(node.value), _ATOM
        if node.op == "cast":
            return f"ti.cast({self.number(node.args[0])}, {self._dtype.taichi})", _ATOM
        if node.op == "neg" and not self._dtype.is_signed:  # Vulkan has no unsigned negation.
            return f"{self._dtype.literal(0)} - {self.inside(node.args[0], _MULTIPLY)}", _ADD
        if node.op == "abs" and not self._dtype.is_signed:
            return self.piece(node.args[0])
        if self._is_narrow and node.op in narrow_call:
            wide = ", ".join(f"ti.cast({self.number(arg)}, ti.i32)" for arg in node.args)
            return self._narrowed(f"{narrow_call[node.op]}({wide})")
        # Taichi ends the process where it divides an f16 by what it can tell to be constant.
        is_division = node.op in ("/", "//", "%")
        if is_division and self._dtype is DType.f16 and node.args[1].op != "name":
            dividend, divisor = (f"ti.cast({self.number(arg)}, ti.f32)" for arg in node.args)
            return self._narrowed(f"{dividend} {node.op} {divisor}")
        if node.op == "**":
            return self._power(node)
        if helper := _helper_of(node, self._dtype):
            return super().call(helper, node)
        return super().piece(node)

    def call(self, function: str, node: Node) -> Piece:
        """Return code for a call on the operands of ``node``."""
        names = {"where": "ti.select", "isnan": "ti.math.isnan"}
        return super().call(names.get(function, f"ti.{function}"), node)

    def _power(self, node: Node) -> Piece:
        exponent = node.whole_exponent
        if exponent is None:
            return super().call("power", node)
        if exponent < 0:  # Vulkan gives NaN for a negative power of 0.
            power = Node("**", (node.args[0], Node("number", value=-exponent)))
            return self.piece(Node("/", (Node("number", value=1), power)))
        if self._is_narrow:
            return self._narrowed(f"ti.cast({self.number(node.args[0])}, ti.i32) ** {exponent}")
        return f"{self.inside(node.args[0], _ATOM)} ** {exponent}", _POWER

    def _narrowed(self, code: str) -> Piece:
        return f"ti.cast({code}, {self._dtype.taichi})", _ATOM


def canonical_text(node: Node) -> str:
    """Return the tree as a user would write it, spaced in one way."""
    return Code().number(node)


def helper_functions(nodes: Iterable[Node], dtype: DType) -> str:
    """Return the ``ti.func`` definitions that the Taichi code of ``nodes`` calls, or nothing."""
    needed = {_helper_of(part, dtype) for node in nodes for part in node.walk()}
    texts = {
        "power": _RAISE,
        "floor_divide": _SIGNED_DIVIDE if dtype.is_signed else _UNSIGNED_DIVIDE,
        "remainder": _SIGNED_REMAINDER if dtype.is_signed else _UNSIGNED_REMAINDER,
        "round_half_even": _ROUND,
        "sign_of": _SIGN,
    }
    working = dtype if dtype.is_float else dtype.working
    replaced = {"DTYPE": dtype.taichi, "WORKING": working.taichi}
    replaced |= {"HALF": dtype.literal(0.5)} if dtype.is_float else {}
    replaced |= {"MINUS": working.literal(-1)} if dtype.is_signed else {}
    replaced |= {"ZERO": working.literal(0), "ONE": working.literal(1), "TWO": working.literal(2)}
    found = []
    for name in sorted(needed - {""}):
        text = texts[name]
        for word, code in replaced.items():
            text = text.replace(word, code)
        found.append(text.strip())
    return "\n\n\n".join(found)


def _helper_of(node: Node, dtype: DType) -> str:
    """Return the name of the helper function that ``node`` is computed by, or nothing."""
    if not dtype.is_float and node.op in ("//", "%"):
        divisor = node.args[1]
        harmless = divisor.op == "number" and not isinstance(divisor.value, str)
        if harmless and divisor.value > 0 and dtype.bits >= 32:  # type: ignore[operator]
            return ""
        return "floor_divide" if node.op == "//" else "remainder"
    if node.op == "**" and node.whole_exponent is None:
        return "power"
    return {"round": "round_half_even", "sign": "sign_of"}.get(node.op, "")


# A zero divisor, or the least integer divided by -1, would end the process on cpu.
_SIGNED_DIVIDE = '''
@ti.func
def floor_divide(a, b):
    """Divide and round down; give 0 for a divisor of 0, and wrap around, as NumPy does."""
    n, d = ti.cast(a, WORKING), ti.cast(b, WORKING)
    safe = ti.select(d == ZERO or d == MINUS, ONE, d)
    quotient = ti.select(d == MINUS, -n, n // safe)
    return ti.cast(ti.select(d == ZERO, ZERO, quotient), DTYPE)
'''
_UNSIGNED_DIVIDE = '''
@ti.func
def floor_divide(a, b):
    """Divide and round down; give 0 for a divisor of 0, as NumPy does."""
    n, d = ti.cast(a, WORKING), ti.cast(b, WORKING)
    safe = ti.select(d == ZERO, ONE, d)
    return ti.cast(ti.select(d == ZERO, ZERO, n // safe), DTYPE)
'''
_SIGNED_REMAINDER = '''
@ti.func
def remainder(a, b):
    """Return what is left after dividing and rounding down; 0 for a divisor of 0."""
    n, d = ti.cast(a, WORKING), ti.cast(b, WORKING)
    safe = ti.select(d == ZERO or d == MINUS, ONE, d)
    return ti.cast(n % safe, DTYPE)
'''
_UNSIGNED_REMAINDER = '''
@ti.func
def remainder(a, b):
    """Return what is left after dividing; 0 for a divisor of 0."""
    n, d = ti.cast(a, WORKING), ti.cast(b, WORKING)
    return ti.cast(n % ti.select(d == ZERO, ONE, d), DTYPE)
'''
# On vulkan ti.pow gives NaN for a base below 0, and for 0 to the power 0.
_RAISE = '''
@ti.func
def power(base, exponent):
    """Raise to a power; only whole powers of negative numbers are numbers, as in NumPy."""
    size = ti.pow(ti.abs(base), exponent)
    half = exponent * HALF
    is_odd = ti.floor(exponent) == exponent and ti.floor(half) != half
    is_even = ti.floor(half) == half
    result = ti.select(is_odd, -size, ti.select(is_even, size, ti.sqrt(base)))
    result = ti.select(base < ZERO, result, size)
    return ti.select(exponent == ZERO, ONE, result)
'''
# Taichi rounds halves to even on some archs and away from zero on others.
_ROUND = '''
@ti.func
def round_half_even(x):
    """Round to the nearest whole number, halves to the even one."""
    low = ti.floor(x)
    rest = x - low
    is_odd = low - TWO * ti.floor(low * HALF) == ONE
    return ti.select(rest > HALF or (rest == HALF and is_odd), low + ONE, low)
'''
_SIGN = '''
@ti.func
def sign_of(x):
    """Return 1, 0 or -1."""
    zero = ti.cast(0, DTYPE)
    return ti.cast(x > zero, DTYPE) - ti.cast(x < zero, DTYPE)
'''

"""Prints the tree of an expression as canonical text, NumPy code and Taichi code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from tikgen.dtypes import DType
from tikgen.expression.helpers import helper_of
from tikgen.expression.tree import BITS, COMPARISONS, Node, literal_value

# The precedence of each operation, as in Python's grammar.
_OR, _AND, _NOT, _COMPARE = 1, 2, 3, 4
_BIT_OR, _BIT_AND, _ADD, _MULTIPLY, _UNARY, _POWER, _ATOM = 5, 6, 7, 8, 9, 10, 11
_PRECEDENCE = {"or": _OR, "and": _AND, "not": _NOT, "neg": _UNARY, "**": _POWER}
_PRECEDENCE |= dict.fromkeys(COMPARISONS, _COMPARE)
_PRECEDENCE |= dict.fromkeys("+-", _ADD) | dict.fromkeys(("*", "/", "//", "%"), _MULTIPLY)

# A piece of code, and the precedence of its outermost operation.
Piece = tuple[str, int]


class Code:
    """Prints a tree as a user would write it, with as few parentheses as possible."""

    def number(self, node: Node) -> str:
        """Return code for the whole tree."""
        return self.piece(node)[0]

    def piece(self, node: Node) -> Piece:
        """Return code for the tree, and its precedence."""
        if node.op in ("name", "constant"):
            return str(node.value), _ATOM
        if node.op == "number":
            return repr(node.value), _UNARY if str(node.value)[0] == "-" else _ATOM
        if node.op == "cast":
            return self.piece(node.args[0])
        if node.op == "neg":
            return "-" + self.inside(node.args[0], _UNARY), _UNARY
        if node.op == "not":
            return "not " + self.inside(node.args[0], _NOT), _NOT
        if node.op == "~":
            return "~" + self.inside(node.args[0], _ATOM), _UNARY
        if node.op in BITS:
            first, second = (self.inside(arg, _UNARY) for arg in node.args)
            return f"{first} {node.op} {second}", _OR
        if node.op in _PRECEDENCE:
            return self.infix(node, node.op, _PRECEDENCE[node.op])
        return self.call(node.op, node)

    def infix(self, node: Node, symbol: str, precedence: int) -> Piece:
        """Return code for an operator between two operands."""
        # Operators group to the left, ** to the right, and comparisons must not chain.
        left = precedence + (precedence in (_POWER, _COMPARE))
        right = _UNARY if precedence == _POWER else precedence + 1
        *outer, inner = node.chain
        if not outer:
            first, second = self.inside(node.args[0], left), self.inside(node.args[1], right)
            return f"{first} {symbol} {second}", precedence
        text, own = self.piece(inner)
        for each in reversed(outer):
            before, own = own, _PRECEDENCE[each.op]
            first = text if before >= own else f"({text})"
            text = f"{first} {each.op} {self.inside(each.args[1], own + 1)}"
        return text, own

    def inside(self, node: Node, precedence: int) -> str:
        """Return code for an operand, in parentheses if its own precedence is lower.

        Operations on bits stand in parentheses: few know their precedence.
        """
        text, own = self.piece(node)
        return text if own >= precedence else f"({text})"

    def call(self, function: str, node: Node) -> Piece:
        """Return code for a call on the operands of ``node``."""
        return f"{function}({', '.join(self.number(arg) for arg in node.args)})", _ATOM


class NumpyCode(Code):
    """Prints NumPy code in which ``dtype`` makes every literal a scalar of the right type."""

    _FUNCTIONS: ClassVar = {
        "acos": "np.arccos",
        "acosh": "np.arccosh",
        "asin": "np.arcsin",
        "asinh": "np.arcsinh",
        "atan": "np.arctan",
        "atan2": "np.arctan2",
        "atanh": "np.arctanh",
        "max": "np.fmax",
        "min": "np.fmin",
        "round": "np.rint",
    }
    _LOGIC: ClassVar = {"or": ("|", _BIT_OR), "and": ("&", _BIT_AND)}

    def piece(self, node: Node) -> Piece:
        """Return code for the tree, and its precedence."""
        if node.op == "number":
            return f"dtype({_number(node)})", _ATOM
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
    """Prints Taichi code in which every name, literal and result is of one dtype."""

    def __init__(self, values: Mapping[str, str], dtype: DType) -> None:
        self._values = values
        self._dtype = dtype
        # Taichi computes several operations on 8 and 16 bits wrongly, so they are done in 32.
        self._is_narrow = dtype.bits < 32

    def piece(self, node: Node) -> Piece:
        """Return code for the tree, and its precedence."""
        if node.op == "name":
            return self._values[str(node.value)], _ATOM
        if node.op in ("constant", "number"):
            return self._dtype.literal(literal_value(node)), _ATOM
        if node.op == "cast":
            return f"ti.cast({self.number(node.args[0])}, {self._dtype.taichi})", _ATOM
        if node.op == "neg" and not self._dtype.is_signed:  # Vulkan has no unsigned negation.
            return f"{self._dtype.literal(0)} - {self.inside(node.args[0], _MULTIPLY)}", _ADD
        if node.op == "abs" and not self._dtype.is_signed:
            return self.piece(node.args[0])
        if self._is_narrow and node.op in ("min", "max"):
            wide = ", ".join(f"ti.cast({self.number(arg)}, ti.i32)" for arg in node.args)
            return f"ti.cast(ti.{node.op}({wide}), {self._dtype.taichi})", _ATOM
        if node.op in ("and", "or"):
            return self._logic(node)
        if node.op == "!=" and self._dtype.is_float:  # Taichi's is false where one of them is NaN.
            return f"not {self.infix(node, '==', _COMPARE)[0]}", _NOT
        if node.op == "not" and node.args[0].op in ("and", "or"):
            return f"not ({self.number(node.args[0])})", _NOT
        if node.op == "**":
            return self._power(node)
        helper = helper_of(node, self._dtype)
        return super().call(helper, node) if helper else super().piece(node)

    def call(self, function: str, node: Node) -> Piece:
        """Return code for a call on the operands of ``node``."""
        names = {"where": "ti.select", "isnan": "ti.math.isnan"}
        return super().call(names.get(function, f"ti.{function}"), node)

    def _logic(self, node: Node) -> Piece:
        """Return code for ``&`` or ``|``: ``and`` would be a branch, which keeps LLVM from vectors.

        Whatever both sides compute is safe: a quotient of integers by 0 is 0.
        """
        symbol, own = ("&", _BIT_AND) if node.op == "and" else ("|", _BIT_OR)
        first, second = node.args
        left = self.inside(first, own if first.op == node.op else _ATOM)
        return f"{left} {symbol} {self.inside(second, _ATOM)}", own

    def _power(self, node: Node) -> Piece:
        exponent = node.whole_exponent
        if exponent is None:
            return super().call(helper_of(node, self._dtype) or "ti.pow", node)
        if exponent >= 0 and helper_of(node, self._dtype) == "whole_power":
            return f"whole_power({self.number(node.args[0])}, {exponent})", _ATOM
        if exponent < 0:  # Vulkan gives NaN for a negative power of 0.
            power = Node("**", (node.args[0], Node("number", value=-exponent)))
            return self.piece(Node("/", (Node("number", value=1), power)))
        return f"{self.inside(node.args[0], _ATOM)} ** {exponent}", _POWER


def _number(node: Node) -> str:
    """Return Python for a literal, which may be infinite or NaN."""
    if np.isfinite(literal_value(node)):
        return repr(node.value)
    return {"inf": "np.inf", "-inf": "-np.inf"}.get(str(node.value), "np.nan")

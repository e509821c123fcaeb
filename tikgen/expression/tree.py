"""The tree of an expression: its operations, and which of them a dtype supports."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tikgen.dtypes import DType

DEEPEST_SMALL = 48  # For types below 32 bits, where casts triple the depth of generated code.
LARGEST_EXPONENT = 64
# Whole numbers from here on are written as floats.
BEYOND_INTEGERS = 2**64

CONSTANTS = {"pi": float(np.pi), "e": float(np.e)}
LITERALS = frozenset({"number", "constant"})
CHAINED = frozenset("+-*/")  # Long ones are walked without recursion.
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_LOGIC = frozenset({"and", "or", "not"})
# Operators on the bits of integers, and what to write of truth values and floats instead.
BITS = {
    "&": "'and' between conditions",
    "|": "'or' between conditions",
    "^": "'**' for a power, '!=' between conditions",
    "~": "'not' before a condition",
    "<<": "'*' and a power of 2",
    ">>": "'//' and a power of 2",
}
SHIFTS = frozenset({"<<", ">>"})
# What has a result in fast math, even if an operand is an infinite constant.
_KEEP_INFINITY = frozenset({*COMPARISONS, "where", "min", "max", "isnan"})

# Function: (fewest arguments, most arguments, needs a float dtype).
FUNCTIONS: dict[str, tuple[int, int, bool]] = {
    "abs": (1, 1, False),
    "acos": (1, 1, True),
    "acosh": (1, 1, True),
    "asin": (1, 1, True),
    "asinh": (1, 1, True),
    "atan": (1, 1, True),
    "atan2": (2, 2, True),
    "atanh": (1, 1, True),
    "ceil": (1, 1, True),
    "clip": (3, 3, False),
    "cos": (1, 1, True),
    "cosh": (1, 1, True),
    "exp": (1, 1, True),
    "expm1": (1, 1, True),
    "floor": (1, 1, True),
    "hypot": (2, 2, True),
    "isnan": (1, 1, True),
    "log": (1, 1, True),
    "log10": (1, 1, True),
    "log1p": (1, 1, True),
    "log2": (1, 1, True),
    "max": (2, 16, False),
    "min": (2, 16, False),
    "pow": (2, 2, False),
    "round": (1, 1, True),
    "sign": (1, 1, False),
    "sin": (1, 1, True),
    "sinh": (1, 1, True),
    "sqrt": (1, 1, True),
    "tan": (1, 1, True),
    "tanh": (1, 1, True),
    "where": (3, 3, False),
}


@dataclass(frozen=True)
class Node:
    """An operation and its operands.

    ``op`` is ``"number"`` (with the number as ``value``), ``"name"`` or ``"constant"`` (with the
    name as ``value``), ``"neg"``, an operator, a function, or ``"cast"``, which converts a truth
    value to a number.
    """

    op: str
    args: tuple[Node, ...] = ()
    value: int | float | str = 0

    def __init__(self, op: str, args: tuple[Node, ...] = (), value: int | float | str = 0) -> None:
        # Twice as fast as what a frozen dataclass does, and trees have thousands.
        known = self.__dict__
        known["op"], known["args"], known["value"] = op, args, value

    @property
    def is_bool(self) -> bool:
        """Return whether the value is a truth value rather than a number."""
        return self.op in COMPARISONS or self.op in _LOGIC or self.op == "isnan"

    def over(self, args: tuple[Node, ...]) -> Node:
        """Return the operation on other operands; the node itself if they are its own."""
        if all(map(operator.is_, args, self.args)):
            return self
        return Node(self.op, args, self.value)

    def with_names(self, values: Mapping[str, Node]) -> Node:
        """Return the tree with names replaced by trees."""
        if self.op == "name":
            return values.get(str(self.value), self)
        return self.changed(lambda arg: arg.with_names(values))

    @property
    def chain(self) -> list[Node]:
        """Return the operation, and those that its first operand consists of, as in ``a + b - c``.

        The outermost one is the first.
        """
        found = [self]
        while found[-1].op in CHAINED and found[-1].args[0].op in CHAINED:
            found.append(found[-1].args[0])
        return found

    def changed(self, change: Callable[[Node], Node]) -> Node:
        """Return the operation on changed operands; those of a long sum or product in turn."""
        *outer, inner = self.chain
        found = inner.over(tuple(map(change, inner.args)))
        for node in reversed(outer):
            found = node.over((found, change(node.args[1])))
        return found

    @functools.cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Return this node and all nodes below it, from left to right."""
        found, ahead = [], [self]
        while ahead:
            node = ahead.pop()
            found.append(node)
            if node.args:
                ahead += node.args[::-1]
        return tuple(found)

    @property
    def depth(self) -> int:
        """Return how many levels the tree has."""
        *outer, inner = self.chain
        found = 1 + max((arg.depth for arg in inner.args), default=0)
        for node in reversed(outer):
            found = 1 + max(found, node.args[1].depth)
        return found

    @functools.cached_property
    def numbers(self) -> tuple[Node, ...]:
        """Return the numbers, from left to right."""
        return tuple(node for node in self.nodes if node.op == "number")

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Return the free names in order of first use."""
        return tuple(dict.fromkeys(str(n.value) for n in self.nodes if n.op == "name"))

    @functools.cached_property
    def kinds(self) -> frozenset[str]:
        """Return the operations in the tree; a power that is not multiplied out is ``"pow"``."""
        return frozenset(
            "pow" if node.op == "**" and node.whole_exponent is None else node.op
            for node in self.nodes
        )

    @functools.cached_property
    def operations(self) -> int:
        """Return the number of operations in the tree."""
        return sum(bool(node.args) for node in self.nodes)

    @property
    def whole_exponent(self) -> int | None:
        """Return the exponent of a power if it is a small whole number, else None."""
        exponent = self.args[1]
        if exponent.op != "number" or isinstance(exponent.value, str):
            return None
        if not abs(exponent.value) <= LARGEST_EXPONENT or exponent.value != int(exponent.value):
            return None
        return int(exponent.value)

    @property
    def has_small_exponent(self) -> bool:
        """Return whether integers can be raised to the exponent of a power."""
        exponent = self.whole_exponent
        return exponent is not None and exponent >= 0


def number_node(value: float) -> Node:
    """Return the tree of a number, of a whole one as an integer."""
    return Node("number", value=int(value) if value == int(value) else value)


def literal_value(node: Node) -> int | float:
    """Return the value of a literal or a named constant."""
    if isinstance(node.value, str):
        return CONSTANTS[node.value]
    return node.value


def suitability_problem(node: Node, dtype: DType) -> str | None:
    """Return why the tree cannot be computed in ``dtype``, or None."""
    if dtype.bits < 32 and node.depth > DEEPEST_SMALL:
        return f"is nested more than {DEEPEST_SMALL} levels deep, too deep for {dtype}"
    # Floats have all operations but those on bits, and not all numbers.
    if dtype.is_float and (found := sorted(node.kinds & BITS.keys())):
        symbol = found[0]
        return f"{symbol} needs an integer dtype, and this one is {dtype}; write {BITS[symbol]}"
    parts = node.numbers if dtype.is_float else node.nodes
    for part in parts:
        if problem := _node_problem(part, dtype):
            return problem
    return None


def _node_problem(node: Node, dtype: DType) -> str | None:
    if dtype.is_float:
        # An infinity is the result of folding literals that fit.
        if not math.isfinite(value := float(node.value)):
            return None
        is_fit = abs(value) <= _largest(dtype.computed)
        shown = node.value if abs(value) < BEYOND_INTEGERS else value
        return None if is_fit else f"{shown!r} does not fit {dtype.computed}"
    if node.op == "/":
        return f"/ needs a float dtype, and this one is {dtype}; use // to round down"
    if node.op == "constant" or (node.op in FUNCTIONS and FUNCTIONS[node.op][2]):
        what = node.value if node.op == "constant" else f"{node.op}()"
        return f"{what} needs a float dtype, and this one is {dtype}"
    if node.op == "number":
        try:
            dtype.literal(node.value)  # type: ignore[arg-type]
        except ValueError as error:
            return str(error)
    return None


@functools.cache
def _largest(dtype: DType) -> float:
    return float(np.finfo(dtype.numpy).max)


def folded_problem(folded: Node, dtype: DType) -> str | None:
    """Return why a folded tree cannot be computed in ``dtype``, or None."""
    return _infinity_problem(folded) if dtype.is_float else _integer_problem(folded, dtype)


def _infinity_problem(folded: Node) -> str | None:
    """Return which operation has an infinite or undefined constant, or None.

    Fast math assumes that there is none: LLVM drops the result, and what would store it.
    """
    if all(math.isfinite(float(number.value)) for number in folded.numbers):
        return None
    for node in folded.nodes:
        if node.op not in _KEEP_INFINITY:
            for arg in node.args:
                if arg.op == "number" and not math.isfinite(float(arg.value)):
                    takes = "comparisons, where, min and max take such a constant"
                    return (
                        f"{node.op} has the constant {arg.value}, which fast math excludes; {takes}"
                    )
    return None


def _integer_problem(folded: Node, dtype: DType) -> str | None:
    for node in folded.nodes:
        if node.op == "**" and not node.has_small_exponent:
            most = LARGEST_EXPONENT
            return f"with dtype {dtype}, ** takes a literal whole exponent from 0 to {most}"
        if node.op in SHIFTS and node.args[1].op == "number":
            count = int(node.args[1].value)
            if not 0 <= count < dtype.bits:
                return f"{node.op} {count} goes beyond the {dtype.bits} bits of {dtype}"
    return None

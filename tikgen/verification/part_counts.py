"""Counts of parts, such as ``(n - 1) // 64 + 1``: more of them than there is work do nothing.

Kernels split their work into parts of a given extent, and cut the last one short. How many parts
there are is a matter of the schedule, as long as there are enough.
"""

from __future__ import annotations

import ast
import operator
import random
from collections.abc import Callable

_TRIALS = 60
_MOST_EXTENT = 5_000


def is_part_count(node: ast.AST) -> bool:
    """Tell whether an expression is a quotient, rounded up as integers allow it."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add)
        and isinstance(node.left, ast.BinOp)
        and isinstance(node.left.op, ast.FloorDiv)
        and isinstance(node.right, ast.Constant)
    )


def is_more_parts(count: str, other: str) -> bool:
    """Tell whether ``other`` is never less than ``count``, for many values of their names."""
    numbers = random.Random(count)
    for _ in range(_TRIALS):
        names: dict[str, int] = {}
        try:
            # Each name stands for the same number in both.
            least, found = (
                value_of(
                    ast.parse(f"({text})", mode="eval").body,
                    names,
                    lambda: numbers.randint(1, _MOST_EXTENT),
                )
                for text in (count, other)
            )
        except (ArithmeticError, SyntaxError, TypeError, ValueError):
            return False
        if found < least:
            return False
    return True


_ARITHMETIC: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def value_of(node: ast.AST, names: dict[str, int], draw: Callable[[], int]) -> int:
    """Return the value of arithmetic, comparisons and extremes of integers.

    Args:
        node: the expression.
        names: numbers by the code of what is no arithmetic itself, such as ``x.shape[0]``.
        draw: returns a number for such code that ``names`` lacks.

    Raises:
        ArithmeticError: for a division by 0.
        ValueError: for an operation that is not known.
    """

    def of(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=value) if type(value) is int:
                return value
            case ast.BinOp(left, operation, right):
                return int(_operation(operation)(of(left), of(right)))
            case ast.Compare(left, operations, others):
                values = [of(left), *map(of, others)]
                pairs = zip(operations, values, values[1:], strict=False)
                return int(all(_operation(each)(one, two) for each, one, two in pairs))
            case ast.BoolOp(operation, parts):
                return int((all if isinstance(operation, ast.And) else any)(list(map(of, parts))))
            case ast.Call(ast.Attribute(ast.Name("ti"), ("min" | "max") as name), parts):
                return int((min if name == "min" else max)(map(of, parts)))
        code = ast.dump(node)
        if code not in names:
            names[code] = draw()
        return names[code]

    return of(node)


def _operation(node: ast.AST) -> Callable[[int, int], int]:
    if type(node) not in _ARITHMETIC:
        raise ValueError
    return _ARITHMETIC[type(node)]

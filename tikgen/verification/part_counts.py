"""Counts of parts, such as ``(n - 1) // 64 + 1``: more of them than there is work do nothing.

Kernels split their work into parts of a given extent, and cut the last one short. How many parts
there are is a matter of the schedule, as long as there are enough.
"""

from __future__ import annotations

import ast
import random

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
            least, found = (_value(text, names, numbers) for text in (count, other))
        except (ArithmeticError, SyntaxError, TypeError, ValueError):
            return False
        if found < least:
            return False
    return True


def _value(text: str, names: dict[str, int], numbers: random.Random) -> int:
    """Return the value of arithmetic on what is no arithmetic itself, such as ``x.shape[0]``."""

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.BinOp):
            left, right = value(node.left), value(node.right)
            kinds = {
                ast.Add: int.__add__,
                ast.Sub: int.__sub__,
                ast.Mult: int.__mul__,
                ast.FloorDiv: int.__floordiv__,
                ast.Mod: int.__mod__,
            }
            return int(kinds[type(node.op)](left, right)) if type(node.op) in kinds else _unknown()
        return names.setdefault(ast.dump(node), numbers.randint(1, _MOST_EXTENT))

    return value(ast.parse(f"({text})", mode="eval").body)


def _unknown() -> int:
    raise ValueError

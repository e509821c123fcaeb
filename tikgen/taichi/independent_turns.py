"""Finds loops whose turns do not need each other, so that they are vectorised without a question.

LLVM must assume that a turn of ``for j in range(n)`` reads what an earlier one wrote, unless it can
tell by the addresses. It compares those before each loop, one pair of rows after the other: where
arrays have several components that takes longer than a short row. The code of the user tells it at
once: both elements have the index ``j`` on one axis, or are of different components.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from tikgen.taichi import trees

# Nothing is known of the turns, or they are independent: if no array that is written is given for
# another argument as well, or in any case.
UNKNOWN, IF_APART, ALWAYS = 0, 1, 2
# What an index says: a number, or the turn of the loop plus a number.
_Index = tuple[str, int]


class _Element(NamedTuple):
    array: str
    indices: list[_Index | None]
    use: ast.expr_context


class Turns:
    """What is known of the turns of the loops of a kernel.

    An array that is written never overlaps another one, unless that is only read, has the same
    dtype and axes, and the very same array is given for both.

    Args:
        tree: the tree of the kernel.
        arrays: dtype and number of axes of its arrays of numbers, by name.
        names: the names that Taichi finds in it.
    """

    def __init__(
        self, tree: ast.Module, arrays: Mapping[str, tuple[str, int]], names: Mapping[str, Any]
    ) -> None:
        self._arrays, self._names = arrays, names
        self._variables = trees.stored([tree])
        assigned = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
        if any(self._uses_whole([node.value]) for node in assigned):
            self._arrays = {}  # A variable may be another name of an array.

    def known_of(self, loop: ast.For) -> int:
        """Return what is known of the turns of a loop."""
        turn = loop.target
        if not isinstance(turn, ast.Name) or turn.id in trees.stored(loop.body):
            return UNKNOWN
        nodes = [node for statement in loop.body for node in ast.walk(statement)]
        if self._uses_whole(loop.body) or not all(map(self._is_plain, nodes)):
            return UNKNOWN
        elements = [
            _Element(owner, [_index(i, turn.id) for i in trees.listed(node.slice)], node.ctx)
            for node in nodes
            if isinstance(node, ast.Subscript)
            and (owner := getattr(node.value, "id", "")) in self._arrays
        ]
        written = {one.array for one in elements if isinstance(one.use, ast.Store)}
        known = ALWAYS
        for one, other in itertools.combinations_with_replacement(elements, 2):
            both = {one.array, other.array}
            if not any(isinstance(each.use, ast.Store) for each in (one, other)):
                continue
            if _are_apart(one.indices, other.indices):
                continue
            if len(both) == 1:
                return UNKNOWN
            are_same = len({self._arrays[name] for name in both}) == 1
            if are_same and not both <= written:
                known = IF_APART
        return known

    def _uses_whole(self, body: Sequence[ast.AST]) -> bool:
        """Return whether code uses an array otherwise than by its elements and its shape."""
        nodes = [node for each in body for node in ast.walk(each)]
        owners = {id(n.value) for n in nodes if isinstance(n, ast.Subscript) or _is_shape(n)}
        return any(
            isinstance(node, ast.Name) and node.id in self._arrays and id(node) not in owners
            for node in nodes
        )

    def _is_plain(self, node: ast.AST) -> bool:
        """Return whether a node changes nothing but variables and elements of the arrays."""
        if isinstance(node, ast.Call):
            return trees.is_pure(node, self._names)
        if isinstance(node, ast.Subscript):
            owner = node.value
            return not isinstance(owner, ast.Name) or owner.id in (*self._arrays, *self._variables)
        is_stored = isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        return not is_stored and not isinstance(node, ast.Return | ast.Break | ast.While)


def _is_shape(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _are_apart(one: Sequence[_Index | None], other: Sequence[_Index | None]) -> bool:
    """Return whether two elements of an array are different ones in any two turns."""
    for index, another in zip(one, other, strict=False):
        if index is None or another is None or index[0] != another[0]:
            continue
        if (index == another) is bool(index[0]):
            return True
    return False


def _index(node: ast.expr, turn: str) -> _Index | None:
    """Return what an index says, None if that is nothing simple."""
    if (number := _number(node)) is not None:
        return "", number
    if isinstance(node, ast.Name) and node.id == turn:
        return turn, 0
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = node.left, node.right
        if isinstance(node.op, ast.Add) and _number(left) is not None:
            left, right = right, left
        more = _number(right)
        if isinstance(left, ast.Name) and left.id == turn and more is not None:
            return turn, more if isinstance(node.op, ast.Add) else -more
    return None


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _number(node.operand)
        return None if number is None else -number
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None

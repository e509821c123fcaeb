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

import taichi as ti

from tikgen.taichi import trees

# What an index says: a number, or the turn of the loop plus a number.
_Index = tuple[str, int]


class Array(NamedTuple):
    """An argument that is an array of numbers.

    Attributes:
        slot: which argument it is.
        dtype: the name of its dtype.
        ndim: its number of axes.
    """

    slot: int
    dtype: str
    ndim: int


class _Element(NamedTuple):
    array: str
    indices: list[_Index | None]
    use: ast.expr_context


def arrays_of(kernel: Any) -> dict[str, Array]:
    """Return the arrays of numbers among the arguments of the object behind a ``ti.kernel``."""
    axes, found = trees.axes_of(kernel), {}
    for slot, argument in enumerate(kernel.arguments):
        dtype = getattr(argument.annotation, "dtype", None)
        if argument.name in axes and isinstance(dtype, ti._lib.core.DataType):
            found[argument.name] = Array(slot, str(dtype), axes[argument.name])
    return found


class Turns:
    """What is known of the turns of the loops of a kernel.

    An array that is written never overlaps another one, unless that is only read, has the same
    dtype and axes, and the very same array is given for both.

    Args:
        tree: the tree of the kernel.
        arrays: its arrays of numbers, by name.
        names: the names that Taichi finds in it.
    """

    def __init__(
        self, tree: ast.Module, arrays: Mapping[str, Array], names: Mapping[str, Any]
    ) -> None:
        self._arrays, self._names = arrays, names
        self._owners = frozenset(arrays) | trees.stored([tree])
        self._has_aliases = self._may_rename(tree)

    def conditions(self, loop: ast.For) -> set[tuple[str, str]] | None:
        """Return which arrays must not be the same for turns of a loop to be independent.

        The first of two is written, the other one only read. Nothing is returned of turns that are
        not known to be independent.
        """
        turn = loop.target
        if not isinstance(turn, ast.Name) or turn.id in trees.stored(loop.body):
            return None
        nodes = [node for statement in loop.body for node in ast.walk(statement)]
        is_known = not self._has_aliases and not self._whole(nodes)
        if not is_known or not all(map(self._is_plain, nodes)):
            return None
        elements = [
            _Element(owner, self._indices(node, self._arrays[owner], turn.id), node.ctx)
            for node in nodes
            if isinstance(node, ast.Subscript)
            and (owner := getattr(node.value, "id", "")) in self._arrays
        ]
        written = {one.array for one in elements if isinstance(one.use, ast.Store)}
        found: set[tuple[str, str]] = set()
        for one, other in itertools.combinations_with_replacement(elements, 2):
            stored = [each.array for each in (one, other) if isinstance(each.use, ast.Store)]
            if not stored or _are_apart(one.indices, other.indices):
                continue
            if one.array == other.array:
                return None
            read = {one.array, other.array} - written
            if read and self._arrays[one.array][1:] == self._arrays[other.array][1:]:
                found.add((stored[0], read.pop()))
        return found

    def _indices(self, node: ast.Subscript, array: Array, turn: str) -> list[_Index | None]:
        """Return what the indices of an element say, nothing if one may be a vector."""
        listed = trees.listed(node.slice)
        return [_index(each, turn) for each in listed] if len(listed) == array.ndim else []

    def _may_rename(self, tree: ast.AST) -> bool:
        """Return whether a variable may be another name of an array, or of an element."""
        nodes = list(ast.walk(tree))
        known = {id(node.iter) for node in nodes if isinstance(node, ast.For)}
        for node in nodes:
            if isinstance(node, ast.Call):
                called = trees.called(node, self._names)
                if called is ti.grouped or getattr(called, "_is_taichi_function", False):
                    known.update(map(id, node.args))
                is_known = called is not None or trees.is_pure(node, self._names)
                if called is ti.static or not is_known:
                    parts = (each for each in ast.walk(node) if isinstance(each, ast.Subscript))
                    if any(getattr(each.value, "id", "") in self._arrays for each in parts):
                        return True
        return any(id(node) not in known for node in self._whole(nodes))

    def _whole(self, nodes: Sequence[ast.AST]) -> list[ast.Name]:
        """Return where arrays are used otherwise than by their elements and their shapes."""
        owners = {id(n.value) for n in nodes if isinstance(n, ast.Subscript) or _is_shape(n)}
        names = (node for node in nodes if isinstance(node, ast.Name))
        return [name for name in names if name.id in self._arrays and id(name) not in owners]

    def _is_plain(self, node: ast.AST) -> bool:
        """Return whether a node changes nothing but variables and elements of the arrays."""
        if isinstance(node, ast.Call):
            return trees.is_pure(node, self._names)
        if isinstance(node, ast.Subscript):
            owner = node.value
            return not isinstance(owner, ast.Name) or owner.id in self._owners
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

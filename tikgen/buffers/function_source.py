"""What the source of a function of Taichi code says about its arrays."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection
from typing import Any

from tikgen.dtypes import DType

# Any other function may write to an element, as ti.atomic_add does.
_PURE = frozenset(
    {"abs", "acos", "asin", "atan2", "cast", "ceil", "cos", "exp", "floor", "log", "max", "min"}
    | {"pow", "rsqrt", "round", "select", "sin", "sqrt", "tan", "tanh"}
    | {"bool", "float", "int", "ndrange", "range", "static"}
    | {dtype.value for dtype in DType}
)


def written_names(tree: ast.AST | None, names: Collection[str]) -> frozenset[str]:
    """Return those of ``names`` that a function may write to; all if it has no source."""
    if tree is None:
        return frozenset(names)
    finder = _Finder(frozenset(names))
    for node in ast.walk(tree):
        finder.look_at(node)
    return finder.names - finder.reads_only()


def looped_axes(tree: ast.AST | None, names: Collection[str]) -> dict[str, int]:
    """Return how many axes loops over arrays need, as ``for i, j in x`` needs two."""
    found: dict[str, int] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Name) and node.iter.id in names:
            target = node.target
            found[node.iter.id] = len(target.elts) if isinstance(target, ast.Tuple) else 1
    return found


def tree_of(function: Callable[..., Any]) -> ast.AST | None:
    """Return the tree of the source of a function, None if it has none."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


class _Finder:
    """Counts the uses of each name, and those that only read."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self._uses = dict.fromkeys(names, 0)
        self._reads = dict.fromkeys(names, 0)

    def reads_only(self) -> frozenset[str]:
        return frozenset(n for n in self.names if self._uses[n] == self._reads[n])

    def look_at(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name) and node.id in self.names:
            self._uses[node.id] += 1
        elif isinstance(node, ast.Attribute) and node.attr == "shape":
            self._count(node.value)
        elif isinstance(node, ast.For):
            self._count(node.iter)
        for value in _values_read_by(node):
            if isinstance(value, ast.Subscript) and isinstance(value.ctx, ast.Load):
                self._count(value.value)

    def _count(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name) and node.id in self.names:
            self._reads[node.id] += 1


def _values_read_by(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    if isinstance(node, ast.IfExp):
        return [node.test, node.body, node.orelse]
    if isinstance(node, ast.If | ast.While):
        return [node.test]
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return):
        return [node.value] if node.value is not None else []
    if isinstance(node, ast.Subscript):
        return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if isinstance(node, ast.Call) and _called(node.func) in _PURE:
        return list(node.args)
    return []


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""

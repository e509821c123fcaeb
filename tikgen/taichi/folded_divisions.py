"""Divisions of numbers that Taichi knows: it computes them with other results than its code does.

``//`` and ``%`` round down. Where both operands are constant Taichi computes the result itself, and
rounds towards zero; of unsigned integers it computes no ``**`` at all. So where the index of a loop
becomes a number, Python computes what only indices and numbers take part in, and the loop stays as
it is if both operands of another division might be constant.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any

from tikgen.taichi import trees

_DIVISIONS = (ast.FloorDiv, ast.Mod, ast.Pow)
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_MOST = 2**31 - 1


class Computed(ast.NodeTransformer):
    """Replaces divisions that only numbers take part in by their results.

    Args:
        numbers: what names of indices stand for.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Replace a division."""
        value = self._value(node) if isinstance(node.op, _DIVISIONS) else None
        if value is None:
            self.generic_visit(node)
            return node
        return trees.expression(f"tikgen_ti.cast({value}, tikgen_ti.i32)", node)

    def _value(self, node: ast.expr) -> int | None:
        """Return the i32 that code stands for, None if that is not known."""
        found: int | None = None
        if trees.is_number(node):
            found = int(ast.unparse(node))
        elif isinstance(node, ast.Name):
            found = self._numbers.get(node.id)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = self._value(node.operand)
            found = None if operand is None else -operand
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self._value(node.left), self._value(node.right)
            is_known = left is not None and right is not None
            if is_known and (right or not isinstance(node.op, _DIVISIONS)):
                found = _OPERATORS[type(node.op)](left, right)
        return found if found is not None and abs(found) <= _MOST else None


def count(code: Iterable[ast.AST], varying: Container[str], names: Mapping[str, Any]) -> int:
    """Return how many divisions code has both of whose operands might be constant.

    Args:
        code: the statements.
        varying: names of what is no constant: arguments of a kernel, indices of loops that stay.
        names: the names that Taichi finds in the code.
    """
    nodes = (node for statement in code for node in ast.walk(statement))
    return sum(_may_be_folded(node, varying, names) for node in nodes)


def known_to_vary(function: ast.FunctionDef, varying: Container[str]) -> set[str]:
    """Return the variables of a function that are given a value once, which is no constant."""
    nodes = list(ast.walk(function))
    stored = Counter(
        n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )
    found: set[str] = set()
    for node in nodes:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            assert isinstance(node, ast.Assign)
            targets, values = trees.listed(target), trees.listed(node.value)
            pairs = zip(targets, values, strict=False) if len(targets) == len(values) else ()
            found |= {
                one.id
                for one, value in pairs
                if isinstance(one, ast.Name) and stored[one.id] == 1 and _varies(value, varying)
            }
    return found


def _may_be_folded(node: ast.AST, varying: Container[str], names: Mapping[str, Any]) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, _DIVISIONS):
        return not _varies(node.left, varying) and not _varies(node.right, varying)
    if isinstance(node, ast.AugAssign) and isinstance(node.op, _DIVISIONS):
        return not _varies(node.target, varying) and not _varies(node.value, varying)
    if isinstance(node, ast.Call) and _divides(trees.called(node, names)):
        given = [one for one in node.args if not _varies(one, varying)]
        return any(isinstance(each, ast.Name) for one in given for each in ast.walk(one))
    return False


def _divides(function: Any) -> bool:
    """Return whether something is a ``ti.func`` with a division, or with calls of others."""
    if not getattr(function, "_is_taichi_function", False):
        return False
    tree = trees.tree_of(function.__wrapped__)
    names = function.__wrapped__.__globals__
    return any(
        (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, _DIVISIONS))
        or (isinstance(node, ast.Call) and hasattr(trees.called(node, names), "__wrapped__"))
        for node in ast.walk(tree)
    )


def _varies(node: ast.expr, varying: Container[str]) -> bool:
    """Return whether code is certainly no constant: not even ``i - i`` or ``0 * i``."""
    used = Counter(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in varying)
    return max(used.values(), default=0) == 1 and _has_varying_term(node, varying)


def _has_varying_term(node: ast.expr, varying: Container[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in varying
    if isinstance(node, ast.Subscript):
        owner = node.value.value if trees.is_extent(node) else node.value  # type: ignore[attr-defined]
        return isinstance(owner, ast.Name) and owner.id in varying
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _has_varying_term(node.operand, varying)
    if isinstance(node, ast.BinOp):
        left, right = (_has_varying_term(one, varying) for one in (node.left, node.right))
        if isinstance(node.op, ast.Add | ast.Sub):
            return left or right
        if isinstance(node.op, ast.Mult):
            return (left and _is_positive(node.right)) or (right and _is_positive(node.left))
        return left and isinstance(node.op, ast.FloorDiv | ast.Mod)
    return False


def _is_positive(node: ast.expr) -> bool:
    return trees.is_number(node) and ast.unparse(node) != "0"

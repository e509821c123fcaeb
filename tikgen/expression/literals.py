"""Literals that stand for numbers of lists and blocks, and arithmetic that they make simpler."""

from __future__ import annotations

import ast
import operator
from typing import Any, TypeVar

from tikgen.expression.chains import chain_of
from tikgen.expression.tree import BEYOND_INTEGERS

T = TypeVar("T", bound=ast.AST)
_WHOLE = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def copied(tree: T) -> T:
    """Return a tree that shares no part that may change; :mod:`copy` takes ten times as long.

    Other libraries leave attributes of their own on the operators that all trees share, such as
    the parent that IPython's tracebacks need: an operator is shared, and only fields are copied.
    """
    if isinstance(tree, ast.operator | ast.unaryop | ast.cmpop | ast.boolop | ast.expr_context):
        return tree
    if not isinstance(tree, ast.BinOp):
        return _copied(tree)
    chain = chain_of(tree)
    found: Any = copied(chain[-1].left)
    for part in reversed(chain):
        found = _copied(part, found)
    return found  # type: ignore[no-any-return]


def _copied(tree: T, left: ast.expr | None = None) -> T:
    """Return a copy, with another first operand if one is given."""
    found = tree.__class__.__new__(tree.__class__)
    kept = vars(found)
    for name, value in vars(tree).items():
        if name in tree._fields:
            if name == "left" and left is not None:
                value = left
            elif isinstance(value, ast.AST):
                value = copied(value)
            elif isinstance(value, list):
                value = [copied(each) if isinstance(each, ast.AST) else each for each in value]
            kept[name] = value
        elif name in tree._attributes or name == "is_known":
            kept[name] = value
    return found


def nodes_in(tree: ast.AST) -> list[ast.AST]:
    """Return a tree and all below it but operators; :func:`ast.walk` takes three times as long."""
    found = [tree]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.expr):
                found.append(value)
            elif isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
    return found


def literal(tree: ast.AST, value: float) -> ast.Constant:
    """Return a literal in place of a tree, for a number of a list or a block."""
    is_whole_number = abs(value) < BEYOND_INTEGERS and value == int(value)
    number = int(value) if is_whole_number else value
    return _marked(ast.copy_location(ast.Constant(number), tree))


def known_value(tree: ast.expr) -> float | None:
    """Return the value of a literal that stands for a number of a list or a block, or None."""
    if isinstance(tree, ast.Constant) and hasattr(tree, "is_known"):
        return float(tree.value)  # type: ignore[arg-type]
    return None


def is_whole(tree: ast.expr) -> bool:
    """Return whether a tree is an integer, which may be negative."""
    operand = tree.operand if isinstance(tree, ast.UnaryOp) else tree
    return isinstance(operand, ast.Constant) and type(operand.value) is int


def simplified(tree: ast.BinOp) -> ast.expr:
    """Return an operation without terms that a 0 of a list removes, and without factors of 1."""
    left, right = known_value(tree.left), known_value(tree.right)
    match tree.op:
        case ast.Mult():
            for one, other in ((left, tree.right), (right, tree.left)):
                if one == 0:
                    return literal(tree, 0)
                if one in (1, -1):
                    return other if one == 1 else _negative(other, tree)
        case ast.Add() if left == 0:
            return tree.right
        case ast.Sub() if left == 0:
            return _negative(tree.right, tree)
        case ast.Add() | ast.Sub() if right == 0:
            return tree.left
        case ast.Add() if isinstance(tree.right, ast.UnaryOp) and hasattr(tree.right, "is_known"):
            return ast.copy_location(ast.BinOp(tree.left, ast.Sub(), tree.right.operand), tree)
    return tree


def _negative(tree: ast.expr, place: ast.expr) -> ast.UnaryOp:
    return _marked(ast.copy_location(ast.UnaryOp(ast.USub(), tree), place))


def _marked(tree: T) -> T:
    """Return a tree, marked as one that a list or a block gave."""
    tree.is_known = True  # type: ignore[attr-defined]
    return tree


def whole_value(tree: ast.expr) -> float | None:
    """Return the value of arithmetic on literals, or None where there is anything else."""
    match tree:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            operand = whole_value(tree.operand)
            return -operand if operand is not None and isinstance(tree.op, ast.USub) else operand
        case ast.BinOp() if type(tree.op) in _WHOLE:
            left, right = whole_value(tree.left), whole_value(tree.right)
            is_zero = right == 0 and isinstance(tree.op, ast.FloorDiv | ast.Mod)
            if left is not None and right is not None and not is_zero:
                return float(_WHOLE[type(tree.op)](left, right))
    return None

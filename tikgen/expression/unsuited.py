"""Finds what cannot be computed in a dtype, in the lines of a user."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Mapping

from tikgen.dtypes import DType
from tikgen.expression.chains import chain_of
from tikgen.expression.constants import fold
from tikgen.expression.tree import Node, folded_problem, suitability_problem


def problem_of(node: Node, dtype: DType, known: Mapping[str, Node]) -> tuple[str, Node]:
    """Return why a tree cannot be computed in a dtype, or nothing, and the tree folded.

    Args:
        node: the tree.
        dtype: the dtype.
        known: literals by the names that stand for them.
    """
    if problem := suitability_problem(node, dtype):
        return problem, node
    folded = fold(node, dtype.computed.numpy, known)
    return folded_problem(folded, dtype) or "", folded


def innermost(
    tree: ast.expr, problem: str, problem_of: Callable[[ast.expr], str]
) -> tuple[ast.expr, str]:
    """Return the smallest part of a tree that has a problem, and the problem.

    Args:
        tree: a right-hand side that has one.
        problem: its problem.
        problem_of: returns the problem of a part, or nothing.
    """
    while True:
        chain = chain_of(tree)[::-1] if isinstance(tree, ast.BinOp) else []
        parts: list[ast.AST] = [part.right for part in chain]
        parts[:0] = [chain[0].left] if chain else ast.iter_child_nodes(tree)
        parts += [part.value for part in parts if isinstance(part, ast.keyword)]
        for part in parts:
            if isinstance(part, ast.expr) and (found := problem_of(part)):
                tree, problem = part, found
                break
        else:
            # The first of the operations of a sum with which it has the problem.
            place = bisect.bisect_left(chain[:-1], True, key=lambda part: bool(problem_of(part)))
            if place < len(chain) - 1:
                tree, problem = chain[place], problem_of(chain[place])
            return tree, problem


def at_operator(text: str, tree: ast.expr) -> ast.expr:
    """Return a tree whose place is that of its operator, if the text has it between operands."""
    if not isinstance(tree, ast.BinOp):
        return tree
    left, right = tree.left, tree.right
    if not left.end_lineno == right.lineno <= text.count("\n") + 1:
        return tree
    line = text.splitlines()[right.lineno - 1].encode()
    between = line[left.end_col_offset : right.col_offset].decode()
    symbol = between.strip("() ")
    if not symbol or any(character.isalnum() for character in symbol):
        return tree
    found = ast.copy_location(ast.Pass(), tree)
    before = between[: between.index(symbol)]
    found.lineno, found.col_offset = right.lineno, (left.end_col_offset or 0) + len(before)
    return found  # type: ignore[return-value]

"""Lists where a vector is assigned as a whole: what to write for them, component by component."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from tikgen.errors import ExpressionError
from tikgen.expression.chains import text_of
from tikgen.expression.literals import copied
from tikgen.expression.spelling import DOT, PRIME, shown

MOST_SHOWN = 3
_NEXT = re.compile(rf"{DOT}(\w+){PRIME}")


def first_list(tree: ast.AST) -> ast.expr | None:
    """Return the outermost list or tuple in a tree that is no offset of a neighbour, or None."""
    ahead = [tree]
    for node in ahead:
        if isinstance(node, ast.List | ast.Tuple):
            return node
        if not isinstance(node, ast.Subscript):
            ahead += ast.iter_child_nodes(node)
    return None


def by_item(
    statement: ast.Assign, count: int, component: Callable[[ast.Assign, int], ast.stmt]
) -> str:
    """Return what to write for an assignment to a vector with a list of an item a component.

    Args:
        statement: the assignment.
        count: number of components.
        component: returns the assignment to a component, of one that has no lists.
    """
    try:
        found = [
            component(_Items(number).visit(copied(statement)), number) for number in range(count)
        ]
    except (ExpressionError, IndexError):
        return "an assignment to each component, as in v.x = 0; v.y = 1"
    texts = [shown(_NEXT.sub(rf"{PRIME}{DOT}\1", text_of(each))) for each in found]
    more = "; ..." if count > MOST_SHOWN else ""
    return "; ".join(texts[:MOST_SHOWN]) + more


class _Items(ast.NodeTransformer):
    """Replaces lists by one of their items."""

    def __init__(self, number: int) -> None:
        self._number = number

    def visit_List(self, tree: ast.List) -> ast.expr:
        """Return an item."""
        return tree.elts[self._number]

    def visit_Tuple(self, tree: ast.Tuple) -> ast.expr:
        """Return an item."""
        return tree.elts[self._number]

    def visit_Subscript(self, tree: ast.Subscript) -> ast.expr:
        """Leave the offsets of a neighbour as they are."""
        return tree

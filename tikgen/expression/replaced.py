"""Finds values that nothing reads, since their names are assigned again: mostly a wrong name."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tikgen.expression.literals import nodes_in

PROBLEM = "is assigned twice, and nothing reads the first value; give one of them another name"


def replaced(statements: Sequence[ast.stmt]) -> list[ast.Name]:
    """Return the targets that replace a value before anything reads it."""
    found: list[ast.Name] = []
    unread: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.Assign):
            value = nodes_in(statement.value)
            unread -= {node.id for node in value if isinstance(node, ast.Name)}
            targets = [target for target in statement.targets if isinstance(target, ast.Name)]
            found += [target for target in targets if target.id in unread]
            unread |= {target.id for target in targets}
    return found

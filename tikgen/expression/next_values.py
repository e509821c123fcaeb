"""Names that a text may not use, since they are those of the arguments that take next values."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tikgen.expression.components import vector_of
from tikgen.expression.literals import nodes_in
from tikgen.expression.spelling import PRIME, refusal, shown_name, stored_name


def check_next_values(text: str, statements: Sequence[ast.stmt]) -> None:
    """Refuse to call another value what the argument of a next value is called.

    Args:
        text: what the statements were parsed from.
        statements: the user's statements, or what they stand for.

    Raises:
        ExpressionError: where a name such as ``u_next`` stands beside ``u'``.
    """
    nodes = [n for each in statements for n in nodes_in(each) if isinstance(n, ast.Name)]
    names = {vector_of(node.id) for node in nodes}
    taken = {stored_name(name): shown_name(name) for name in names if name.endswith(PRIME)}
    for node in nodes if taken else ():
        if (name := vector_of(node.id)) in taken:
            raise refusal(
                text,
                node,
                f"{name} is the argument that takes {taken[name]}; write {taken[name]} for its "
                "new value, or give the other another name",
            )

"""Leaves points alone: equations whose results are kept where a mask is set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tikgen.expression.assignments import Assignments, Expression
from tikgen.expression.tree import Node

if TYPE_CHECKING:
    from tikgen.expression.equations import Update


def masked(update: Update, mask: str, fields: Mapping[str, str], dim: int) -> Update:
    """Return equations that compute nothing new where a mask is not 0.

    There the next value of a field is its value, and any other output keeps what it is.

    Args:
        update: what the equations become on a grid.
        mask: name of an array that they do not use.
        fields: the field of each output that is its next value.
        dim: number of axes.
    """
    centre = (0,) * dim
    is_set = Node("!=", (Node("name", value=mask), Node("number", value=0)))
    accesses = {**update.accesses, mask: (mask, centre)}
    inputs, roles = dict.fromkeys(update.inputs), dict(update.arrays)
    assigned = []
    for name, expression in update.assignments.assignments:
        if name in roles:
            kept = fields.get(name, name)
            accesses[kept] = kept, centre
            if kept == name:
                roles[name] = "inout"
            else:
                inputs[kept] = None
            tree = Node("where", (is_set, Node("name", value=kept), expression.node))
            expression = Expression(tree)
        assigned.append((name, expression))
    inputs[mask] = None
    read = {name: "in" for name in inputs if name not in update.scalars}
    return replace(
        update,
        assignments=Assignments(tuple(assigned)),
        accesses=accesses,
        arrays=read | roles,
        inputs=tuple(inputs),
    )

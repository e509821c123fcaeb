"""Values that lie on lower walls, at the first points of axes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tikgen.expression.tree import Node, number_node


def index_on(axis: int) -> str:
    """Return the name of the index on an axis that is compared, which no user can write."""
    return f"index\u00b7{axis}"


def held(node: Node, walls: Mapping[int, float | str]) -> Node:
    """Return a tree that has other values at the first points of axes.

    Args:
        node: the tree.
        walls: the value, or the name of one, for each axis.
    """
    for axis, value in walls.items():
        index = Node("name", value=index_on(axis))
        wall = Node("name", value=value) if isinstance(value, str) else number_node(value)
        node = Node("where", (Node(">", (index, number_node(0))), node, wall))
    return node


def off_walls(node: Node, axes: Collection[int]) -> Node:
    """Return the tree at points that are not the first ones of some axes."""
    if node.op != "where" or not axes:
        return node
    names = {index_on(axis) for axis in axes}
    condition, *others = node.args
    if condition.op == ">" and condition.args[0].value in names:
        return off_walls(others[0], axes)
    return Node("where", (condition, *(off_walls(each, axes) for each in others)))

"""Derivatives and averages of an expression, as trees over its values at neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

from tikgen.expression.differences import central, staggered
from tikgen.expression.tree import FUNCTIONS, Node

AXES = "xyz"
FIRST = ("dx", "dy", "dz")
DERIVATIVES = (*FIRST, "dxx", "dyy", "dzz", "dxy", "dxz", "dyz")
AVERAGES = ("avgx", "avgy", "avgz")
OPERATORS = (*DERIVATIVES, "lap", "div", "curl", *AVERAGES)

# The weight of each value in a sum.
Terms = Mapping[Node, float]
# Returns a tree at the point some steps along an axis.
Shift = Callable[[Node, int, int], Node]


def axes_of(operator: str) -> tuple[int, ...]:
    """Return the axes in the name of a derivative or an average."""
    return tuple(AXES.index(letter) for letter in operator.removeprefix("avg").removeprefix("d"))


def first(
    node: Node, axis: int, order: int, spacing: float, shift: Shift, from_faces: bool | None
) -> Node:
    """Return the first derivative along an axis.

    Args:
        node: what is differentiated.
        axis: the axis.
        order: order of accuracy, even.
        spacing: distance between points.
        shift: moves a tree.
        from_faces: on a staggered grid, whether the values lie on faces; None elsewhere.
    """
    known = central(1, order) if from_faces is None else staggered(1, order, from_faces)
    return total({shift(node, axis, o): float(w) / spacing for o, w in known.items()})


def average(node: Node, axis: int, shift: Shift, from_faces: bool) -> Node:
    """Return the mean of the two values next to the middle between them."""
    return total({shift(node, axis, o): float(w) for o, w in staggered(0, 2, from_faces).items()})


def upwind(node: Node, axis: int, spacing: float, shift: Shift, along: Node) -> Node:
    """Return the one-sided first derivative, of order 1, on the side from which the flow comes."""
    before, after = shift(node, axis, -1), shift(node, axis, 1)
    from_below = total({node: 1 / spacing, before: -1 / spacing})
    from_above = total({after: 1 / spacing, node: -1 / spacing})
    is_rising = Node(">", (along, Node("number")))
    return Node("where", (is_rising, from_below, from_above))


def second(
    node: Node, axes: Iterable[int], order: int, spacing: tuple[float, ...], shift: Shift
) -> Node:
    """Return the sum of the second derivatives along some axes."""
    terms: dict[Node, float] = {}
    for axis in axes:
        for offset, weight in central(2, order).items():
            there = shift(node, axis, offset)
            terms[there] = terms.get(there, 0.0) + float(weight) / spacing[axis] ** 2
    return total(terms)


def total(terms: Terms) -> Node:
    """Return a weighted sum, in which values of equal weight are added first."""
    groups: dict[float, list[tuple[bool, Node]]] = {}
    for node, weight in terms.items():
        if weight:
            groups.setdefault(abs(weight), []).append((weight < 0, node))
    parts = []
    for weight, members in groups.items():
        is_negative = all(negative for negative, _ in members)
        signs = [(negative and not is_negative, node) for negative, node in members]
        part = _chain(sorted(signs, key=lambda part: part[0]))
        if weight != 1:
            number = Node("number", value=int(weight) if weight == int(weight) else weight)
            part = Node("*", (number, part))
        parts.append((is_negative, part))
    return _chain(sorted(parts, key=lambda part: part[0])) if parts else Node("number")


def _chain(parts: Iterable[tuple[bool, Node]]) -> Node:
    """Return the sum of nodes, each with whether it is subtracted."""

    def joined(left: tuple[bool, Node], right: tuple[bool, Node]) -> tuple[bool, Node]:
        return False, Node("-" if right[0] else "+", (left[1], right[1]))

    (negative, node), *rest = parts
    return reduce(joined, rest, (False, Node("neg", (node,)) if negative else node))[1]


KNOWN = (*FUNCTIONS, *OPERATORS)

"""Derivatives and averages of an expression, as trees over its values at neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from operator import itemgetter

from tikgen.expression.differences import central, staggered
from tikgen.expression.grid import Grid
from tikgen.expression.tree import FUNCTIONS, Node

INDICES = "ijk"
AXES = "xyz"
FIRST = ("dx", "dy", "dz")
DERIVATIVES = (*FIRST, "dxx", "dyy", "dzz", "dxy", "dxz", "dyz", "dyx", "dzx", "dzy")
AVERAGES = ("avgx", "avgy", "avgz")
OPERATORS = (*DERIVATIVES, "lap", "div", "curl", *AVERAGES)

# First derivatives of order 1 from below and from above: the weight at each offset.
_ONE_SIDED = tuple({at - 1: Fraction(-1), at: Fraction(1)} for at in (0, 1))
# The weight of each value in a sum.
Terms = Mapping[Node, float]
# Returns a tree at the point some steps along an axis.
Shift = Callable[[Node, int, int], Node]


def axes_of(operator: str) -> tuple[int, ...]:
    """Return the axes in the name of a derivative or an average, sorted: ``dyx`` is ``dxy``."""
    letters = operator.removeprefix("avg").removeprefix("d")
    return tuple(sorted(map(AXES.index, letters)))


def without_neighbours(name: str, is_given: bool) -> str:
    """Return why a name has no neighbours; one that is not given has a meaning in every text."""
    if is_given:
        return f"{name!r} is a number, and has no neighbours"
    what = "a coordinate" if name in AXES else "an index" if name in INDICES else "a number"
    return (
        f"{name!r} is {what}, and has no neighbours; give the array another name, or its type, as "
        f"in types={{{name!r}: 'f32'}}"
    )


def operands_problem(name: str, count: int, grid: Grid) -> str:
    """Return why an operator cannot be applied to so many operands on a grid, or nothing."""
    wanted = {"div": grid.dim, "curl": 2}.get(name, 1)
    if count != wanted:
        return f"{name}() takes {wanted} fields; got {count}"
    if name == "curl" and grid.dim != 2:
        return "curl() needs dim=2; in 3 dimensions write its components"
    axes = axes_of(name) if name not in ("lap", "div", "curl") else ()
    if max(axes, default=0) >= grid.dim:
        return f"{name}() needs dim={max(axes) + 1}"
    if name in AVERAGES and not grid.at:
        return "averages belong to staggered grids; say by at= where the fields lie"
    return ""


def nested(name: str, operand: str) -> str:
    """Return a derivative of order 3 or 4, such as ``dxxx``, as two that nest, or nothing."""
    axes = "".join(sorted(name[1:]))
    is_higher = name[:1] == "d" and len(axes) in (3, 4) and {*axes} <= {*AXES}
    return f"d{axes[:2]}(d{axes[2:]}({operand}))" if is_higher else ""


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
    found = _along(node, axis, known, shift)
    return total({there: float(weight) / spacing for there, weight in found.items()})


def average(node: Node, axis: int, shift: Shift, from_faces: bool) -> Node:
    """Return the mean of the two values next to the middle between them."""
    found = _along(node, axis, staggered(0, 2, from_faces), shift)
    return total({there: float(weight) for there, weight in found.items()})


def upwind(node: Node, axis: int, spacing: float, shift: Shift, along: Node) -> Node:
    """Return the one-sided first derivative, of order 1, on the side from which the flow comes."""
    sides = (one_sided(node, axis, spacing, shift, is_above) for is_above in (False, True))
    is_rising = Node(">", (along, Node("number")))
    return Node("where", (is_rising, *sides))


def one_sided(node: Node, axis: int, spacing: float, shift: Shift, is_above: bool) -> Node:
    """Return the difference to the next point below or above, over the distance."""
    found = _along(node, axis, _ONE_SIDED[is_above], shift)
    return total({there: float(weight) / spacing for there, weight in found.items()})


def second(
    node: Node, axes: Iterable[int], order: int, spacing: tuple[float, ...], shift: Shift
) -> Node:
    """Return the sum of the second derivatives along some axes."""
    terms: dict[Node, float] = {}
    for axis in axes:
        for there, weight in _along(node, axis, central(2, order), shift).items():
            terms[there] = terms.get(there, 0.0) + float(weight) / spacing[axis] ** 2
    return total(terms)


def _along(
    node: Node, axis: int, weights: Mapping[int, Fraction], shift: Shift
) -> dict[Node, Fraction]:
    """Return the weights of the values along an axis; those of equal values are added."""
    found: dict[Node, Fraction] = {}
    for offset, weight in weights.items():
        there = shift(node, axis, offset)
        found[there] = found[there] + weight if there in found else weight
    return found


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
        part = _chain(signs)
        if weight != 1:
            number = Node("number", value=int(weight) if weight == int(weight) else weight)
            part = Node("*", (number, part))
        parts.append((is_negative, part))
    return _chain(parts) if parts else Node("number")


def _chain(parts: Iterable[tuple[bool, Node]]) -> Node:
    """Return the sum of nodes, each with whether it is subtracted; those come last."""
    (is_negative, node), *rest = sorted(parts, key=itemgetter(0))
    found = Node("neg", (node,)) if is_negative else node
    for is_negative, node in rest:
        found = Node("-" if is_negative else "+", (found, node))
    return found


# Those of whole vectors are written out before a text is read; a sum has a line of its own.
KNOWN = (*FUNCTIONS, *OPERATORS, "grad", "dot", "cross", "norm", "sum")

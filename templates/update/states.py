"""Values that arrays of integers take although all is computed in floats: the states of cells.

A mask, a flag, or the number of a phase is a choice among conditions, whole numbers, and integers
that floats hold exactly, of the point or of its neighbours. Sums and products are no states: floats
round them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tikgen import DType
from tikgen.expression import Update
from tikgen.expression.spelling import shown
from tikgen.expression.tree import Node
from tikgen.template.boundaries import ELEMENTS

# The least and the greatest state.
Range = tuple[int, int]
# These, or why a value is no state.
States = Range | str
# The rules of the sides beyond which a neighbour of a point may lie, for an array and an offset.
Outside = Callable[[str, tuple[int, ...]], Iterable[tuple[str, Any]]]


class _NoStateError(Exception):
    """Says why a value is no state."""


def states_of(
    update: Update, type_of: Callable[[str], DType], dtype: DType, outside: Outside
) -> dict[str, States]:
    """Return the range of each value that is a state, by the name to which it is assigned.

    Of another value it is the reason why it is none.

    Args:
        update: the equations.
        type_of: returns the type of an array that is read, or of one over a face; of a scalar it is
            that in which is computed.
        dtype: the dtype in which is computed.
        outside: returns the rules of the sides beyond which a neighbour may lie.
    """
    exact = 2 ** (np.finfo(dtype.computed.numpy).nmant + 1)
    known: dict[str, States] = {}
    for name, (array, offset) in update.accesses.items():
        known[name] = _states_read(array, offset, type_of, outside)
    found: dict[str, States] = {}
    for name, expression in update.assignments.assignments:
        try:
            low, high = _states(expression.node, known, dtype)
            # Floats hold no other whole numbers beyond.
            if (most := max(-low, high)) > exact:
                raise _NoStateError(
                    f"it may be as large as {most}, and {dtype} rounds from {exact} on"
                )
            known[name] = low, high
        except _NoStateError as error:
            known[name] = str(error)
        if name not in update.reductions:
            found[name] = known[name]
    return found


def range_of(dtype: DType) -> Range:
    """Return the least and the greatest number of an integer type."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def holds(dtype: DType, states: States | None) -> bool:
    """Return whether a type is one of integers and has all the states."""
    if dtype.is_float or not isinstance(states, tuple):
        return False
    low, high = range_of(dtype)
    return low <= states[0] and states[1] <= high


def _states_read(
    array: str, offset: tuple[int, ...], type_of: Callable[[str], DType], outside: Outside
) -> States:
    """Return the states of an element of an array, or of what stands for one outside."""
    stored, what = type_of(array), shown(array)
    if stored.is_float:
        return f"{what} is {stored}"
    low, high = range_of(stored)
    for kind, number in outside(array, offset):
        beyond = f"outside of {what}, where {what}{list(offset)} may lie,"
        if kind in ELEMENTS:
            continue
        if kind != "value":
            return f"{beyond} the boundary has values that it computes"
        if isinstance(number, str):
            if (over_face := type_of(number)).is_float:
                return f"{beyond} the boundary has {number}, which is {over_face}"
            least, most = range_of(over_face)
        elif float(number).is_integer():
            least = most = int(number)
        else:
            return f"{beyond} the boundary has {number}, which is no whole number"
        low, high = min(low, least), max(high, most)
    return low, high


def _states(node: Node, known: Mapping[str, States], dtype: DType) -> Range:
    """Return the range of the value of an expression, or raise the reason why it is no state."""
    if node.is_bool:
        return 0, 1
    if node.op == "number":
        if not float(node.value).is_integer():
            raise _NoStateError(f"{node.value} is no whole number")
        return int(node.value), int(node.value)
    if node.op == "name":
        states = known.get(str(node.value), f"{shown(str(node.value))} is {dtype}")
        if isinstance(states, str):
            raise _NoStateError(states)
        return states
    if node.op not in ("neg", "cast", "where", "min", "max"):
        what = node.value if node.op == "constant" else node.op
        raise _NoStateError(f"{what} is computed in {dtype}")
    args = node.args[1:] if node.op == "where" else node.args
    lows, highs = zip(*(_states(arg, known, dtype) for arg in args), strict=True)
    if node.op == "neg":
        return -highs[0], -lows[0]
    return (max if node.op == "max" else min)(lows), (min if node.op == "min" else max)(highs)

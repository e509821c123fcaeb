"""Values that arrays of integers take although all is computed in floats: the states of cells.

A mask, a flag, or the number of a phase is a choice among conditions, whole numbers, and integers
that floats hold exactly. Sums and products are no states: floats round them.
"""

from collections.abc import Callable, Mapping

import numpy as np

from tikgen import DType
from tikgen.expression import Update
from tikgen.expression.tree import Node

# The least and the greatest state.
Range = tuple[int, int]


def states_of(update: Update, type_of: Callable[[str], DType], dtype: DType) -> dict[str, Range]:
    """Return the range of all values that are states, by the name to which they are assigned.

    Args:
        update: the equations.
        type_of: returns the type of an array that is read.
        dtype: the dtype in which is computed.
    """
    exact = 2 ** (np.finfo(dtype.computed.numpy).nmant + 1)
    known: dict[str, Range] = {}
    for name, (array, offset) in update.accesses.items():
        stored = type_of(array)
        # Outside of an array a boundary may have any number.
        if not stored.is_float and not any(offset):
            known[name] = range_of(stored)
    found: dict[str, Range] = {}
    for name, expression in update.assignments.assignments:
        states = _states(expression.node, known)
        known.pop(name, None)
        # Floats hold no other whole numbers beyond.
        if states is not None and max(-states[0], states[1]) <= exact:
            known[name] = states
            if name not in update.reductions:
                found[name] = states
    return found


def range_of(dtype: DType) -> Range:
    """Return the least and the greatest number of an integer type."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def holds(dtype: DType, states: Range | None) -> bool:
    """Return whether a type is one of integers and has all the states."""
    if dtype.is_float or states is None:
        return False
    low, high = range_of(dtype)
    return low <= states[0] and states[1] <= high


def _states(node: Node, known: Mapping[str, Range]) -> Range | None:
    """Return the range of the value of an expression, or None if it is no state."""
    if node.is_bool:
        return 0, 1
    if node.op == "number" and float(node.value).is_integer():
        return int(node.value), int(node.value)
    if node.op == "name":
        return known.get(str(node.value))
    if node.op not in ("neg", "cast", "where", "min", "max"):
        return None
    each = [_states(arg, known) for arg in (node.args[1:] if node.op == "where" else node.args)]
    ranges = [states for states in each if states is not None]
    if len(ranges) < len(each):
        return None
    lows, highs = zip(*ranges, strict=True)
    if node.op == "neg":
        return -highs[0], -lows[0]
    return (max if node.op == "max" else min)(lows), (min if node.op == "min" else max)(highs)

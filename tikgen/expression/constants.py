"""Folds what an expression computes from literals alone.

Taichi would fold it itself, in double precision and rounding quotients towards zero. Here NumPy
computes it, in the dtype of the kernel, so that no operation of literals reaches Taichi.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tikgen.expression.code import NumpyCode
from tikgen.expression.tree import LITERALS, Node, literal_value

_TRUTH = "truth"  # A truth value that is known; folding leaves none behind.


def fold(node: Node, dtype: np.dtype[Any], known: Mapping[str, Node] | None = None) -> Node:
    """Return the tree with every operation on literals done in ``dtype``, as NumPy does it.

    Args:
        node: the tree of a number.
        dtype: NumPy's dtype of every literal and result.
        known: names that stand for a literal.
    """
    return _Folding(dtype, known or {}).of(node)


def fold_assignments(
    assignments: Iterable[tuple[str, Node]], dtype: np.dtype[Any], stored: np.dtype[Any]
) -> list[tuple[str, Node]]:
    """Return (name, folded tree) in order, where a name that is given a literal stands for it.

    Args:
        assignments: names and trees.
        dtype: as :func:`fold` takes it.
        stored: NumPy's dtype of a name's value.
    """
    known: dict[str, Node] = {}
    found = []
    for name, node in assignments:
        folded = fold(node, dtype, known)
        found.append((name, folded))
        known.pop(name, None)
        if folded.op in LITERALS:
            known[name] = folded
            if stored != dtype:
                with np.errstate(over="ignore"):
                    value = float(stored.type(literal_value(folded)))
                known[name] = Node("number", value=value)
    return found


class _Folding:
    """Walks a tree from its leaves up."""

    def __init__(self, dtype: np.dtype[Any], known: Mapping[str, Node]) -> None:
        self._dtype = dtype
        self._known = known

    def of(self, node: Node) -> Node:
        """Return the tree with what is known put in its place."""
        if node.op == "name":
            return self._known.get(str(node.value), node)
        if not node.args:
            return node
        args = tuple(self.of(arg) for arg in node.args)
        folded = Node(node.op, args)
        is_refused = node.op == "**" and self._dtype.kind != "f" and not folded.has_small_exponent
        if all(arg.op in LITERALS for arg in args) and not is_refused:
            return self._computed(folded)
        return _chosen(node.op, args) or folded

    def _computed(self, node: Node) -> Node:
        """Return the literal that an operation on literals gives."""

        def literal(value: Any) -> Any:
            # An array: scalars of NumPy 1 would turn to wider types.
            return np.asarray(value, self._dtype).reshape(1)

        with np.errstate(all="ignore"):
            code = NumpyCode().number(node)
            value = eval(code, {"np": np, "dtype": literal, "__builtins__": {}})[0]
        if node.is_bool:
            return Node(_TRUTH, value=bool(value))
        if self._dtype.kind != "f":
            return Node("number", value=int(value))
        # The shortest text that gives the same number reads best.
        return Node("number", value=float(str(value)))


def _chosen(op: str, args: tuple[Node, ...]) -> Node | None:
    """Return what is left of an operation, one operand of which is a known truth value."""
    first = args[0]
    if op == "cast" and first.op == _TRUTH:
        return Node("number", value=int(first.value))
    if op == "not" and first.op == _TRUTH:
        return Node(_TRUTH, value=not first.value)
    if op == "where" and first.op == _TRUTH:
        return args[1] if first.value else args[2]
    if op in ("and", "or"):
        for one, other in (args, args[::-1]):
            if one.op == _TRUTH:
                return one if one.value == (op == "or") else other
    return None

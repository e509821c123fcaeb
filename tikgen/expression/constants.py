"""Folds the operations on literals in an expression.

Taichi would fold them in double precision, and round quotients towards zero. Here NumPy computes
them in the dtype of the kernel, so that no operation on literals reaches Taichi.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tikgen.expression.code import NumpyCode
from tikgen.expression.tree import LARGEST_EXPONENT, LITERALS, Node, literal_value

_LARGEST_BASE = 8  # Operations in the base of a power that may be computed twice.
_TRUTH = "truth"  # A known truth value; none is left after folding.


def fold(node: Node, dtype: np.dtype[Any], known: Mapping[str, Node] | None = None) -> Node:
    """Return the tree with every operation on literals computed by NumPy in ``dtype``.

    ``known`` has literals by the names that they replace.
    """
    return _Folding(dtype, known or {}).of(node)


def fold_assignments(
    assignments: Iterable[tuple[str, Node]], dtype: np.dtype[Any], stored: np.dtype[Any]
) -> list[tuple[str, Node]]:
    """Return (name, folded tree) in order; names that are assigned a literal are replaced by it.

    ``stored`` is the dtype of a name's value, and ``dtype`` that of every result.
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
    """Folds a tree from its leaves up."""

    def __init__(self, dtype: np.dtype[Any], known: Mapping[str, Node]) -> None:
        self._dtype = dtype
        self._known = known

    def of(self, node: Node) -> Node:
        if node.op == "name":
            return self._known.get(str(node.value), node)
        if not node.args:
            return node
        *outer, inner = node.chain
        found = self._over(inner, tuple(map(self.of, inner.args)))
        for each in reversed(outer):
            found = self._over(each, (found, self.of(each.args[1])))
        return found

    def _over(self, node: Node, args: tuple[Node, ...]) -> Node:
        """Return an operation on operands that are folded."""
        folded = node.over(args)
        is_refused = node.op == "**" and self._dtype.kind != "f" and not folded.has_small_exponent
        if all(arg.op in LITERALS for arg in args) and not is_refused:
            return self._computed(folded)
        if node.op == "**" and self._dtype.kind == "f":
            return _by_root(folded) or folded
        return _chosen(node.op, args) or folded

    def _computed(self, node: Node) -> Node:
        """Return the literal that results from an operation on literals."""

        def literal(value: Any) -> Any:
            # An array, since NumPy 1 converts scalars to wider types.
            return np.asarray(value, self._dtype).reshape(1)

        with np.errstate(all="ignore"):
            code = NumpyCode().number(node)
            value = eval(code, {"np": np, "dtype": literal, "__builtins__": {}})[0]
        if node.is_bool:
            return Node(_TRUTH, value=bool(value))
        if self._dtype.kind != "f":
            return Node("number", value=int(value))
        # The shortest text of the number.
        return Node("number", value=float(str(value)))


def _by_root(power: Node) -> Node | None:
    """Return a power with an exponent such as 1.5 as a product with a square root, else None.

    No compiler does so, and a processor takes twenty times as long for a power.
    """
    base, exponent = power.args
    value = literal_value(exponent) if exponent.op == "number" else 0
    whole, is_half = divmod(2 * abs(value), 2) if abs(value) <= LARGEST_EXPONENT else (0, 0)
    if is_half != 1 or (whole and base.operations > _LARGEST_BASE):
        return None
    found = Node("sqrt", (base,))
    if whole:
        factor = Node("**", (base, Node("number", value=int(whole)))) if whole > 1 else base
        found = Node("*", (factor, found))
    return found if value > 0 else Node("/", (Node("number", value=1), found))


def _chosen(op: str, args: tuple[Node, ...]) -> Node | None:
    """Return what an operation reduces to if an operand is a known truth value, else None."""
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

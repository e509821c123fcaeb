"""Finds indices that wrap around without a division.

A periodic neighbour is ``x[(i + 1) % n]``, or ``x[(i - 1 + n) % n]``. The division takes most of
the time of such a loop, and LLVM vectorises none with one. Where a loop says that the index is in
the same extent, it is wrapped around by comparisons, with the same results. Indices that are
clamped, as ``ti.max(i - 1, 0)`` and ``ti.min(i + 1, n - 1)``, are noted in the same way, for
:mod:`~tikgen.taichi.split_loops`. All are ``i32``: remainders of others have other results, as
``(i - 1) % n`` where ``n`` is a ``u32``.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import taichi as ti
from taichi.lang import impl
from taichi.types.ndarray_type import NdarrayType

from tikgen.taichi import runtime, trees

# Others take names that begin with tikgen_ for loops that were changed already.
WRAPPED, CLAMPED = "wrapped_by_tikgen", "clamped_by_tikgen"
LEAST, MOST = "least_by_tikgen", "most_by_tikgen"
# Each takes a comparison, which is less than a division up to here.
_MOST_STEPS = 4
# Operators that make an i32 of two.
_CLOSED = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


def rewrite(tree: ast.Module, kernel: Any, names: dict[str, Any]) -> None:
    """Change what wraps an index around or clamps it in the tree of a kernel.

    Args:
        tree: the tree, which is changed.
        kernel: the object behind a ``ti.kernel``.
        names: the names that Taichi finds in it; those of functions are added.
    """
    function = trees.function_of(tree)
    if function is None or runtime.default_types()["default_ip"] != "i32":
        return
    _Wrapped(function, kernel, names).visit(function)
    ast.fix_missing_locations(tree)
    names |= {WRAPPED: _wrapped, CLAMPED: _clamped, LEAST: ti.min, MOST: ti.max}


def names() -> tuple[str, str]:
    """Return the names of the functions of an index, a number that is added, and an extent."""
    return WRAPPED, CLAMPED


def _wrapped(index: Any, number: int, extent: Any) -> Any:
    """Return ``(index + number) % extent`` for an index below the extent."""
    found = impl.expr_init(index + number)
    for _ in range(abs(number)):
        if number > 0:
            found = impl.expr_init(ti.select(found >= extent, found - extent, found))
        else:
            found = impl.expr_init(ti.select(found < 0, found + extent, found))
    return found


def _clamped(index: Any, number: int, extent: Any) -> Any:
    """Return ``index + number``, or the next number that is in the extent."""
    return ti.max(index + number, 0) if number < 0 else ti.min(index + number, extent - 1)


_wrapped.__module__ = _clamped.__module__ = trees.OWN


class _Wrapped(ast.NodeTransformer):
    """Changes remainders within loops.

    Args:
        function: the tree of a kernel, in which no two variables have one name.
        kernel: the object behind the ``ti.kernel``.
        names: the names that Taichi finds in it.
    """

    def __init__(self, function: ast.FunctionDef, kernel: Any, names: Mapping[str, Any]) -> None:
        # Indices of a field may begin below 0.
        self._arrays, self._names = trees.axes_of(kernel), names
        self._types = {one.name: one.annotation for one in kernel.arguments}
        nodes = list(ast.walk(function))
        targets = [n.target for n in nodes if isinstance(n, ast.For)]
        self._arguments = {one.arg for one in function.args.args}
        # How often a name is given a value, by a loop or otherwise.
        stored = Counter(
            n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        counted = Counter(
            n.id
            for one in targets
            for n in ast.walk(one)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        self._assigned = stored - counted
        self._changing = {name for name, count in stored.items() if count > 1 or name in counted}
        # What names of extents stand for, and variables of i32 that are assigned once.
        self._meaning: dict[str, str] = {}
        self._fixed: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._note(node.targets[0], node.value)
        # The extent of each index of the loops around.
        self._extents: dict[str, str] = {}

    def _note(self, target: ast.expr, value: ast.expr) -> None:
        """Note which variables are assigned an i32 once, and which extents they stand for."""
        if isinstance(target, ast.Tuple):
            if _is_shape(value):
                shape = ast.unparse(value)
                values: Sequence[ast.expr] = [
                    ast.parse(f"{shape}[{axis}]", mode="eval").body
                    for axis in range(len(target.elts))
                ]
            elif isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                values = value.elts
            else:
                return
            for one, its in zip(target.elts, values, strict=True):
                self._note(one, its)
        elif isinstance(target, ast.Name) and target.id not in self._changing:
            if meaning := self._extent(value):
                self._meaning[target.id] = meaning
            elif self._is_i32(value):
                self._fixed.add(target.id)

    def _extent(self, given: ast.expr) -> str:
        """Return what tells an extent, the same for all its names; nothing for other code."""
        if isinstance(given, ast.Name):
            is_known = given.id in self._fixed or self._is_given_i32(given.id)
            return self._meaning.get(given.id, given.id if is_known else "")
        if trees.is_number(given):
            return ast.unparse(given)
        return ast.unparse(given) if self._is_extent(given) else ""

    def _is_extent(self, given: ast.expr) -> bool:
        """Return whether code is an extent of an argument, at a constant axis."""
        return (
            isinstance(given, ast.Subscript)
            and isinstance(given.slice, ast.Constant)
            and _is_shape(given.value)
            and ast.unparse(given.value)[:-6] in self._types
        )

    def _is_given_i32(self, name: str) -> bool:
        """Return whether a name is an argument of i32, or an integer of Python."""
        if name in self._changing or self._assigned[name]:
            return False
        annotation = self._types.get(name, ti.template())
        is_constant = isinstance(annotation, ti.template) and type(self._names.get(name)) is int
        return is_constant or annotation in (ti.i32, int)

    def _is_i32(self, value: ast.expr) -> bool:
        """Return whether code certainly computes an i32."""
        if isinstance(value, ast.BinOp) and isinstance(value.op, _CLOSED):
            return self._is_i32(value.left) and self._is_i32(value.right)
        if isinstance(value, ast.Call):
            called = trees.called(value, self._names)
            is_of_all = called in (ti.min, ti.max, min, max) and not value.keywords
            return called in (ti.i32, int) or (is_of_all and all(map(self._is_i32, value.args)))
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
            array = self._types.get(value.value.id)
            return isinstance(array, NdarrayType) and array.dtype is ti.i32
        return bool(self._extent(value))

    def visit_For(self, node: ast.For) -> ast.For:
        """Change a loop, which says in which extents its indices are."""
        before = dict(self._extents)
        self._extents |= self._ranges(node)
        for name in _names_in(node.target):
            if self._assigned[name]:
                self._extents.pop(name, None)
        self.generic_visit(node)
        self._extents = before
        return node

    def _ranges(self, loop: ast.For) -> dict[str, str]:
        """Return the extents in which the indices of a loop are; an empty one is not known."""
        names, over = _names_in(loop.target), loop.iter
        unknown = dict.fromkeys(names, "")
        if isinstance(over, ast.Name) and over.id in self._arrays:
            if isinstance(loop.target, ast.Name):
                names = [loop.target.id]
            return {name: f"{over.id}.shape[{axis}]" for axis, name in enumerate(names)}
        if not isinstance(over, ast.Call) or over.keywords:
            return unknown
        called = trees.called(over, self._names)
        if called is range and len(names) == 1 and 1 <= len(over.args) <= 2:
            given = over.args if len(over.args) == 1 else [ast.Tuple(over.args, ast.Load())]
        elif called is ti.ndrange and len(over.args) == len(names):
            given = over.args
        else:
            return unknown
        return {name: self._within(one) for name, one in zip(names, given, strict=True)}

    def _within(self, given: ast.expr) -> str:
        """Return the extent in which a range ends, if it begins at 0 or behind."""
        if isinstance(given, ast.Tuple):
            if len(given.elts) != 2 or not trees.is_number(given.elts[0]):
                return ""
            given = given.elts[1]
        if (
            isinstance(given, ast.BinOp)
            and isinstance(given.op, ast.Sub)
            and trees.is_number(given.right)
        ):
            given = given.left
        return self._extent(given)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Change a remainder, if it wraps around an index of a loop."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mod):
            return node
        extent = self._extent(node.right)
        found = _sum_of(node.left) if extent else None
        if found is None:
            return node
        index, number, others = "", 0, 0
        for sign, term in found:
            if trees.is_number(term):
                number += sign * int(ast.unparse(term))
            elif (
                isinstance(term, ast.Name) and self._extents.get(term.id) and not index and sign > 0
            ):
                index = term.id
            elif self._extent(term) != extent:
                others += 1
        if extent.isdigit() and int(extent):
            half = int(extent) // 2
            number = (number + half) % int(extent) - half
        if self._extents.get(index) != extent or others or abs(number) > _MOST_STEPS:
            return node
        return trees.expression(
            f"{WRAPPED}({index}, {number}, {extent})" if number else index, node
        )

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Change the extreme of an index of a loop and an end of its extent."""
        self.generic_visit(node)
        called = trees.called(node, self._names)
        if called not in (ti.min, ti.max, min, max) or len(node.args) != 2:
            return node
        for moved, end in (node.args, node.args[::-1]):
            if found := self._clamped(called in (ti.min, min), moved, end):
                return trees.expression(found, node)
        return node

    def _clamped(self, is_least: bool, moved: ast.expr, end: ast.expr) -> str:
        """Return the code of an index that is moved and clamped; nothing for others."""
        if not isinstance(moved, ast.BinOp) or not isinstance(moved.left, ast.Name):
            return ""
        index, number = moved.left.id, moved.right
        if not trees.is_number(number) or not (extent := self._extents.get(index)):
            return ""
        if not is_least:
            is_end = isinstance(moved.op, ast.Sub) and ast.unparse(end) == "0"
            return f"{CLAMPED}({index}, -{ast.unparse(number)}, {extent})" if is_end else ""
        if not isinstance(end, ast.BinOp) or not isinstance(end.op, ast.Sub):
            return ""
        is_last = ast.unparse(end.right) == "1" and self._extent(end.left) == extent
        is_moved_on = isinstance(moved.op, ast.Add)
        return (
            f"{CLAMPED}({index}, {ast.unparse(number)}, {extent})"
            if is_last and is_moved_on
            else ""
        )


def _sum_of(node: ast.expr) -> list[tuple[int, ast.expr]] | None:
    """Return the terms of a sum with their signs, None if it has others than names and numbers."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = _sum_of(node.left), _sum_of(node.right)
        if left is None or right is None:
            return None
        sign = 1 if isinstance(node.op, ast.Add) else -1
        return left + [(sign * one, term) for one, term in right]
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and trees.is_number(node.operand)
    ):
        return [(-1, node.operand)]
    return [(1, node)] if isinstance(node, ast.Name | ast.Constant | ast.Subscript) else None


def _is_shape(node: ast.expr) -> bool:
    is_shape = isinstance(node, ast.Attribute) and node.attr == "shape"
    return is_shape and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


def _names_in(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]

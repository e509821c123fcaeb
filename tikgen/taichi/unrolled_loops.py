"""Writes out loops of a few turns within parallel loops, as ``for a in range(3)`` of a stencil.

LLVM vectorises the innermost loop. Where that runs over the points of a stencil or the components
of a vector, each element is computed by itself: a mean of 27 neighbours took 32 times as long as
with its sums written out. On GPUs the loads of a loop wait for each other.
"""

from __future__ import annotations

import ast
import copy
import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import taichi as ti

from tikgen.taichi import folded_divisions, loop_marks, runtime, trees

# Turns of a loop, and of all that stand in each other.
_MOST_EACH, _MOST_TURNS = 27, 64
# Nodes, and conditions, of all that is written out of a function: Taichi takes a time for them that
# grows with their square.
_MOST_NODES, _MOST_CONDITIONS = 4000, 64
# Loops over rows or vectors of a multiple of so many elements are vectorised as they are.
_LANES = 8
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
# What may end a turn early, or has turns that are not known.
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.While)
_OWN = "tikgen_unrolled"
# The attribute of statements that says how many turns they are one of.
_TURNS = "tikgen_turns"


def is_wanted() -> bool:
    """Return whether loops are to be written out."""
    return (
        runtime.current_arch() in ("cpu", "cuda") and runtime.default_types()["default_ip"] == "i32"
    )


def rewrite(tree: ast.Module, names: dict[str, Any], is_kernel: bool = True) -> None:
    """Write out the short loops of a function, or those within the parallel loops of a kernel.

    Args:
        tree: the tree, which is changed.
        names: the names that Taichi finds in it; that of Taichi is added.
        is_kernel: whether loops of the first level are parallel.
    """
    function = trees.function_of(tree)
    if function is None:
        return
    nodes = list(ast.walk(function))
    loops = sum(isinstance(node, ast.For) for node in nodes)
    are_inner = loops > sum(isinstance(one, ast.For) for one in function.body if is_kernel)
    if not are_inner or any(isinstance(node, ast.Name) and _OWN in node.id for node in nodes):
        return
    known = {one.arg for one in function.args.args}
    unrolling = _Unrolling(names, function, is_kernel)
    if not is_kernel:
        function.body = unrolling.statements(function.body, known)
    for statement in function.body if is_kernel else ():
        if isinstance(statement, ast.For) and not trees.is_static(statement.iter):
            statement.body = unrolling.within(statement, known)
        known |= trees.assigned_by([statement])
    if unrolling.has_some:
        names["tikgen_ti"] = ti
        ast.fix_missing_locations(function)


class _Unrolling:
    def __init__(
        self, names: Mapping[str, Any], function: ast.FunctionDef, is_kernel: bool
    ) -> None:
        self._names, self._arguments = names, {one.arg for one in function.args.args}
        self._variables = trees.stored(function.body)
        self._count = itertools.count()
        self._numbers: dict[str, int] = {}  # What indices of loops that are written out stand for.
        # What is no constant: arguments of a kernel, and indices of loops around.
        self._varying = self._arguments - self._variables if is_kernel else set[str]()
        loops = [node.target for node in ast.walk(function) if isinstance(node, ast.For)]
        assigned = [n for n in ast.walk(function) if isinstance(n, ast.Assign | ast.AugAssign)]
        self._indices = trees.stored(loops) - trees.stored(assigned)
        varying = self._varying | self._indices
        self._once = folded_divisions.known_to_vary(function, varying)
        self._divisions = folded_divisions.count([function], varying | self._once, names)
        self._nodes = self._conditions = 0  # What is written out has so many.
        self.has_some = False

    def within(self, loop: ast.For, known: set[str]) -> list[ast.stmt]:
        """Return the body of a loop that stays, in which short loops are written out."""
        own = trees.stored([loop.target])
        before = self._varying
        self._varying = before | own
        try:
            return self.statements(loop.body, known | own)
        finally:
            self._varying = before

    def statements(self, body: Sequence[ast.stmt], known: set[str]) -> list[ast.stmt]:
        """Return statements in which short loops are written out.

        Args:
            body: the statements, which are changed.
            known: the names of variables that are known before.
        """
        known, found = set(known), []
        for statement in body:
            if isinstance(statement, ast.If | ast.While):
                inner = known | trees.stored([statement.test])
                statement.body = self.statements(statement.body, inner)
                statement.orelse = self.statements(statement.orelse, inner)
            elif isinstance(statement, ast.For):
                found += self._written_out(statement, known)
                continue
            known |= trees.assigned_by([statement])
            found.append(statement)
        return found

    def _written_out(self, loop: ast.For, known: set[str]) -> list[ast.stmt]:
        """Return the turns of a loop, or the loop if it is none of a few."""
        places = self._places(loop, known)
        if not places:
            loop.body = self.within(loop, known)
            return [loop]
        body = self.within(copy.deepcopy(loop), known)
        nodes = [node for one in body for node in ast.walk(one)]
        turns = len(places) * max((getattr(one, _TURNS, 1) for one in body), default=1)
        if turns > _MOST_TURNS:
            return [loop]
        more = len(places) * len(nodes)
        conditions = len(places) * sum(isinstance(node, ast.If | ast.IfExp) for node in nodes)
        if self._nodes + more > _MOST_NODES or self._conditions + conditions > _MOST_CONDITIONS:
            loop.body = body
            return [loop]
        changed = trees.stored(loop.body) & known
        if any(isinstance(node, ast.For) for node in nodes) or (changed and self._divides(loop)):
            loop.body = body
            return [loop]
        targets = [one.id for one in trees.listed(loop.target) if isinstance(one, ast.Name)]
        own, suffix = trees.stored(body) - known, f"_{_OWN}{next(self._count)}_"
        # An index has a name for each of its values.
        indices = {
            (name, at): f"{name}{suffix}{turn}"
            for name, ends in zip(targets, zip(*places, strict=True), strict=True)
            for turn, at in enumerate(dict.fromkeys(ends))
        }
        self._numbers |= {name: at for (_, at), name in indices.items()}
        values = (f"{n} = tikgen_ti.cast({at}, tikgen_ti.i32)" for (_, at), n in indices.items())
        found = trees.statements("\n".join(values), loop)
        is_marking = loop_marks.is_marking()
        for turn, place in enumerate(places):
            names = {name: f"{name}{suffix}{turn}" for name in own}
            names |= {at[0]: indices[at] for at in zip(targets, place, strict=True)}
            turned = [trees.Renamed(names).visit(one) for one in copy.deepcopy(body)]
            found += [folded_divisions.Computed(self._numbers).visit(one) for one in turned]
            if is_marking:
                found.append(ast.copy_location(ast.Pass(), loop))
                setattr(found[-1], loop_marks.BETWEEN, True)
        if folded_divisions.count(found, self._varying | self._once, self._names):
            loop.body = body
            return [loop]
        for one in found:
            setattr(one, _TURNS, turns)
        self.has_some = True
        self._nodes, self._conditions = self._nodes + more, self._conditions + conditions
        return found

    def _divides(self, loop: ast.For) -> bool:
        """Return whether another part of the function divides what may be constant."""
        varying = self._varying | self._indices | self._once
        return self._divisions > folded_divisions.count([loop], varying, self._names)

    def _places(self, loop: ast.For, known: set[str]) -> list[tuple[int, ...]]:
        """Return the indices of the turns of a loop that may be written out, none of others."""
        listed, ranges = trees.listed(loop.target), self._ranges(loop.iter)
        targets = [one.id for one in listed if isinstance(one, ast.Name)]
        if not ranges or len(targets) != len(ranges) or max(map(len, ranges)) > _MOST_EACH:
            return []
        stored = trees.stored(loop.body)
        # Names that the body may read before it assigns them are others.
        if set(targets) & (known | stored) or (stored | set(targets)) - known & self._names.keys():
            return []
        nodes = [node for one in loop.body for node in ast.walk(one)]
        if loop.orelse or any(isinstance(node, _LEAVING) for node in nodes):
            return []
        if len(ranges[-1]) % _LANES == 0 and self._is_row(nodes, targets[-1]):
            return []
        return list(itertools.product(*ranges))

    def _is_row(self, nodes: Sequence[ast.AST], name: str) -> bool:
        """Return whether a loop runs over a local vector, or along the last axis of arrays."""
        is_row, is_shifted = False, False
        for node in nodes:
            if not isinstance(node, ast.Subscript):
                continue
            *others, last = trees.listed(node.slice)
            used = {one.id for one in ast.walk(last) if isinstance(one, ast.Name)}
            if used == {name} and not others:
                owner = node.value
                if isinstance(owner, ast.Name) and owner.id in self._variables:
                    return True
            elif name in used:
                is_row |= used == {name}
                is_shifted |= used != {name}
        return is_row and not is_shifted

    def _ranges(self, over: ast.expr) -> list[range]:
        """Return the ranges that a loop has, none if they are not numbers."""
        if not isinstance(over, ast.Call) or over.keywords:
            return []
        function = trees.called(over, self._names)
        if function is ti.ndrange:
            given = [[0, one] if isinstance(one, int) else one for one in self._values(over.args)]
        elif function is range:
            ends = self._values(over.args)
            given = [[0, *ends] if len(ends) == 1 else ends]
        else:
            return []
        are_ends = all(
            isinstance(one, list) and len(one) == 2 and all(isinstance(end, int) for end in one)
            for one in given
        )
        return [range(*one) for one in given] if are_ends else []

    def _values(self, given: Sequence[ast.expr]) -> list[Any]:
        """Return integers, lists of them for tuples, and None for what is unknown."""
        return [self._value(one) for one in given]

    def _value(self, given: ast.expr) -> Any:
        if isinstance(given, ast.Tuple):
            return self._values(given.elts)
        if isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.USub):
            value = self._value(given.operand)
            return -value if isinstance(value, int) else None
        if isinstance(given, ast.BinOp) and type(given.op) in _OPERATORS:
            left, right = self._values((given.left, given.right))
            are_known = isinstance(left, int) and isinstance(right, int)
            return _OPERATORS[type(given.op)](left, right) if are_known else None
        if isinstance(given, ast.Name):
            is_local = given.id in self._arguments | self._variables
            value = None if is_local else self._names.get(given.id)
        else:
            value = given.value if isinstance(given, ast.Constant) else None
        return value if type(value) is int else None

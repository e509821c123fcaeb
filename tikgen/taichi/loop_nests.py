"""Runs nested loops in parallel as a whole, for GPUs.

Taichi runs the outermost loop of ``for i in range(n): for j in range(m): ...`` in parallel, and the
others within its threads: a GPU has work for hundreds of times as many. Where each element of the
result is written by one turn of the nest, and read by no other, all loops are one
``for i, j in ti.ndrange(n, m)``, with the same results; so they are where all turns add to one
element, which they do in any order as it is. An array that is passed twice is taken for two: what a
nest writes is read by no other turn under another name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taichi as ti
from taichi.lang import kernel_impl

from tikgen.taichi import runtime, trees

_OWN = "tikgen_nest"
_ATOMIC = (ti.atomic_add, ti.atomic_sub, ti.atomic_max, ti.atomic_min)
# Of an index: its loop, and the number that is added to it.
_Index = tuple[str, str]
# For each loop the axis on which its index is, and the number that is added.
_Place = dict[str, tuple[int, str]]


class _Refused(Exception):
    """A nest is left as it is written."""


def is_wanted(kernel: Any, is_own: Callable[[Any], bool]) -> bool:
    """Return whether nests of a kernel that is being compiled are to be changed.

    Args:
        kernel: the object behind a ``ti.kernel``.
        is_own: returns whether a Python function is of a kernel of tikgen.
    """
    is_forward = kernel.autodiff_mode == kernel_impl.AutodiffMode.NONE
    is_on_gpu = runtime.current_arch() in ("cuda", "vulkan")
    return is_on_gpu and is_forward and is_own(kernel.func)


def rewrite(tree: ast.Module, names: dict[str, Any]) -> None:
    """Change the nested loops in the tree of a kernel that may run in parallel as a whole.

    Args:
        tree: the tree, which is changed.
        names: the names that Taichi finds in it; those of functions are added.
    """
    function = trees.function_of(tree)
    if function is None or _OWN in ast.dump(function) or _has_aliases(function, names):
        return
    outer = trees.outer_names(function)
    trees.replace_loops(function, lambda loop, _: [_as_a_whole(loop, outer, names)])
    names |= {f"{_OWN}_range": ti.ndrange, f"{_OWN}_cast": ti.cast, f"{_OWN}_index": ti.i32}


def _has_aliases(function: ast.FunctionDef, names: Mapping[str, Any]) -> bool:
    """Return whether elements are found by names such as that of ``z = ti.static(self.y)``."""
    nodes = list(ast.walk(function))
    static = [
        node
        for node in nodes
        if isinstance(node, ast.Assign | ast.NamedExpr)
        and isinstance(node.value, ast.Call)
        and trees.called(node.value, names) is ti.static
        and any(isinstance(one, ast.Attribute) for one in node.value.args)
    ]
    subscripted = {getattr(n.value, "id", "") for n in nodes if isinstance(n, ast.Subscript)}
    return bool(trees.stored(static) & subscripted)


def _as_a_whole(statement: ast.stmt, outer: set[str], names: Mapping[str, Any]) -> ast.stmt:
    """Return as many loops of a nest as one as may be, or the statement itself."""
    levels: list[ast.For] = []
    body = [statement]
    while len(body) == 1 and isinstance(body[0], ast.For) and not body[0].orelse:
        levels.append(body[0])
        body = body[0].body
    for depth in range(len(levels), 1, -1):
        try:
            return _Nest(levels[:depth], outer, names).as_one()
        except _Refused:
            continue
    return statement


class _Nest:
    """Loops of which each but the last one holds the next one and nothing else.

    Args:
        levels: the loops.
        outer: names of variables and arguments that live outside of them.
        names: the names that Taichi finds.

    Raises:
        _Refused: if they may depend on their order.
    """

    def __init__(self, levels: list[ast.For], outer: set[str], names: Mapping[str, Any]) -> None:
        self._levels = levels
        self._body = levels[-1].body
        self._names = names
        self._indices = [one.target.id for one in levels if isinstance(one.target, ast.Name)]
        self._own = trees.stored(self._body)
        if len(set(self._indices)) < len(levels) or self._own & {*outer, *self._indices}:
            raise _Refused
        self._ranges = [self._range(level.iter) for level in levels]
        nodes = [node for statement in self._body for node in ast.walk(statement)]
        # Elements that all turns add to or take an extreme of, and the calls that do so.
        self._shared = [one for node in nodes if (one := self._shared_element(node)) is not None]
        # For each array that is written, where its indices are those of the loops.
        self._written: dict[str, _Place] = {}
        if trees.leaves(self._body):
            raise _Refused
        for node in nodes:
            self._check(node)
        if not self._written and not self._shared:
            raise _Refused
        for statement in self._body:
            self._check_places(statement)
        self._check_fields(nodes)

    def as_one(self) -> ast.For:
        """Return the nest as one loop."""
        head = f"for {', '.join(self._indices)} in {_OWN}_range({', '.join(self._ranges)})"
        (loop,) = trees.statements(f"{head}:\n    pass", self._levels[0])
        assert isinstance(loop, ast.For)
        loop.body = self._body
        return loop

    def _range(self, over: ast.expr) -> str:
        """Return the code of a range with ends that no turn changes."""
        is_range = (
            isinstance(over, ast.Call)
            and trees.called(over, self._names) is range
            and 1 <= len(over.args) <= 2
            and not over.keywords
        )
        if not is_range:
            raise _Refused
        assert isinstance(over, ast.Call)
        for node in ast.walk(ast.Tuple(over.args, ast.Load())):
            if isinstance(node, ast.Name) and node.id in {*self._indices, *self._own}:
                raise _Refused
            if isinstance(node, ast.Call) and not trees.is_pure(node, self._names):
                raise _Refused
            if isinstance(node, ast.Subscript) and not trees.is_extent(node):
                raise _Refused
        # As Taichi takes the ends of a range.
        ends = [f"{_OWN}_cast({ast.unparse(end)}, {_OWN}_index)" for end in over.args]
        return ends[0] if len(ends) == 1 else f"({', '.join(ends)})"

    def _shared_element(self, node: ast.AST) -> ast.Subscript | None:
        """Return the element at constant indices that a statement adds to, or the like."""
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            target: ast.expr = node.target
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if trees.called(node.value, self._names) not in _ATOMIC or not node.value.args:
                return None
            target = node.value.args[0]
        else:
            return None
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            return None
        is_known = all(isinstance(one, ast.Constant) for one in trees.listed(target.slice))
        return target if is_known and target.value.id not in self._own else None

    def _is_shared(self, node: ast.AST) -> bool:
        return any(node is one for one in self._shared)

    def _check(self, node: ast.AST) -> None:
        """Refuse what may depend on the order of turns; note what is written."""
        if isinstance(node, ast.Call):
            is_atomic = bool(node.args) and self._is_shared(node.args[0])
            if not is_atomic and not trees.is_pure(node, self._names):
                raise _Refused
        if isinstance(node, ast.Assert | ast.With | ast.NamedExpr | ast.Starred):
            raise _Refused
        is_written = isinstance(node, ast.Subscript | ast.Attribute) and isinstance(
            node.ctx, ast.Store
        )
        if not is_written or self._is_shared(node):
            return
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            raise _Refused
        if node.value.id in self._own:  # A component of a vector.
            return
        place = self._place(node)
        if (
            len(place) < len(self._levels)
            or self._written.setdefault(node.value.id, place) != place
        ):
            raise _Refused

    def _check_places(self, node: ast.AST) -> None:
        """Refuse other uses of what is written than the element of the turn."""
        if self._is_shared(node):
            return
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            name = node.value.id
            if self._is_changed_by_all(name):
                raise _Refused
            if name in self._written and self._place(node) != self._written[name]:
                raise _Refused
            self._check_places(node.slice)
            return
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            return
        if isinstance(node, ast.Name) and (
            node.id in self._written or self._is_changed_by_all(node.id)
        ):
            raise _Refused
        for child in ast.iter_child_nodes(node):
            self._check_places(child)

    def _check_fields(self, nodes: Sequence[ast.AST]) -> None:
        """Refuse uses of a field that is written under another name."""
        written = {*self._written, *(getattr(one.value, "id", "") for one in self._shared)}
        fields = [self._names[name] for name in written & self._names.keys()]
        for node in nodes if fields else ():
            is_named = isinstance(node, ast.Name) and node.id not in written
            found = self._names.get(node.id) if is_named and isinstance(node, ast.Name) else None
            is_member = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)
            is_extent = isinstance(node, ast.Subscript) and trees.is_extent(node)
            if (is_member and not is_extent) or any(found is one for one in fields):
                raise _Refused

    def _is_changed_by_all(self, name: str) -> bool:
        """Return whether all turns add to an element of an array, or take an extreme of it."""
        return any(getattr(one.value, "id", "") == name for one in self._shared)

    def _place(self, element: ast.Subscript) -> _Place:
        """Return on which axes an element's indices are those of the loops."""
        found: _Place = {}
        for axis, one in enumerate(trees.listed(element.slice)):
            if index := _index(one, self._indices):
                found.setdefault(index[0], (axis, index[1]))
        return found


def _index(given: ast.expr, indices: Sequence[str]) -> _Index | None:
    """Return which loop an index is of, and what is added to it."""
    if isinstance(given, ast.Name):
        return (given.id, "") if given.id in indices else None
    if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add | ast.Sub):
        is_index = isinstance(given.left, ast.Name) and given.left.id in indices
        if isinstance(given.left, ast.Name) and is_index and trees.is_number(given.right):
            sign = "+" if isinstance(given.op, ast.Add) else "-"
            return given.left.id, f"{sign}{ast.unparse(given.right)}"
    return None

"""Has a thread compute four elements of a short parallel loop, and load all before it stores.

A thread of a GPU waits for what it loads, and a thread of Taichi's loads what one element takes:
too few bytes are on their way. ``y[i] = 2 * x[i] + 1`` took 1.3 times as long as a copy on an H200,
and takes as long with four elements a thread (thread coarsening). Where elements are found by the
indices of the loop alone, the four are far from each other, so that neighbouring threads have
neighbouring elements. Where a loop reads neighbours, they are next to each other on the first axis,
and share what is read. In small arrays each thread has one element, as before.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taichi as ti
from taichi.lang import impl, kernel_impl

from tikgen.taichi import loop_spaces, runtime, trees
from tikgen.taichi.loop_spaces import Space
from tikgen.taichi.loop_sums import dtypes_of

_EACH = 4
# Elements from which each thread has four; less would leave multiprocessors without work.
_MANY = 1 << 20
# So many on the other axes: neighbouring threads have neighbours on them.
_LEAST = 8
# The elements of a thread are at multiples of so many, as what a warp loads at once is.
_ALIGNED = 128
# Of a body. Longer ones take the registers of other threads.
_MOST_STORES, _MOST_LOADS, _MOST_NODES = 2, 32, 600
# Functions of many operations, but for singles under fast math.
_LONG = (ti.acos, ti.asin, ti.atan2, ti.cos, ti.exp, ti.log, ti.pow, ti.sin, ti.tan, ti.tanh)
_OWN = "tikgen_each"
_FAR = """
{extents}
{own}_total = {total}
{own}_turns = tikgen_ti.select(
    {own}_total < {many},
    {own}_total,
    tikgen_ti.raw_div({own}_total + {rounding}, {rounded}) * {aligned},
)
for {own}_turn in range({own}_turns):
    if {own}_turn + {last} * {own}_turns < {own}_total:
        _each()
    else:
        {own}_at = {own}_turn
        while {own}_at < {own}_total:
            _one()
            {own}_at += {own}_turns
"""
_NEAR = """
{extents}
{own}_count = tikgen_ti.select(({total} < {many}) | ({inner} < {least}), 1, {each})
{own}_turns = tikgen_ti.raw_div({own}_extent0 + {own}_count - 1, {own}_count)
for {own}_turn, {others} in tikgen_ti.ndrange({own}_turns, {ranges}):
    {own}_first = {own}_turn * {own}_count
    if {own}_count == {each} and {own}_first + {last} < {own}_extent0:
        _each()
    else:
        {own}_at = {own}_first
        while {own}_at < tikgen_ti.min({own}_first + {own}_count, {own}_extent0):
            _one()
            {own}_at += 1
"""


def is_wanted(kernel: Any, is_own: Callable[[Any], bool]) -> bool:
    """Return whether loops of a kernel that is being compiled are to be changed.

    Args:
        kernel: the object behind a ``ti.kernel``.
        is_own: returns whether a Python function is of a kernel of tikgen.
    """
    is_forward = kernel.autodiff_mode == kernel_impl.AutodiffMode.NONE
    is_usual = is_forward and runtime.default_types()["default_ip"] == "i32"
    return runtime.current_arch() == "cuda" and is_usual and is_own(kernel.func)


def rewrite(tree: ast.Module, kernel: Any, names: dict[str, Any]) -> None:
    """Change the short loops over arrays in the tree of a kernel.

    Args:
        tree: the tree, which is changed.
        kernel: the object behind a ``ti.kernel``.
        names: the names that Taichi finds in it; those of dtypes and of Taichi are added.
    """
    function = tree.body[0] if tree.body else None
    if not isinstance(function, ast.FunctionDef) or _OWN in ast.dump(function):
        return
    axes, dtypes = trees.axes_of(kernel), dtypes_of(kernel)
    names |= {"tikgen_ti": ti, **{f"{_OWN}_dtype_{name}": each for name, each in dtypes.items()}}
    outer = {one.arg for one in function.args.args} | trees.assigned_by(function.body)
    body: list[ast.stmt] = []
    for number, statement in enumerate(function.body):
        # What is said of a loop, such as its threads, is said of the loop as it is written.
        before = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
        loop = None
        if isinstance(statement, ast.For) and not isinstance(before, ast.Call):
            space = loop_spaces.space_of(statement, axes, names)
            if space and _is_short(statement, space, dtypes, names, outer):
                loop = _Loop(statement, space, f"{_OWN}{number}")
        body += loop.coarsened() if loop else [statement]
    function.body = body
    ast.fix_missing_locations(tree)


def _is_short(
    loop: ast.For,
    space: Space,
    dtypes: Mapping[str, Any],
    names: Mapping[str, Any],
    outer: set[str],
) -> bool:
    """Return whether a loop computes numbers one after the other, and stores some."""
    ends = ast.parse(", ".join(f"{one.start}, {one.stop}" for one in space.ranges))
    known = {node.id for node in ast.walk(ends) if isinstance(node, ast.Name)}
    if not known - {"tikgen_ti"}:  # Few elements.
        return False
    is_single = all(dtype is ti.f32 for dtype in dtypes.values()) and impl.current_cfg().fast_math
    stores = loads = count = 0
    own = {one.name for one in space.ranges} | {space.vector}
    for statement in loop.body:
        targets = _targets(statement)
        variables = [one.id for one in targets if isinstance(one, ast.Name)]
        if _is_store(statement):
            stores += 1
            if len(targets) > 1 or not _is_changed_once(statement, space, dtypes):
                return False
        elif not targets or len(variables) < len(targets) or (outer | own) & set(variables):
            return False
        for node in ast.walk(statement):
            count += 1
            loads += isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
            if isinstance(node, ast.Call) and not trees.is_pure(node, names):
                return False
            if not is_single and _is_long(node, names):
                return False
            if isinstance(node, ast.NamedExpr | ast.Starred | ast.comprehension | ast.IfExp):
                return False
    return 1 <= stores <= _MOST_STORES and 1 <= loads <= _MOST_LOADS and count <= _MOST_NODES


def _is_long(node: ast.AST, names: Mapping[str, Any]) -> bool:
    """Return whether an operation takes many instructions, but for singles under fast math."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return not trees.is_number(node.right)
    return isinstance(node, ast.Call) and trees.called(node, names) in _LONG


def _plain(statement: ast.stmt) -> ast.stmt:
    """Return an addition to an element as an assignment: no other thread adds to it."""
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Subscript):
        return statement
    old = copy.deepcopy(statement.target)
    old.ctx = ast.Load()
    assert isinstance(old.value, ast.Name)
    # As Taichi adds.
    cast = trees.expression(f"tikgen_ti.cast(0, {_OWN}_dtype_{old.value.id})", statement)
    assert isinstance(cast, ast.Call)
    cast.args[0] = statement.value
    return ast.copy_location(
        ast.Assign([statement.target], ast.BinOp(old, statement.op, cast)), statement
    )


def _targets(statement: ast.stmt) -> list[ast.expr]:
    """Return what a statement gives values, nothing if it does anything else."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return trees.listed(statement.targets[0])
    if isinstance(statement, ast.AugAssign):
        return [statement.target]
    return []


def _is_store(statement: ast.stmt) -> bool:
    """Return whether a statement changes an element of an array."""
    return any(isinstance(target, ast.Subscript) for target in _targets(statement))


def _is_changed_once(statement: ast.stmt, space: Space, dtypes: Mapping[str, Any]) -> bool:
    """Return whether a store is to a number of an array, and an addition to none of other turns."""
    (target,) = _targets(statement)
    assert isinstance(target, ast.Subscript)
    if not isinstance(target.value, ast.Name) or target.value.id not in dtypes:
        return False
    if isinstance(statement, ast.Assign):
        return True
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add | ast.Sub):
        return False
    if space.vector:
        return ast.unparse(target.slice) == space.vector
    indices = [one.id for one in trees.listed(target.slice) if isinstance(one, ast.Name)]
    return {one.name for one in space.ranges} <= set(indices)


class _Loop:
    """A loop that is to be changed.

    Args:
        loop: the loop.
        space: what it runs over.
        own: what names of the new code begin with.
    """

    def __init__(self, loop: ast.For, space: Space, own: str) -> None:
        self._loop, self._space, self._own = loop, space, own
        self._body = [_plain(statement) for statement in loop.body]

    def coarsened(self) -> list[ast.stmt]:
        """Return what takes the place of the loop."""
        ranges, own = self._space.ranges, self._own
        is_near = len(ranges) > 1 and self._reads_neighbours()
        code = (_NEAR if is_near else _FAR).format(
            own=own,
            extents="\n".join(
                f"{own}_extent{axis} = tikgen_ti.max({one.stop} - ({one.start}), 0)"
                for axis, one in enumerate(ranges)
            ),
            total=" * ".join(f"{own}_extent{axis}" for axis in range(len(ranges))),
            inner=" * ".join(f"{own}_extent{axis}" for axis in range(1, len(ranges))),
            many=_MANY,
            least=_LEAST,
            each=_EACH,
            last=_EACH - 1,
            rounding=_EACH * _ALIGNED - 1,
            rounded=_EACH * _ALIGNED,
            aligned=_ALIGNED,
            others=", ".join(one.name for one in ranges[1:]),
            ranges=", ".join(f"({one.start}, {one.stop})" for one in ranges[1:]),
        )
        made = trees.statements(code, self._loop)
        one = self._near if is_near else self._far
        first: list[ast.stmt] = []
        then: list[ast.stmt] = []
        for number in range(_EACH):
            at = f"{own}_first + {number}" if is_near else f"{own}_turn + {number} * {own}_turns"
            before, behind = self._halves(one(at), f"_tikgen{number}")
            first += before
            then += behind
        turn = [*trees.statements("\n".join(one(f"{own}_at")), self._loop), *self._body]
        _Filled({"_each": first + then, "_one": turn}).visit(ast.Module(made, []))
        return made

    def _near(self, at: str) -> list[str]:
        """Return the code that finds the first index of an element."""
        ranges = self._space.ranges
        return [f"{ranges[0].name} = {ranges[0].start} + {at}", *self._vector()]

    def _far(self, at: str) -> list[str]:
        """Return the code that finds the indices of an element by its number."""
        ranges, own = self._space.ranges, self._own
        lines, left = [], at
        for axis in range(len(ranges) - 1, 0, -1):
            name, start, _ = ranges[axis]
            extent = f"{own}_extent{axis}"
            lines.append(f"{own}_left{axis} = tikgen_ti.raw_div({left}, {extent})")
            lines.append(f"{name} = {start} + {left} - {own}_left{axis} * {extent}")
            left = f"{own}_left{axis}"
        return [*lines, f"{ranges[0].name} = {ranges[0].start} + {left}", *self._vector()]

    def _vector(self) -> list[str]:
        if not self._space.vector:
            return []
        indices = ", ".join(one.name for one in self._space.ranges)
        return [f"{self._space.vector} = tikgen_ti.Vector([{indices}])"]

    def _halves(self, indices: Sequence[str], suffix: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Return what an element takes up to what it stores first, and from there on."""
        body = [*trees.statements("\n".join(indices), self._loop), *copy.deepcopy(self._body)]
        place = next(number for number, one in enumerate(body) if _is_store(one))
        store = body[place]
        (head,) = trees.statements(f"{self._own}_value = 0", store)
        (tail,) = trees.statements(f"x = {self._own}_value", store)
        assert isinstance(store, ast.Assign)
        assert isinstance(head, ast.Assign) and isinstance(tail, ast.Assign)
        head.value, tail.targets = store.value, store.targets
        first, then = [*body[:place], head], [tail, *body[place + 1 :]]
        changed = _Renamed(trees.assigned_by([*first, *then]), suffix)
        return [changed.visit(one) for one in first], [changed.visit(one) for one in then]

    def _reads_neighbours(self) -> bool:
        """Return whether the first index is used otherwise than as the first of an element."""
        name = self._space.vector or self._space.ranges[0].name
        plain = 0
        used = 0
        for statement in self._body:
            for node in ast.walk(statement):
                used += isinstance(node, ast.Name) and node.id == name
                if isinstance(node, ast.Subscript):
                    index = trees.listed(node.slice)[0]
                    plain += isinstance(index, ast.Name) and index.id == name
        return used > plain


class _Renamed(ast.NodeTransformer):
    """Gives variables other names."""

    def __init__(self, known: set[str], suffix: str) -> None:
        self._known, self._suffix = known, suffix

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self._known:
            node.id += self._suffix
        return node


class _Filled(ast.NodeTransformer):
    """Puts statements in the place of calls without arguments."""

    def __init__(self, statements: Mapping[str, list[ast.stmt]]) -> None:
        self._statements = statements

    def visit_Expr(self, node: ast.Expr) -> Any:
        name = ast.unparse(node.value).removesuffix("()")
        return self._statements.get(name, node)

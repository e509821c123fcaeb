"""Has the threads of a warp share a loop that adds up within a parallel loop, for GPUs.

``for i in x: s = 0.0; for j in x: s += f(x[i], x[j]); y[i] = s`` has one thread for each sum. The
forces between some thousand particles leave most of a GPU without work, and the threads of a
product of a matrix and a vector read a column each. Here 32 threads go along the inner loop, and
put together what they have in shared memory, always in the same order. Short inner loops have one
thread, and so do those of which neighbouring threads read neighbouring elements as it is. Numbers
are added in another order: that takes fast math.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import taichi as ti
from taichi.lang import impl

from tikgen.taichi import loop_spaces, trees
from tikgen.taichi.loop_spaces import Range, Space

_OWN = "tikgen_inner"
_WARP, _BLOCK = 32, 128
# Turns of the inner loop that 32 threads share, and sums that keep a GPU busy with one each.
_LONG, _MANY = 128, 1 << 18
_LOOP = """
{extents}
{own}_sums = {sums}
{own}_extent = tikgen_ti.max({stop} - ({start}), 0)
{own}_bits = tikgen_ti.select({is_short}, 0, {bits})
tikgen_ti.loop_config(block_dim={block})
for {own}_turn in range(((({own}_sums << {own}_bits) + {block} - 1) // {block}) * {block}):
    {own}_lane = {own}_turn & (1 << {own}_bits) - 1
    {own}_place = {own}_turn >> {own}_bits
    {own}_number = tikgen_ti.min({own}_place, {own}_sums - 1)
    {indices}
    _before()
    {zeros}
    for {own}_step in range(({own}_extent - {own}_lane + (1 << {own}_bits) - 1) >> {own}_bits):
        {inner} = {start} + {own}_lane + ({own}_step << {own}_bits)
        _turn()
    {joined}
    if {own}_lane == 0 and {own}_place < {own}_sums:
        _after()
"""


def is_wanted() -> bool:
    """Return whether sums of the kernel that is being compiled may be added in any order."""
    return bool(impl.current_cfg().fast_math)


def rewrite(tree: ast.Module, kernel: Any, names: dict[str, Any]) -> None:
    """Change the parallel loops in the tree of a kernel that have one inner loop that adds up.

    Args:
        tree: the tree, which is changed.
        kernel: the object behind a ``ti.kernel``.
        names: the names that Taichi finds in it; those of Taichi and of a function are added.
    """
    function = trees.function_of(tree)
    if function is None or _OWN in ast.dump(function):
        return
    axes, outer = trees.axes_of(kernel), trees.outer_names(function)
    names |= {"tikgen_ti": ti, f"{_OWN}_joined": _joined}

    def change(loop: ast.For, number: int) -> list[ast.stmt] | None:
        space = loop_spaces.space_of(loop, axes, names)
        if space is None or space.vector:
            return None
        try:
            return _Sums(loop, space, outer, axes, names).shared(f"{_OWN}{number}")
        except _Refused:
            return None

    trees.replace_loops(function, change)


class _Refused(Exception):
    """A loop is left as it is written."""


class _Sums:
    """A parallel loop that may have an inner loop that adds up.

    Args:
        loop: the loop.
        space: what it runs over.
        outer: names of variables and arguments that live outside of it.
        axes: how many axes each array argument has.
        names: the names that Taichi finds.
    """

    def __init__(
        self,
        loop: ast.For,
        space: Space,
        outer: set[str],
        axes: Mapping[str, int],
        names: Mapping[str, Any],
    ) -> None:
        self._loop, self._space, self._outer = loop, space, outer
        self._axes, self._names = axes, names

    def shared(self, own: str) -> list[ast.stmt]:
        """Return what takes the place of the loop.

        Args:
            own: what names of the new code begin with.

        Raises:
            _Refused: if the loop is of another form.
        """
        body = self._loop.body
        places = [
            place
            for place, one in enumerate(body)
            if isinstance(one, ast.For) and not trees.is_static(one.iter)
        ]
        if len(places) != 1:
            raise _Refused
        before, inner, after = body[: places[0]], body[places[0]], body[places[0] + 1 :]
        assert isinstance(inner, ast.For)
        across = self._inner_range(inner)
        own_names = {one.name for one in self._space.ranges} | {across.name}
        if len(own_names) <= len(self._space.ranges):
            raise _Refused
        self._check_before(before, own_names)
        sums = self._sums(inner, trees.stored(before), own_names)
        if not sums or (trees.stored(after) & {*own_names, *self._outer}):
            raise _Refused
        self._check_after(after)
        is_short = f"{own}_extent < {_LONG}"
        if not self._reads_along(inner, across.name):
            is_short = f"({is_short}) | ({own}_sums >= {_MANY})"
        rename = trees.Renamed({name: f"{name}_{own}" for name in sums})
        turn = [rename.visit(one) for one in inner.body]
        ranges = self._space.ranges
        code = _LOOP.format(
            own=own,
            extents=loop_spaces.extents(ranges, own),
            sums=loop_spaces.product(own, range(len(ranges))),
            start=across.start,
            stop=across.stop,
            inner=across.name,
            is_short=is_short,
            bits=_WARP.bit_length() - 1,
            block=_BLOCK,
            indices=trees.indented(loop_spaces.indices_at(f"{own}_number", self._space, own), 1),
            zeros=trees.indented(
                [f"{one}_{own} = tikgen_ti.zero({one})" for one in sorted(sums)], 1
            ),
            joined=trees.indented(
                [
                    f"{one} += {_OWN}_joined({one}_{own}, {own}_turn & {_BLOCK - 1}, {own}_bits)"
                    for one in sorted(sums)
                ],
                1,
            ),
        )
        made = trees.statements(code, self._loop)
        trees.fill(made, {"_before": before, "_turn": turn, "_after": after})
        return made

    def _inner_range(self, inner: ast.For) -> Range:
        """Return the range of the inner loop, of which no sum knows more than another."""
        space = loop_spaces.space_of(inner, self._axes, self._names)
        if space is None or len(space.ranges) != 1 or space.vector:
            raise _Refused
        (across,) = space.ranges
        nodes = list(ast.walk(ast.parse(f"{across.start}, {across.stop}")))
        numbers = [int(ast.unparse(node)) for node in nodes if trees.is_number(node)]
        if loop_spaces.is_constant([across]) and max(numbers, default=0) < _LONG:
            raise _Refused
        for node in nodes:
            if isinstance(node, ast.Name) and node.id not in {*self._outer, "tikgen_ti"}:
                raise _Refused
            if isinstance(node, ast.Subscript) and not trees.is_extent(node):
                raise _Refused
        return across

    def _check_before(self, before: Sequence[ast.stmt], own_names: set[str]) -> None:
        """Refuse what more than one thread may not do."""
        for statement in before:
            is_plain = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
            stored = trees.stored([statement])
            if not is_plain or not stored or stored & (own_names | self._outer):
                raise _Refused
        self._check_only_computes(before)

    def _check_only_computes(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            for node in ast.walk(statement):
                is_store = isinstance(node, ast.Subscript | ast.Attribute) and isinstance(
                    node.ctx, ast.Store
                )
                if is_store or isinstance(
                    node, ast.Return | ast.Break | ast.While | ast.Assert | ast.NamedExpr | ast.With
                ):
                    raise _Refused
                if isinstance(node, ast.Call) and not trees.is_pure(node, self._names):
                    raise _Refused

    def _check_after(self, after: Sequence[ast.stmt]) -> None:
        """Refuse what belongs to the parallel loop, such as its next turn, and what takes long."""
        if not after:
            raise _Refused
        for statement in after:
            for node in ast.walk(statement):
                is_loop = isinstance(node, ast.While) or (
                    isinstance(node, ast.For) and not trees.is_static(node.iter)
                )
                if is_loop or isinstance(node, ast.Return | ast.Break | ast.Continue):
                    raise _Refused

    def _sums(self, inner: ast.For, before: set[str], own_names: set[str]) -> set[str]:
        """Return the names of what the inner loop adds to, which it does nothing else with."""
        self._check_only_computes(inner.body)
        nodes = [node for statement in inner.body for node in ast.walk(statement)]
        added = [
            node.target.id
            for node in nodes
            if isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Add | ast.Sub)
            and isinstance(node.target, ast.Name)
            and node.target.id in before
        ]
        stored = trees.stored(inner.body)
        used = [node.id for node in nodes if isinstance(node, ast.Name)]
        is_else = any(used.count(name) != added.count(name) for name in added)
        # What else a turn computes, no other knows of.
        others = stored - set(added)
        if is_else or others & (before | own_names | self._outer) or stored & own_names:
            raise _Refused
        return set(added)

    def _reads_along(self, inner: ast.For, index: str) -> bool:
        """Return whether threads that share a loop read neighbours, as those of other sums do not.

        Raises:
            _Refused: if threads of other sums read neighbours.
        """
        last = self._space.ranges[-1].name
        found = False
        for statement in inner.body:
            for node in ast.walk(statement):
                if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Constant):
                    continue
                listed = trees.listed(node.slice)
                used = [{n.id for n in ast.walk(e) if isinstance(n, ast.Name)} for e in listed]
                if index not in set().union(*used):
                    continue
                if last in used[-1] and index not in used[-1]:
                    raise _Refused
                found = found or (len(listed) > 1 and index in used[-1])
        return found


def _joined(value: Any, thread: Any, bits: Any) -> Any:
    """Return the sum of what ``2**bits`` neighbouring threads have, of each component."""
    shape = value.get_shape() if value.is_tensor() else ()
    return (_number, _vector, _matrix)[len(shape)](value, thread, bits)


def _dtype_of(value: Any) -> Any:
    return value.ptr.get_rvalue_type()


@ti.func
def _number(value, thread, bits):  # type: ignore[no-untyped-def]
    shared = ti.simt.block.SharedArray((_BLOCK,), _dtype_of(value))
    total = value
    for bit in ti.static(range(5)):
        shared[thread] = total
        ti.simt.block.sync()
        other = shared[thread ^ (1 << bit)]
        if bit < bits:
            total += other
        ti.simt.block.sync()
    return total


@ti.func
def _vector(value, thread, bits):  # type: ignore[no-untyped-def]
    total = value
    for i in ti.static(range(value.n)):
        total[i] = _number(value[i], thread, bits)
    return total


@ti.func
def _matrix(value, thread, bits):  # type: ignore[no-untyped-def]
    total = value
    for i, j in ti.static(ti.ndrange(value.n, value.m)):
        total[i, j] = _number(value[i, j], thread, bits)
    return total


# Taichi warns where kernels call functions of other modules than its own.
_joined.__module__ = _dtype_of.__module__ = trees.OWN

"""Writes loops of which a thread has four elements, for :mod:`~tikgen.taichi.thread_coarsening`.

Where elements are found by the indices of the loop alone, the four are ``far`` from each other, so
that neighbouring threads have neighbouring elements in arrays of any shape. Where a loop reads
neighbours, they are ``near``, next to each other on the first axis, and share what is read.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from tikgen.taichi import loop_spaces, trees
from tikgen.taichi.loop_spaces import Space

_EACH = 4
# Elements from which each thread has four; less would leave multiprocessors without work.
_MANY = 1 << 20
# So many on the other axes: neighbouring threads have neighbours on them.
_LEAST = 8
# The elements of a thread are at multiples of so many, as what a warp loads at once is.
_ALIGNED = 128
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
{own}_parts = tikgen_ti.raw_div({own}_extent0 + {own}_count - 1, {own}_count)
for {own}_turn in range({own}_parts * {inner}):
    {indices}
    {own}_first = {left} * {own}_count
    if {own}_count == {each} and {own}_first + {last} < {own}_extent0:
        _each()
    else:
        {own}_at = {own}_first
        while {own}_at < tikgen_ti.min({own}_first + {own}_count, {own}_extent0):
            _one()
            {own}_at += 1
"""


def coarsened(loop: ast.For, space: Space, own: str) -> list[ast.stmt]:
    """Return what takes the place of a parallel loop.

    Args:
        loop: the loop, of statements of which at least one is ``array[...] = ...``.
        space: what it runs over.
        own: what names of the new code begin with.
    """
    return _Coarse(loop, space, own).code()


def is_store(statement: ast.stmt) -> bool:
    """Return whether a statement gives an element of an array a value."""
    return any(isinstance(target, ast.Subscript) for target in targets(statement))


def targets(statement: ast.stmt) -> list[ast.expr]:
    """Return what a statement gives values, nothing if it does anything else."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return trees.listed(statement.targets[0])
    if isinstance(statement, ast.AugAssign):
        return [statement.target]
    return []


class _Coarse:
    def __init__(self, loop: ast.For, space: Space, own: str) -> None:
        self._loop, self._space, self._own = loop, space, own

    def code(self) -> list[ast.stmt]:
        """Return the statements."""
        own = self._own
        is_near = len(self._space.ranges) > 1 and self._reads_neighbours()
        made = trees.statements(self._text(is_near), self._loop)
        first: list[ast.stmt] = []
        then: list[ast.stmt] = []
        for number in range(_EACH):
            at = f"{own}_first + {number}" if is_near else f"{own}_turn + {number} * {own}_turns"
            before, behind = self._halves(self._found(at, is_near), f"_tikgen{number}")
            first += before
            then += behind
        found = trees.statements("\n".join(self._found(f"{own}_at", is_near)), self._loop)
        trees.fill(made, {"_each": first + then, "_one": [*found, *self._loop.body]})
        return made

    def _text(self, is_near: bool) -> str:
        own, ranges = self._own, self._space.ranges
        indices, left = loop_spaces.unravelled(f"{own}_turn", ranges, own)
        return (_NEAR if is_near else _FAR).format(
            own=own,
            extents=loop_spaces.extents(ranges, own),
            total=loop_spaces.product(own, range(len(ranges))),
            inner=loop_spaces.product(own, range(1, len(ranges))),
            indices="\n    ".join(indices),
            left=left,
            many=_MANY,
            least=_LEAST,
            each=_EACH,
            last=_EACH - 1,
            rounding=_EACH * _ALIGNED - 1,
            rounded=_EACH * _ALIGNED,
            aligned=_ALIGNED,
        )

    def _found(self, at: str, is_near: bool) -> list[str]:
        """Return the code that finds the indices of an element."""
        if is_near:
            return self._space.first(at)
        return loop_spaces.indices_at(at, self._space, self._own)

    def _halves(self, indices: Sequence[str], suffix: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Return what an element takes up to what it stores first, and from there on."""
        body = [*trees.statements("\n".join(indices), self._loop), *copy.deepcopy(self._loop.body)]
        place = next(number for number, one in enumerate(body) if is_store(one))
        store = body[place]
        (head,) = trees.statements(f"{self._own}_value = 0", store)
        (tail,) = trees.statements(f"x = {self._own}_value", store)
        assert isinstance(store, ast.Assign)
        assert isinstance(head, ast.Assign) and isinstance(tail, ast.Assign)
        head.value, tail.targets = store.value, store.targets
        first, then = [*body[:place], head], [tail, *body[place + 1 :]]
        own = trees.assigned_by([*first, *then])
        changed = trees.Renamed({name: name + suffix for name in own})
        return [changed.visit(one) for one in first], [changed.visit(one) for one in then]

    def _reads_neighbours(self) -> bool:
        """Return whether the first index is used otherwise than as the first of an element."""
        name = self._space.vector or self._space.ranges[0].name
        nodes = [node for statement in self._loop.body for node in ast.walk(statement)]
        used = sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
        first = [trees.listed(node.slice)[0] for node in nodes if isinstance(node, ast.Subscript)]
        return used > sum(isinstance(one, ast.Name) and one.id == name for one in first)

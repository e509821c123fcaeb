"""Adds up along the last axis what a parallel loop adds to one element for each row, for GPUs.

``y[i] += a[i, j] * x[j]`` in a parallel loop over ``i`` and ``j`` is an atomic addition at each
turn, of which a row's go to one element. Here the threads of a warp go along a row, each adds up
what every 32nd turn adds, and adds its sum to the element. Rows of fewer than 32 elements have one
thread; where there are many rows of fewer than 1,024, four threads share each, which have more
turns and leave fewer atomic additions. Minima and maxima are found likewise.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import taichi as ti

from tikgen.taichi import loop_spaces, trees
from tikgen.taichi.loop_spaces import Space
from tikgen.taichi.loop_sums import Change, change_of, dtypes_of, redirect

_OWN = "tikgen_line"
_WARP, _BLOCK = 32, 128
# Rows of fewer columns have four threads each where there are more rows.
_SHORT, _MANY = 1024, 1 << 15
# Turns of a thread: many of them in large arrays, so that few sums go to one element.
_LEAST, _MOST, _TURNS = 16, 64, 1 << 21
_LOOP = """
{extents}
{own}_few = tikgen_ti.select({rows} > {many}, 2, {bits})
{own}_bits = tikgen_ti.select({columns} < {short}, {own}_few, {bits})
{own}_bits = tikgen_ti.select({columns} < {warp}, 0, {own}_bits)
{own}_warp = 1 << {own}_bits
{own}_steps = tikgen_ti.max(tikgen_ti.min(tikgen_ti.raw_div({total}, {turns}), {most}), {least})
{own}_part = tikgen_ti.select({columns} < {warp}, {warp}, {own}_steps * {warp})
{own}_parts = tikgen_ti.raw_div({columns} + {own}_part - 1, {own}_part)
tikgen_ti.loop_config(block_dim={block})
for {own}_turn in range({rows} * {own}_parts * {own}_warp):
    {own}_number = {own}_turn >> {own}_bits
    {own}_row = tikgen_ti.raw_div({own}_number, {own}_parts)
    {own}_start = ({own}_number - {own}_row * {own}_parts) * {own}_part
    {own}_first = {own}_start + ({own}_turn & {own}_warp - 1)
    {own}_end = tikgen_ti.min({own}_start + {own}_part, {columns})
    {indices}
    {before}
    for {own}_step in range(({own}_end - {own}_first + {own}_warp - 1) >> {own}_bits):
        {last} = {start} + {own}_first + {own}_step * {own}_warp
        _turn()
    {after}
"""


class _Sum(NamedTuple):
    """What a loop adds to an element for each row.

    Attributes:
        element: the code of the element.
        array: the name of its array.
        operation: ``add``, ``max`` or ``min``.
        changes: the statements and calls that do so.
        is_sure: whether one of them is done in each turn, so that there is an element.
    """

    element: str
    array: str
    operation: str
    changes: list[Change]
    is_sure: bool


def rewrite(tree: ast.Module, kernel: Any, names: dict[str, Any]) -> None:
    """Change the loops in the tree of a kernel that add to elements found by all indices but one.

    Args:
        tree: the tree, which is changed.
        kernel: the object behind a ``ti.kernel``.
        names: the names that Taichi finds in it; those of dtypes and of Taichi are added.
    """
    dtypes, axes = dtypes_of(kernel), trees.axes_of(kernel)
    function = trees.function_of(tree)
    if not dtypes or function is None or _OWN in ast.dump(function):
        return
    names |= {"tikgen_ti": ti, **{f"{_OWN}_dtype_{name}": each for name, each in dtypes.items()}}

    def change(loop: ast.For, number: int) -> list[ast.stmt] | None:
        space = loop_spaces.space_of(loop, axes, names)
        sums = _sums(loop, space, dtypes, names) if space else []
        return _by_rows(loop, space, sums, f"{_OWN}{number}") if space and sums else None

    trees.replace_loops(function, change)


def _sums(
    loop: ast.For, space: Space, dtypes: Mapping[str, Any], names: Mapping[str, Any]
) -> list[_Sum]:
    """Return what a loop adds to elements for each row; nothing if it does more with them."""
    nodes = [node for statement in loop.body for node in ast.walk(statement)]
    if len(space.ranges) < 2 or space.vector or trees.leaves(loop.body):
        return []
    sure = [one.value if isinstance(one, ast.Expr) else one for one in loop.body]
    is_sure = not any(isinstance(node, ast.Continue) for node in nodes)
    changing = trees.stored(loop.body) | {space.ranges[-1].name}
    found: dict[str, _Sum] = {}
    for node in nodes:
        change = change_of(node, names)
        if change is None:
            continue
        target = change[0].target if isinstance(change[0], ast.AugAssign) else change[0].args[0]
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            continue
        array, code = target.value.id, ast.unparse(target)
        if array not in dtypes or not _is_of_row(target.slice, changing, space, names):
            return []
        is_here = is_sure and any(change[0] is one for one in sure)
        one = found.setdefault(array, _Sum(code, array, change[1], [], is_here))
        if (one.element, one.operation) != (code, change[1]):
            return []
        one.changes.append(change)
    used = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    used -= Counter(
        ast.unparse(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr == "shape"
    )
    is_alone = all(used[one.array] == len(one.changes) for one in found.values())
    is_known = all(one.is_sure or one.operation == "add" for one in found.values())
    return list(found.values()) if is_alone and is_known else []


def _is_of_row(index: ast.expr, changing: set[str], space: Space, names: Mapping[str, Any]) -> bool:
    """Return whether an index is the same in all turns of a row, and another in other rows."""
    nodes = list(ast.walk(index))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    is_row = bool(used & {one.name for one in space.ranges[:-1]})
    return is_row and not used & changing and all(trees.is_pure(one, names) for one in calls)


def _by_rows(loop: ast.For, space: Space, sums: list[_Sum], own: str) -> list[ast.stmt]:
    """Return what takes the place of a loop."""
    *rows, last = space.ranges
    before, after = [], []
    for number, one in enumerate(sums):
        variable = f"{own}_sum{number}"
        before.append(f"{variable} = tikgen_ti.cast(0, {_OWN}_dtype_{one.array})")
        if one.operation == "add":
            guard = "" if one.is_sure else f"if {variable} != 0:\n    "
            after.append(f"{guard}{one.element} += {variable}")
        else:  # Whatever the element holds by now changes nothing.
            before.append(f"{variable} = {one.element}")
            after.append(f"tikgen_ti.atomic_{one.operation}({one.element}, {variable})")
        for change, _ in one.changes:
            redirect(change, variable)
    axes = range(len(space.ranges))
    code = _LOOP.format(
        own=own,
        extents=loop_spaces.extents(space.ranges, own),
        columns=loop_spaces.product(own, axes[-1:]),
        rows=loop_spaces.product(own, axes[:-1]),
        total=loop_spaces.product(own, axes),
        warp=_WARP,
        bits=_WARP.bit_length() - 1,
        short=_SHORT,
        many=_MANY,
        turns=_TURNS,
        most=_MOST,
        least=_LEAST,
        block=_BLOCK,
        last=last.name,
        start=last.start,
        indices=trees.indented(loop_spaces.indices_at(f"{own}_row", Space(rows, ""), own), 1),
        before=trees.indented(before, 1),
        after=trees.indented(after, 1),
    )
    made = trees.statements(code, loop)
    trees.fill(made, {"_turn": loop.body})
    return made

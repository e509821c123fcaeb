"""Adds up by blocks of threads what a parallel loop adds to one element, for GPUs.

``y[0] += x[i]`` in a parallel loop is an atomic addition at each turn, for which all threads of the
device wait for each other: a sum of 60 M singles took 106 ms on an H200, and stopped at 2**24. Here
at most 262,144 threads go through the turns in a grid-stride loop and add to variables, blocks put
together what their threads have, and one thread of each adds that to the element. Minima and maxima
are found likewise.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import taichi as ti

from tikgen.taichi import loop_spaces, trees
from tikgen.taichi.loop_sums import (
    CALLS,
    Change,
    Element,
    changed_by,
    dtypes_of,
    is_there,
    redirect,
)

_OWN = "tikgen_"
_BLOCK, _BLOCKS = 128, 2048
_LOOP = f"""
tikgen_ti.loop_config(block_dim={_BLOCK})
for tikgen_block, tikgen_thread in tikgen_ti.ndrange(
    tikgen_ti.min(({{count}} - 1) // {_BLOCK} + 1, {_BLOCKS}), {_BLOCK}
):
    {{extents}}
    {{starts}}
    tikgen_first = tikgen_block * {_BLOCK} + tikgen_thread
    for tikgen_step in range(({{product}} - 1 - tikgen_first) // {_BLOCK * _BLOCKS} + 1):
        tikgen_turn = tikgen_step * {_BLOCK * _BLOCKS} + tikgen_first
        {{indices}}
        _body()
    {{stores}}
    tikgen_ti.simt.block.sync()
    tikgen_half = {_BLOCK // 2}
    while tikgen_half >= 1:
        if tikgen_thread < tikgen_half:
            tikgen_other = tikgen_thread + tikgen_half
            {{halves}}
        tikgen_ti.simt.block.sync()
        tikgen_half //= 2
    if tikgen_thread == 0:
        {{ends}}
"""


def rewrite(tree: ast.Module, kernel: Any, names: dict[str, Any]) -> None:
    """Change the loops in the tree of a kernel that add to elements at constant indices.

    Args:
        tree: the tree, which is changed.
        kernel: the object behind a ``ti.kernel``.
        names: the names that Taichi finds in it; those of dtypes and of Taichi are added.
    """
    dtypes, axes = dtypes_of(kernel), trees.axes_of(kernel)
    function = trees.function_of(tree)
    if not dtypes or function is None or _is_special(function):
        return

    def change(loop: ast.For, number: int) -> list[ast.stmt] | None:
        sums = changed_by(loop, dtypes, names)
        space = loop_spaces.space_of(loop, axes, names) if sums else None
        if space is None or trees.leaves(loop.body) or _may_change_range(loop, names):
            return None
        names.update({f"{_OWN}dtype_{one.array}": dtypes[one.array] for one in sums})
        return _by_blocks(loop, space, sums)

    trees.replace_loops(function, change)
    names["tikgen_ti"] = ti


def _is_special(function: ast.FunctionDef) -> bool:
    """Return whether code has names of this module, or its threads work together."""
    for node in ast.walk(function):
        name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        if name.startswith((f"{_OWN}block", f"{_OWN}turn")) or name in ("simt", "block_local"):
            return True
    return False


def _may_change_range(loop: ast.For, names: Mapping[str, Any]) -> bool:
    """Return whether turns may write what the range is computed from, which each thread reads."""
    reads = [
        node
        for node in ast.walk(loop.iter)
        if isinstance(node, ast.Subscript) and not trees.is_extent(node)
    ]
    nodes = [node for statement in loop.body for node in ast.walk(statement)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    is_called = bool(reads) and not all(
        trees.called(one, names) in CALLS or trees.is_pure(one, names) for one in calls
    )
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    arrays = {getattr(node.value, "id", "") for node in reads}
    variables = {node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)}
    changed = arrays & {*used, ""} or variables & trees.stored(loop.body)
    return is_called or bool(changed)


def _by_blocks(
    loop: ast.For, space: loop_spaces.Space, sums: Mapping[Element, list[Change]]
) -> list[ast.stmt]:
    """Return what takes the place of a loop."""
    ranges = space.ranges
    starts, stores, halves, ends = [], [], [], []
    for number, (element, changes) in enumerate(sums.items()):
        variable, shared = f"tikgen_sum{number}", f"tikgen_shared{number}"
        dtype, operation = f"tikgen_dtype_{element.array}", changes[0][1]
        place = f"{element.array}[{', '.join(map(str, element.indices))}]"
        starts.append(f"{shared} = tikgen_ti.simt.block.SharedArray(({_BLOCK},), {dtype})")
        starts.append(f"{variable} = tikgen_ti.cast(0, {dtype})")
        if operation != "add":  # Whatever the element holds by now changes nothing.
            starts.append(f"if {is_there(element)}:\n    {variable} = {place}")
        other = f"{shared}[tikgen_other]"
        joined = f"{variable} + {other}"
        if operation != "add":
            joined = f"tikgen_ti.{operation}({variable}, {other})"
        stores.append(f"{shared}[tikgen_thread] = {variable}")
        halves += [f"{variable} = {joined}", stores[-1]]
        ends.append(
            f"if {is_there(element)}:\n    tikgen_ti.atomic_{operation}({place}, {variable})"
        )
        for change, _ in changes:
            redirect(change, variable)
    counts = [f"tikgen_ti.max({stop} - ({start}), 0)" for _, start, stop in ranges]
    code = _LOOP.format(
        count=" * ".join(counts),
        product=loop_spaces.product("tikgen", range(len(ranges))),
        extents=trees.indented([loop_spaces.extents(ranges, "tikgen")], 1),
        starts=trees.indented(starts, 1),
        indices=trees.indented(loop_spaces.indices_at("tikgen_turn", space, "tikgen"), 2),
        stores=trees.indented(stores, 1),
        halves=trees.indented(halves, 3),
        ends=trees.indented(ends, 2),
    )
    made = trees.statements(code, loop)
    trees.fill(made, {"_body": loop.body})
    return made

"""Has a thread compute four elements of a short parallel loop, and load all before it stores.

A thread of a GPU waits for what it loads, and a thread of Taichi's loads what one element takes:
too few bytes are on their way. ``y[i] = 2 * x[i] + 1`` took 1.3 times as long as a copy on an H200,
and takes as long with four elements a thread (thread coarsening). In small arrays each thread has
one element, as before.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import Any

import taichi as ti
from taichi.lang import impl, kernel_impl

from tikgen.taichi import coarse_loops, loop_spaces, runtime, trees
from tikgen.taichi.loop_spaces import Space
from tikgen.taichi.loop_sums import dtypes_of

# Of a body. Longer ones take the registers of other threads.
_MOST_STORES, _MOST_LOADS, _MOST_NODES = 2, 32, 1500
# Functions of many operations, but for singles under fast math.
_LONG = (ti.acos, ti.asin, ti.atan2, ti.cos, ti.exp, ti.log, ti.pow, ti.sin, ti.tan, ti.tanh)
_OWN = "tikgen_each"


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
    function = trees.function_of(tree)
    if function is None or _OWN in ast.dump(function):
        return
    axes, dtypes, outer = trees.axes_of(kernel), dtypes_of(kernel), trees.outer_names(function)
    names |= {"tikgen_ti": ti, **{f"{_OWN}_dtype_{name}": each for name, each in dtypes.items()}}

    def change(loop: ast.For, number: int) -> list[ast.stmt] | None:
        space = loop_spaces.space_of(loop, axes, names)
        if space is None or not _is_short(loop, space, dtypes, names, outer):
            return None
        loop.body = [_plain(one) for one in loop.body]
        return coarse_loops.coarsened(loop, space, f"{_OWN}{number}")

    trees.replace_loops(function, change)


def _is_short(
    loop: ast.For,
    space: Space,
    dtypes: Mapping[str, Any],
    names: Mapping[str, Any],
    outer: set[str],
) -> bool:
    """Return whether a loop computes numbers one after the other, and stores some."""
    if loop_spaces.is_constant(space.ranges):  # Few elements.
        return False
    is_single = all(dtype is ti.f32 for dtype in dtypes.values()) and impl.current_cfg().fast_math
    stores = loads = count = 0
    own = {one.name for one in space.ranges} | {space.vector}
    for statement in loop.body:
        targets = coarse_loops.targets(statement)
        variables = [one.id for one in targets if isinstance(one, ast.Name)]
        if coarse_loops.is_store(statement):
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


def _is_changed_once(statement: ast.stmt, space: Space, dtypes: Mapping[str, Any]) -> bool:
    """Return whether a store is to a number of an array, and an addition to none of other turns."""
    (target,) = coarse_loops.targets(statement)
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

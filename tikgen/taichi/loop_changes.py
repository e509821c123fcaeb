"""Changes the loops of kernels of users while Taichi reads them: what is done, and in which order.

Each file says what it changes and why. Results are the same, but for sums, which are added in an
order that Taichi does not fix either, or under fast math.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from taichi.lang.kernel_impl import AutodiffMode

from tikgen.taichi import (
    block_sums,
    independent_turns,
    inner_sums,
    line_sums,
    loop_marks,
    loop_nests,
    loop_sums,
    row_loops,
    runtime,
    split_loops,
    thread_coarsening,
    unrolled_loops,
    wrapped_indices,
)


def change(
    tree: ast.Module, kernel: Any, names: dict[str, Any], is_own: Callable[[Any], bool]
) -> None:
    """Change the loops in the tree of a kernel.

    Args:
        tree: the tree.
        kernel: the object behind a ``ti.kernel``.
        names: the names that Taichi finds in it; those that new code uses are added.
        is_own: returns whether a Python function is of a kernel of tikgen.
    """
    if is_own(kernel.func):
        if unrolled_loops.is_wanted() and kernel.autodiff_mode == AutodiffMode.NONE:
            unrolled_loops.rewrite(tree, names)
        wrapped_indices.rewrite(tree, kernel, names)
    if row_loops.is_by_rows(kernel):
        row_loops.rewrite(tree, kernel)
        names.update(row_loops.names())
    if runtime.current_arch() == "cpu":
        split_loops.rewrite(tree)
    if loop_nests.is_wanted(kernel, is_own):
        loop_nests.rewrite(tree, names)
        block_sums.rewrite(tree, kernel, names)
        line_sums.rewrite(tree, kernel, names)
        if inner_sums.is_wanted():
            inner_sums.rewrite(tree, kernel, names)
    if thread_coarsening.is_wanted(kernel, is_own):
        thread_coarsening.rewrite(tree, kernel, names)
    if loop_sums.is_wanted():
        loop_sums.rewrite(tree, kernel, names)
    loop_marks.insert(tree, kernel.func.__globals__, names, independent_turns.arrays_of(kernel))


def change_function(
    tree: ast.Module, function: Any, names: dict[str, Any], is_own: Callable[[Any], bool]
) -> None:
    """Change the loops in the tree of a function that a kernel calls.

    Args:
        tree: the tree.
        function: the object behind a ``ti.func`` or a ``ti.real_func``.
        names: the names that Taichi finds in it; those that new code uses are added.
        is_own: returns whether a Python function is of a kernel of tikgen.
    """
    is_inlined = not function.is_real_function
    if is_inlined and unrolled_loops.is_wanted() and is_own(function.func):
        unrolled_loops.rewrite(tree, names, is_kernel=False)
    loop_marks.insert(tree, function.func.__globals__, names)

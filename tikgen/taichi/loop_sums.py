"""Adds up what a parallel loop adds to one element of an array, and the like for extremes.

``y[0] += x[i]`` in a parallel loop is an atomic addition at each turn, for which threads wait for
each other: a sum of 3 M numbers took 80 ms on a processor. Taichi adds up by threads what a loop
adds to a variable. So the loop adds to a variable, and its sum is added to the element behind the
loop. GPUs have :mod:`~tikgen.taichi.block_sums`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import taichi as ti
from taichi.lang import impl
from taichi.types.ndarray_type import NdarrayType

from tikgen.taichi import loop_marks, trees

_OWN = "tikgen_sum"
_DTYPES = (ti.f32, ti.f64, ti.i32, ti.i64, ti.u32, ti.u64)
# What changes an element in any order.
CALLS = {
    ti.atomic_add: "add",
    ti.atomic_sub: "add",
    ti.atomic_max: "max",
    ti.atomic_min: "min",
}


class Element(NamedTuple):
    """An element of an array, at constant indices."""

    array: str
    indices: tuple[int, ...]


# What changes an element: ``y[0] += x`` or ``ti.atomic_max(y[0], x)``, and which operation it is.
Change = tuple[ast.AugAssign | ast.Call, str]


def is_wanted() -> bool:
    """Return whether loops of the kernel that is being compiled may add up in any order."""
    return loop_marks.is_marking() and impl.current_cfg().fast_math


def rewrite(tree: ast.Module, kernel: Any, names: dict[str, Any]) -> None:
    """Change the loops in the tree of a kernel that add to elements at constant indices.

    Args:
        tree: the tree, which is changed.
        kernel: the object behind a ``ti.kernel``.
        names: the names that Taichi finds in it; those of dtypes and functions are added.
    """
    dtypes = dtypes_of(kernel)
    function = trees.function_of(tree)
    if not dtypes or function is None or _OWN in ast.dump(function):
        return
    known = dict(names)
    names |= {f"{_OWN}_cast": ti.cast, f"{_OWN}_max": ti.atomic_max, f"{_OWN}_min": ti.atomic_min}
    body: list[ast.stmt] = []
    count = 0
    for statement in function.body:
        behind: list[ast.stmt] = []
        for element, changes in changed_by(statement, dtypes, known).items():
            variable = f"{_OWN}{count}"
            names[f"{variable}_dtype"] = dtypes[element.array]
            count += 1
            for change, _ in changes:
                redirect(change, variable)
            before, after = _around(element, variable, changes[0][1])
            body += trees.statements("\n".join(before), statement)
            behind += trees.statements(after, statement)
        body += [statement, *behind]
    function.body = body
    ast.fix_missing_locations(tree)


def _around(element: Element, variable: str, operation: str) -> tuple[list[str], str]:
    """Return the code before and behind a loop that changes a variable instead of an element."""
    array, indices = element
    place = f"{array}[{', '.join(map(str, indices))}]"
    there = is_there(element)
    before = [f"{variable} = {_OWN}_cast(0, {variable}_dtype)"]
    if operation == "add":
        return before, f"if {there}:\n    {place} += {variable}"
    before.append(f"if {there}:\n    {variable} = {place}")
    return before, f"if {there}:\n    {_OWN}_{operation}({place}, {variable})"


def dtypes_of(kernel: Any) -> dict[str, Any]:
    """Return the dtypes of the arrays of a kernel that loops may add to."""
    return {
        argument.name: argument.annotation.dtype
        for argument in kernel.arguments
        if isinstance(argument.annotation, NdarrayType) and argument.annotation.dtype in _DTYPES
    }


def is_there(element: Element) -> str:
    """Return the code that asks for an element: a loop that never adds to it may have none."""
    array, indices = element
    return " and ".join(f"{array}.shape[{n}] > {index}" for n, index in enumerate(indices))


def redirect(change: ast.AugAssign | ast.Call, variable: str) -> None:
    """Have a variable changed instead of an element."""
    if isinstance(change, ast.AugAssign):
        change.target = ast.Name(variable, ast.Store())
    else:
        change.args[0] = ast.Name(variable, ast.Load())


def changed_by(
    loop: ast.stmt, dtypes: Mapping[str, Any], names: Mapping[str, Any]
) -> dict[Element, list[Change]]:
    """Return the changes by a parallel loop of each element that it does nothing else with."""
    if not isinstance(loop, ast.For) or trees.is_static(loop.iter):
        return {}
    found: dict[Element, list[Change]] = defaultdict(list)
    for node in ast.walk(loop):
        change = change_of(node, names)
        if change is None:
            continue
        one = change[0]
        element = _element(one.target if isinstance(one, ast.AugAssign) else one.args[0])
        if element and element.array in dtypes:
            found[element].append(change)
    used = [node.id for node in ast.walk(loop) if isinstance(node, ast.Name)]
    counts: dict[str, int] = defaultdict(int)
    for element, changes in found.items():
        counts[element.array] += len(changes)
    return {
        element: changes
        for element, changes in found.items()
        if used.count(element.array) == counts[element.array]
        and len({operation for _, operation in changes}) == 1
    }


def change_of(node: ast.AST, names: Mapping[str, Any]) -> Change | None:
    """Return which operation a statement does on something, if it is one of those known here."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        return node, "add"
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return None
    call = node.value
    function = trees.called(call, names)
    operation = next((name for known, name in CALLS.items() if known is function), "")
    fits = operation and len(call.args) == 2 and not call.keywords
    # Fast math lets an extreme pass over what is no number.
    is_exact = operation in ("max", "min") and not impl.current_cfg().fast_math
    return (call, operation) if fits and not is_exact else None


def _element(target: ast.expr) -> Element | None:
    """Return which element a target with constant indices is, None for others."""
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return None
    given = trees.listed(target.slice)
    indices: tuple[Any, ...] = tuple(n.value for n in given if isinstance(n, ast.Constant))
    are_known = len(indices) == len(given) and all(type(index) is int for index in indices)
    return Element(target.value.id, indices) if are_known else None

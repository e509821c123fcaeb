"""Adds up what a parallel loop adds to one element of an array, for processors.

``y[0] += x[i]`` in a parallel loop is an atomic addition at each turn, for which threads wait for
each other: a sum of 3 M numbers took 80 ms. Taichi adds up by threads what a loop adds to a
variable. So the loop adds to a variable, and its sum is added to the element behind the loop.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import Any

import taichi as ti
from taichi.types.ndarray_type import NdarrayType

from tikgen.taichi.row_loops import is_static

_OWN = "tikgen_sum"
_DTYPES = (ti.f32, ti.f64, ti.i32, ti.i64, ti.u32, ti.u64)
# An array, and the indices of its element.
_Element = tuple[str, tuple[int, ...]]


def rewrite(tree: ast.Module, kernel: Any, names: dict[str, Any]) -> None:
    """Change the loops in the tree of a kernel that add to elements at constant indices.

    Args:
        tree: the tree, which is changed.
        kernel: the object behind a ``ti.kernel``.
        names: the names that Taichi finds in it; those of dtypes are added.
    """
    dtypes = {
        argument.name: argument.annotation.dtype
        for argument in kernel.arguments
        if isinstance(argument.annotation, NdarrayType) and argument.annotation.dtype in _DTYPES
    }
    function = tree.body[0] if tree.body else None
    if not dtypes or not isinstance(function, ast.FunctionDef) or _OWN in ast.dump(function):
        return
    names[f"{_OWN}_cast"] = ti.cast
    body: list[ast.stmt] = []
    count = 0
    for statement in function.body:
        sums = _sums_of(statement, dtypes)
        behind: list[ast.stmt] = []
        for element, additions in sums.items():
            variable, dtype = f"{_OWN}{count}", f"{_OWN}{count}_dtype"
            names[dtype] = dtypes[element[0]]
            count += 1
            array, indices = element[0], ", ".join(map(str, element[1]))
            for addition in additions:
                addition.target = ast.Name(variable, ast.Store())
            body.append(_at(statement, f"{variable} = {_OWN}_cast(0, {dtype})"))
            behind.append(_at(statement, f"{array}[{indices}] += {variable}"))
        body += [statement, *behind]
    function.body = body
    ast.fix_missing_locations(tree)


def _sums_of(loop: ast.stmt, dtypes: dict[str, Any]) -> dict[_Element, list[ast.AugAssign]]:
    """Return the additions of a parallel loop to each element that it does nothing else with."""
    if not isinstance(loop, ast.For) or is_static(loop.iter):
        return {}
    found: dict[_Element, list[ast.AugAssign]] = defaultdict(list)
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            element = _element(node.target)
            if element and element[0] in dtypes:
                found[element].append(node)
    used = [node.id for node in ast.walk(loop) if isinstance(node, ast.Name)]
    counts: dict[str, int] = defaultdict(int)
    for (array, _), additions in found.items():
        counts[array] += len(additions)
    return {key: value for key, value in found.items() if used.count(key[0]) == counts[key[0]]}


def _element(target: ast.expr) -> _Element | None:
    """Return which element a target with constant indices is, None for others."""
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return None
    given = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    indices: tuple[Any, ...] = tuple(n.value for n in given if isinstance(n, ast.Constant))
    are_known = len(indices) == len(given) and all(type(index) is int for index in indices)
    return (target.value.id, indices) if are_known else None


def _at(statement: ast.stmt, code: str) -> ast.stmt:
    made = ast.parse(code).body[0]
    for node in ast.walk(made):
        ast.copy_location(node, statement)
    return made

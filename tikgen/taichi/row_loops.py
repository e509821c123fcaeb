"""Loops over all elements of arrays as loops over parts of rows, for processors.

``for i, j in x`` and ``for i, j in ti.ndrange(x.shape[0], x.shape[1])`` find the indices of each
element by a division, and LLVM vectorises no loop with one. Loops over parts of rows divide once a
part. Each element is computed as before.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from typing import Any

import taichi as ti

from tikgen.taichi import runtime, scopes, trees

# Marks the copy of a kernel that is compiled so.
_MARK = "_tikgen_by_rows"
# Elements of a part, and what names of the new code begin with.
_PART, _OWN = 512, "tikgen_"
_LOOPS = """
for tikgen_part in range({rows} * {parts}):
    tikgen_row = tikgen_part // {parts}
    tikgen_first = (tikgen_part - tikgen_row * {parts}) * {size}
    {indices}
    for {last} in range(
        {start} + tikgen_first, {start} + tikgen_min(tikgen_first + {size}, {count})
    ):
        pass
"""
_Range = tuple[str, str, str]  # The name of an index, its first value, and what is behind its last.


def by_rows(kernel: Any) -> Any:
    """Return a copy of a kernel whose loops over arrays are to run by rows; itself if it has none.

    Args:
        kernel: the object behind a ``ti.kernel``.
    """
    is_usual = runtime.default_types()["default_ip"] == "i32"
    if not is_usual:
        return kernel
    tree = trees.tree_of(kernel.func)
    scopes.distinguish(tree, trees.names_of(kernel.func))
    if not rewrite(tree, kernel):
        return kernel
    found = copy.copy(kernel)
    found.compiled_kernels = {}
    setattr(found, _MARK, True)
    return found


def is_by_rows(kernel: Any) -> bool:
    """Return whether the loops of a kernel are to run by rows."""
    return hasattr(kernel, _MARK)


def rewrite(tree: ast.Module, kernel: Any) -> bool:
    """Change the loops over arrays in the tree of a kernel; return whether it has some."""
    function = trees.function_of(tree)
    if function is None or _is_special(function):
        return False
    loops = _Loops(function, kernel)
    changed = [loops.by_rows(statement) for statement in function.body]
    are_new = any(new is not old for new, old in zip(changed, function.body, strict=True))
    function.body = changed
    return are_new


def names() -> dict[str, Any]:
    """Return what the new code calls."""
    return {f"{_OWN}min": ti.min, f"{_OWN}max": ti.max}


def _is_special(function: ast.FunctionDef) -> bool:
    """Return whether code has names of this module, or says where arrays are kept."""
    for node in ast.walk(function):
        name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        if name.startswith(_OWN) or name in ("block_local", "cache_read_only", "mesh_local"):
            return True
    return False


class _Loops:
    """The loops of a kernel.

    Args:
        function: its tree.
        kernel: the object behind the ``ti.kernel``.
    """

    def __init__(self, function: ast.FunctionDef, kernel: Any) -> None:
        self._names = trees.names_of(kernel.func)
        self._axes = trees.axes_of(kernel)
        nodes = list(ast.walk(function))
        stored = Counter(n.id for n in nodes if isinstance(n, ast.Name) and _is_stored(n))
        counted = Counter(
            n.id for loop in nodes if isinstance(loop, ast.For) for n in _named_in(loop.target)
        )
        # Names that something else than a loop gives a value.
        self._assigned = frozenset(stored - counted)
        # Names of extents: assigned once, outside of loops. See scopes.
        self._extents: dict[str, str] = {}
        for statement in function.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target, extent = statement.targets[0], self._extent(statement.value)
                if isinstance(target, ast.Name) and stored[target.id] == 1 and extent:
                    self._extents[target.id] = extent

    def by_rows(self, statement: ast.stmt) -> ast.stmt:
        """Return a loop over arrays by rows, and anything else as it is."""
        if not isinstance(statement, ast.For) or statement.orelse:
            return statement
        ranges = self._ranges(statement)
        body = [node for each in statement.body for node in ast.walk(each)]
        inner = [n.id for loop in body if isinstance(loop, ast.For) for n in _named_in(loop.target)]
        targets = {name for name, *_ in ranges}
        is_left = any(isinstance(node, ast.Break | ast.Return) for node in body)
        if not ranges or is_left or len(targets) < len(ranges):
            return statement
        if targets & self._assigned or targets.intersection(inner):
            return statement
        (loop,) = trees.statements(_text_of(ranges), statement)
        assert isinstance(loop, ast.For)
        elements = loop.body[-1]
        assert isinstance(elements, ast.For)
        elements.body = statement.body
        return loop

    def _ranges(self, loop: ast.For) -> list[_Range]:
        """Return the ranges of a loop over arrays, of another loop none."""
        listed, over = trees.listed(loop.target), loop.iter
        indices = [each.id for each in listed if isinstance(each, ast.Name)]
        if isinstance(over, ast.Name) and self._axes.get(over.id) == len(listed) == len(indices):
            return [(n, "0", f"{over.id}.shape[{axis}]") for axis, n in enumerate(indices)]
        if not isinstance(over, ast.Call) or over.keywords:
            return []
        if trees.called(over, self._names) is not ti.ndrange:
            return []
        bounds = [self._bounds(each) for each in over.args]
        if len(indices) != len(listed) or len(bounds) != len(listed) or None in bounds:
            return []
        return [(n, *pair) for n, pair in zip(indices, bounds, strict=True) if pair is not None]

    def _bounds(self, given: ast.expr) -> tuple[str, str] | None:
        if isinstance(given, ast.Tuple) and len(given.elts) == 2:
            start, stop = given.elts
            end = self._extent(stop)
            return (ast.unparse(start), end) if trees.is_number(start) and end else None
        end = self._extent(given)
        return ("0", end) if end else None

    def _extent(self, given: ast.expr) -> str:
        """Return the code of an extent of an array, plus or minus a number; nothing for others."""
        if isinstance(given, ast.Name):
            return self._extents.get(given.id, "")
        if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add | ast.Sub):
            extent = self._extent(given.left) if trees.is_number(given.right) else ""
            sign = "+" if isinstance(given.op, ast.Add) else "-"
            return f"({extent} {sign} {ast.unparse(given.right)})" if extent else ""
        is_extent = (
            isinstance(given, ast.Subscript)
            and isinstance(given.slice, ast.Constant)
            and isinstance(given.value, ast.Attribute)
            and given.value.attr == "shape"
            and isinstance(given.value.value, ast.Name)
            and given.value.value.id in self._axes
        )
        return ast.unparse(given) if is_extent else ""


def _named_in(target: ast.expr) -> list[ast.Name]:
    return [node for node in ast.walk(target) if isinstance(node, ast.Name)]


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _text_of(ranges: list[_Range]) -> str:
    """Return the code of loops over parts of rows, without a body."""
    counts = [f"tikgen_max({stop} - {start}, 0)" for _, start, stop in ranges]
    indices, left = [], "tikgen_row"
    for axis in range(len(ranges) - 2, -1, -1):
        name, start, _ = ranges[axis]
        if axis:
            indices += [
                f"tikgen_row{axis} = {left} // {counts[axis]}",
                f"{name} = {start} + {left} - tikgen_row{axis} * {counts[axis]}",
            ]
            left = f"tikgen_row{axis}"
        else:
            indices.append(f"{name} = {start} + {left}")
    last, start, _ = ranges[-1]
    return _LOOPS.format(
        rows=" * ".join(["1", *counts[:-1]]),
        count=counts[-1],
        parts=f"(({counts[-1]} + {_PART - 1}) // {_PART})",
        size=_PART,
        indices="\n    ".join(indices) or "pass",
        last=last,
        start=start,
    )

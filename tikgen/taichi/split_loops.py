"""Splits loops over rows where indices wrap around or are clamped, for processors.

Where a neighbour would be beyond the end of a row, another element stands for it: ``x[i, (j + 1) %
m]`` or ``x[i, ti.min(j + 1, m - 1)]``. LLVM vectorises no loop of which it cannot tell where the
elements are that it reads. So a loop has three parts: the first points, those whose neighbours all
are in the row, and the last ones, in the same order.
"""

from __future__ import annotations

import ast
import copy

from tikgen.taichi import trees, wrapped_indices

# Longer code is not written three times.
_MOST_NODES = 600
_LOOPS = """
tikgen_second{n} = {least}({most}({left}, {start}), {stop})
tikgen_third{n} = {least}({most}({end} - {right}, tikgen_second{n}), {stop})
for {index} in range({start}, tikgen_second{n}):
    pass
for {index} in range(tikgen_second{n}, tikgen_third{n}):
    pass
for {index} in range(tikgen_third{n}, {stop}):
    pass
"""


def rewrite(tree: ast.Module) -> None:
    """Change the innermost loops in the tree of a kernel that :mod:`wrapped_indices` changed.

    Args:
        tree: the tree, which is changed.
    """
    function = trees.function_of(tree)
    if function is None:
        return
    if any(isinstance(node, ast.Call) and _is_marked(node) for node in ast.walk(function)):
        split = _Split()
        for loop in function.body:  # Which runs in parallel, and is not split itself.
            split.generic_visit(loop)
        ast.fix_missing_locations(tree)


def _is_marked(call: ast.Call) -> bool:
    is_marked = isinstance(call.func, ast.Name) and call.func.id in wrapped_indices.names()
    return is_marked and isinstance(call.args[0], ast.Name)


class _Split(ast.NodeTransformer):
    """Splits the innermost loops of code."""

    def __init__(self) -> None:
        self._count = 0

    def visit_For(self, node: ast.For) -> ast.For | list[ast.stmt]:
        """Return what takes the place of a loop."""
        nodes = [each for statement in node.body for each in ast.walk(statement)]
        blocks = (ast.For, ast.While, ast.Break, ast.Return)
        if any(isinstance(each, blocks) for each in nodes) or len(nodes) > _MOST_NODES:
            self.generic_visit(node)
            return node
        index, over = node.target, node.iter
        is_range = isinstance(over, ast.Call) and ast.unparse(over.func) == "range"
        if not isinstance(index, ast.Name) or not is_range or node.orelse:
            return node
        assert isinstance(over, ast.Call)
        marked = [
            each
            for each in nodes
            if isinstance(each, ast.Call)
            and _is_marked(each)
            and ast.unparse(each.args[0]) == index.id
        ]
        ends = {ast.unparse(each.args[2]) for each in marked}
        if len(ends) != 1 or not 1 <= len(over.args) <= 2:
            return node
        steps = [int(ast.unparse(each.args[1])) for each in marked]
        start, stop = ["0", *map(ast.unparse, over.args)][-2:]
        self._count += 1
        made = trees.statements(
            _LOOPS.format(
                n=self._count,
                least=wrapped_indices.LEAST,
                most=wrapped_indices.MOST,
                index=index.id,
                start=start,
                stop=stop,
                end=ends.pop(),
                left=max(0, -min(steps)),
                right=max(0, *steps),
            ),
            node,
        )
        first, inner, last = (each for each in made if isinstance(each, ast.For))
        first.body, last.body = node.body, copy.deepcopy(node.body)
        inner.body = [_Plain(index.id).visit(copy.deepcopy(each)) for each in node.body]
        return made


class _Plain(ast.NodeTransformer):
    """Takes indices as they are, where they are in the row."""

    def __init__(self, index: str) -> None:
        self._index = index

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Return the sum of an index and a number, and other calls as they are."""
        self.generic_visit(node)
        if not _is_marked(node) or ast.unparse(node.args[0]) != self._index:
            return node
        step = int(ast.unparse(node.args[1]))
        sign = ast.Add() if step > 0 else ast.Sub()
        return ast.copy_location(ast.BinOp(node.args[0], sign, ast.Constant(abs(step))), node)

"""Scalars of 64 bits, which Taichi's C library cannot pass: each goes as two halves of 32 bits."""

import ast
from collections.abc import Mapping
from typing import Any

import taichi as ti

# What puts the halves together in a kernel, by dtype.
_PREFIX = "tikgen_whole_"
LOW, HIGH = "low", "high"


@ti.func
def _u64(low, high):  # type: ignore[no-untyped-def]
    return (ti.cast(ti.cast(high, ti.u32), ti.u64) << 32) | ti.cast(ti.cast(low, ti.u32), ti.u64)


@ti.func
def _i64(low, high):  # type: ignore[no-untyped-def]
    return ti.cast(_u64(low, high), ti.i64)


@ti.func
def _f64(low, high):  # type: ignore[no-untyped-def]
    return ti.bit_cast(_u64(low, high), ti.f64)


# What a text that was split needs among its global names.
FUNCTIONS: Mapping[str, Any] = {
    f"{_PREFIX}u64": _u64,
    f"{_PREFIX}i64": _i64,
    f"{_PREFIX}f64": _f64,
}
WIDE = ("i64", "u64", "f64")


def split(text: str, function: str, wide: Mapping[str, str]) -> str:
    """Return the text of a kernel that takes halves for some of its scalars.

    Args:
        text: a Python module.
        function: name of the kernel in it.
        wide: dtype of each scalar of 64 bits, by name.
    """
    if not wide:
        return text
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            _Splitter(wide).split(node)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Splitter(ast.NodeTransformer):
    def __init__(self, wide: Mapping[str, str]) -> None:
        self._wide = wide

    def split(self, function: ast.FunctionDef) -> None:
        """Let a kernel take halves, and put them together wherever it uses the whole."""
        arguments = []
        for argument in function.args.args:
            halves = [argument]
            if argument.arg in self._wide:
                halves = [
                    ast.arg(f"{argument.arg}_{half}", ast.parse("ti.i32", mode="eval").body)
                    for half in (LOW, HIGH)
                ]
            arguments += halves
        function.args.args = arguments
        function.body = [self.visit(statement) for statement in function.body]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the two halves put together where a scalar of 64 bits is read."""
        if node.id not in self._wide or not isinstance(node.ctx, ast.Load):
            return node
        halves = f"{node.id}_{LOW}, {node.id}_{HIGH}"
        return ast.parse(f"{_PREFIX}{self._wide[node.id]}({halves})", mode="eval").body

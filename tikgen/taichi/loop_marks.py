"""Marks loops, so that Taichi's LLVM leaves them as they are written.

Taichi's LLVM must assume that a store changes the addresses of arrays, and vectorises no loop that
stores to one. It unrolls such loops instead, as often as the processor's name says, and a current
LLVM does not vectorise what is unrolled. A call of an unknown function in a loop keeps LLVM from
both. So each loop of a kernel calls one. In the text that Taichi makes, comments take the place of
the calls: they say which loop it is, and what is known of
:mod:`its turns <tikgen.taichi.independent_turns>`.
"""

from __future__ import annotations

import ast
import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import taichi as ti
from taichi.lang import impl
from taichi.lang.expr import make_constant_expr, make_expr_group

from tikgen.taichi import trees
from tikgen.taichi.independent_turns import UNKNOWN, Turns

# The address of the function that is called, at which there is none. It gets two numbers: which
# loop it is, and what is known of its turns. By them Taichi's cache tells kernels from each other.
_ADDRESS = 0x7469
_AT = rf"inttoptr \(i64 {_ADDRESS} to void \([^)]*\)\*\)"
_CALL = re.compile(rf"^ *(?:tail )?call void {_AT}\(i32 (\d+), i32 (\d+)\)[^\n]*$", re.MULTILINE)
# The number of loops of functions, which kernels may call anywhere, and that of no loop: a call
# between turns that are written out keeps LLVM from putting elements of them into a vector, as no
# loop over vectors is vectorised.
_ANYWHERE, _BETWEEN = 1_000_000, 1_000_001
_NAME = "tikgen_mark"
# The comment in LLVM's text: the number of the loop, and what is known of its turns.
COMMENT = "; loop"
# The attribute of a statement that stands between turns that are written out.
BETWEEN = "tikgen_between"
_thread = threading.local()


@contextlib.contextmanager
def marking() -> Iterator[None]:
    """Have the loops marked of what is compiled in this thread."""
    _thread.is_marking = True
    try:
        yield
    finally:
        _thread.is_marking = False


def is_marking() -> bool:
    """Return whether loops are marked of what is compiled in this thread."""
    return getattr(_thread, "is_marking", False)


def insert(
    tree: ast.Module,
    globals_: Mapping[str, Any],
    names: dict[str, Any],
    arrays: Mapping[str, tuple[str, int]] | None = None,
) -> None:
    """Mark the loops in the tree of a kernel or a function, if that is asked for.

    Loops over a constant range stay: Taichi's LLVM unrolls them whole, or vectorises them.

    Args:
        tree: the tree, which is changed.
        globals_: the global names of the code.
        names: the names that Taichi finds in it; that of the mark is added.
        arrays: dtype and axes of a kernel's arrays of numbers, by name; None for a function.
    """
    if not is_marking():
        return
    loops = [node for node in ast.walk(tree) if _is_marked(node, globals_)]
    marks = [(_ANYWHERE, UNKNOWN)] * len(loops)
    if arrays is not None:
        turns = Turns(tree, arrays, names)
        known = (turns.known_of(n) if isinstance(n, ast.For) else UNKNOWN for n in loops)
        marks = list(enumerate(known))
    names[_NAME] = _mark
    for loop, mark in zip(loops, marks, strict=True):
        loop.body[:0] = trees.statements(f"{_NAME}{mark}", loop)
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and trees.is_static(node.iter):
            node.body[:0] = trees.statements(f"{_NAME}{_BETWEEN, UNKNOWN}", node)
    _Between().visit(tree)


def noted(text: str) -> str | None:
    """Return LLVM text with comments for marks, or None if one has a form that is not known."""
    text = _CALL.sub(rf"{COMMENT} \1 \2", text).replace(f"{COMMENT} {_BETWEEN} 0\n", "")
    return None if re.search(_AT, text) else text


class _Between(ast.NodeTransformer):
    """Has calls between turns that were written out."""

    def visit_Pass(self, node: ast.Pass) -> Any:
        """Replace a statement that stands between turns."""
        if not hasattr(node, BETWEEN):
            return node
        return trees.statements(f"{_NAME}{_BETWEEN, UNKNOWN}", node)


def _is_marked(node: ast.AST, globals_: Mapping[str, Any]) -> TypeGuard[ast.For | ast.While]:
    """Return whether code is a loop that LLVM has, and is not to unroll."""
    if isinstance(node, ast.While):
        return True
    if not isinstance(node, ast.For) or trees.is_static(node.iter):
        return False
    inner = (each for statement in node.body for each in ast.walk(statement))
    return not _is_constant(node.iter, globals_) or any(_is_marked(n, globals_) for n in inner)


def _is_constant(over: ast.expr, globals_: Mapping[str, Any]) -> bool:
    """Return whether a loop over something has a constant number of turns."""
    if not isinstance(over, ast.Call) or ast.unparse(over.func) != "range":
        return False
    return all(
        isinstance(bound, ast.Constant)
        or (isinstance(bound, ast.Name) and isinstance(globals_.get(bound.id), int))
        for bound in over.args
    )


def _mark(number: int, known: int) -> None:
    """Call the function at an address. Real functions are kept for other kernels: not in them."""
    compiling = impl.get_runtime().compiling_callable
    if isinstance(compiling, ti._lib.core.Kernel):
        given = make_expr_group([make_constant_expr(n, ti.i32) for n in (number, known)])
        where, none = ti._lib.core.DebugInfo(""), make_expr_group([])
        builder = compiling.ast_builder()
        builder.insert_external_func_call(_ADDRESS, "", "", "", given, none, where)


# Taichi warns where kernels call functions of other modules than its own.
_mark.__module__ = f"taichi.{__name__}"

"""Marks loops, so that Taichi's LLVM leaves them as they are written.

Taichi's LLVM must assume that a store changes the addresses of arrays, and vectorises no loop that
stores to one. It unrolls such loops instead, as often as the processor's name says, and a current
LLVM does not vectorise what is unrolled. A call of an unknown function in a loop keeps LLVM from
both. So each loop of a kernel calls one; the calls are removed from the text that Taichi makes.
"""

from __future__ import annotations

import ast
import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import taichi as ti
from taichi.lang import impl
from taichi.lang.expr import make_expr_group

from tikgen.taichi import trees

# The address of the function that is called, at which there is none.
_ADDRESS = 0x7469
_CALL = re.compile(
    rf"^ *(?:tail )?call void inttoptr \(i64 {_ADDRESS} to void \(\)\*\)\(\)[^\n]*\n", re.MULTILINE
)
_LEFT = re.compile(rf"\bi64 {_ADDRESS} to void\b")
_NAME = "tikgen_mark"
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


def insert(tree: ast.Module, globals_: Mapping[str, Any], names: dict[str, Any]) -> None:
    """Mark the loops in the tree of a kernel or a function, if that is asked for.

    Loops over a constant range stay: Taichi's LLVM unrolls them whole, or vectorises them.

    Args:
        tree: the tree, which is changed.
        globals_: the global names of the code.
        names: the names that Taichi finds in it; that of the mark is added.
    """
    if not is_marking():
        return
    names[_NAME] = _mark
    for node in ast.walk(tree):
        if isinstance(node, ast.While) or (
            isinstance(node, ast.For) and not _is_constant(node.iter, globals_)
        ):
            call = ast.Expr(ast.Call(ast.Name(_NAME, ast.Load()), [], []))
            ast.fix_missing_locations(ast.copy_location(call, node))
            node.body.insert(0, call)


def without(text: str) -> str | None:
    """Return LLVM text without marks, or None if one has a form that is not known."""
    text = _CALL.sub("", text)
    return None if _LEFT.search(text) else text


def _is_constant(over: ast.expr, globals_: Mapping[str, Any]) -> bool:
    """Return whether a loop over something has a constant number of turns, or is static."""
    if trees.is_static(over):
        return True
    if not isinstance(over, ast.Call) or ast.unparse(over.func) != "range":
        return False
    return all(
        isinstance(bound, ast.Constant)
        or (isinstance(bound, ast.Name) and isinstance(globals_.get(bound.id), int))
        for bound in over.args
    )


def _mark() -> None:
    """Call the function at the address. Real functions are kept for other kernels: not in them."""
    compiling = impl.get_runtime().compiling_callable
    if isinstance(compiling, ti._lib.core.Kernel):
        none = make_expr_group([])
        where = ti._lib.core.DebugInfo("")
        compiling.ast_builder().insert_external_func_call(_ADDRESS, "", "", "", none, none, where)


# Taichi warns where kernels call functions of other modules than its own.
_mark.__module__ = f"taichi.{__name__}"

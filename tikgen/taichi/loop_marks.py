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
import itertools
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import taichi as ti
from taichi.lang import impl
from taichi.lang.expr import make_constant_expr, make_expr_group

from tikgen.taichi import trees
from tikgen.taichi.independent_turns import Array, Turns

# The address of the function that is called, at which there is none. It gets the number of the
# loop. If its turns are known to be independent, a 1 follows, and pairs of slots of arrays that
# must not be the same for that. By them Taichi's cache tells kernels from each other.
_ADDRESS = 0x7469
_AT = rf"inttoptr \(i64 {_ADDRESS} to void \([^)]*\)\*\)"
_CALL = re.compile(rf"^ *(?:tail )?call void {_AT}\(((?:(?:, )?i32 \d+)+)\)[^\n]*$", re.MULTILINE)
# Loops of functions, which kernels may call anywhere, are numbered from here as they come.
_ANYWHERE = 1_000_000
# So is what is no loop: a call between turns that are written out keeps LLVM from putting elements
# of them into a vector, as no loop over vectors is vectorised.
_BETWEEN = 2_000_000
# Of more pairs of arrays a mark says nothing.
_MOST_PAIRS = 16
_NAME = "tikgen_mark"
# The comment in LLVM's text, behind which the numbers stand.
COMMENT = "; loop"
_BETWEEN_COMMENT = re.compile(rf"^{COMMENT} 2\d{{6}}\n", re.MULTILINE)
# The attribute of a statement that stands between turns that are written out.
BETWEEN = "tikgen_between"
_thread = threading.local()


@contextlib.contextmanager
def marking() -> Iterator[None]:
    """Have the loops marked of what is compiled in this thread."""
    _thread.is_marking, _thread.numbers = True, itertools.count()
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
    arrays: Mapping[str, Array] | None = None,
) -> None:
    """Mark the loops in the tree of a kernel or a function, if that is asked for.

    Loops over a constant range stay: Taichi's LLVM unrolls them whole, or vectorises them.

    Args:
        tree: the tree, which is changed.
        globals_: the global names of the code.
        names: the names that Taichi finds in it; that of the mark is added.
        arrays: a kernel's arrays of numbers, by name; None for a function.
    """
    if not is_marking():
        return
    loops = [node for node in ast.walk(tree) if _is_marked(node, globals_)]
    marks: list[list[int]] = [[_ANYWHERE]] * len(loops)
    if arrays is not None:
        turns = Turns(tree, arrays, names)
        marks = [[number, *_known(turns, loop, arrays)] for number, loop in enumerate(loops)]
    names[_NAME] = _mark
    for loop, mark in zip(loops, marks, strict=True):
        loop.body[:0] = _call(mark, loop)
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and trees.is_static(node.iter):
            node.body[:0] = _call([_BETWEEN], node)
    _Between().visit(tree)


def noted(text: str) -> str | None:
    """Return LLVM text with comments for marks, or None if one has a form that is not known."""

    def comment(call: re.Match[str]) -> str:
        return f"{COMMENT} {call[1].replace('i32 ', '').replace(',', '')}"

    text = _BETWEEN_COMMENT.sub("", _CALL.sub(comment, text))
    return None if re.search(_AT, text) else text


def _known(turns: Turns, loop: ast.For | ast.While, arrays: Mapping[str, Array]) -> list[int]:
    """Return what a mark says of the turns of a loop."""
    pairs = turns.conditions(loop) if isinstance(loop, ast.For) else None
    if pairs is None or len(pairs) > _MOST_PAIRS:
        return []
    return [1, *(arrays[name].slot for pair in sorted(pairs) for name in pair)]


def _call(numbers: list[int], place: ast.stmt) -> list[ast.stmt]:
    """Return the statement that calls the function with numbers."""
    return trees.statements(f"{_NAME}({', '.join(map(str, numbers))})", place)


class _Between(ast.NodeTransformer):
    """Has calls between turns that were written out."""

    def visit_Pass(self, node: ast.Pass) -> Any:
        """Replace a statement that stands between turns."""
        if not hasattr(node, BETWEEN):
            return node
        return _call([_BETWEEN], node)


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


def _mark(*numbers: int) -> None:
    """Call the function at the address. Real functions are kept for other kernels: not in them."""
    compiling = impl.get_runtime().compiling_callable
    if isinstance(compiling, ti._lib.core.Kernel):
        if numbers[0] >= _ANYWHERE:  # Of calls that are the same Taichi would keep one.
            numbers = (numbers[0] + next(_thread.numbers),)
        given = make_expr_group([make_constant_expr(number, ti.i32) for number in numbers])
        where, none = ti._lib.core.DebugInfo(""), make_expr_group([])
        builder = compiling.ast_builder()
        builder.insert_external_func_call(_ADDRESS, "", "", "", given, none, where)


# Taichi warns where kernels call functions of other modules than its own.
_mark.__module__ = f"taichi.{__name__}"

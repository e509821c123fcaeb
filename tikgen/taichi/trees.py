"""Helpers for changes of the syntax trees of kernels."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import taichi as ti
import taichi.math as tm
from taichi.types.ndarray_type import NdarrayType

MODULES = (ti, tm)
# Methods of vectors and matrices that only compute.
_METHODS = (
    *("cross", "determinant", "dot", "inverse", "max", "min", "norm", "norm_inv", "norm_sqr"),
    *("normalized", "outer_product", "sum", "trace", "transpose"),
)
# The module of functions that changes of trees call. Taichi warns of calls of others than its own.
OWN = "taichi.tikgen"
# Functions that only compute, and what names of others begin with.
_BUILTINS = (abs, bool, float, int, max, min, pow, range, round)
_IMPURE = ("atomic_", "random", "randn", "static_print", "append", "activate", "deactivate")


def function_of(tree: ast.Module) -> ast.FunctionDef | None:
    """Return the function that a tree is of, None if it is of something else."""
    function = tree.body[0] if tree.body else None
    return function if isinstance(function, ast.FunctionDef) else None


def replace_loops(
    function: ast.FunctionDef, change: Callable[[ast.For, int], Sequence[ast.stmt] | None]
) -> None:
    """Replace parallel loops in the tree of a kernel.

    Loops of which ``ti.loop_config`` says something stay: it is said of them as they are written.

    Args:
        function: the tree, which is changed.
        change: returns what takes the place of a loop, which is a statement of this number, or
            None.
    """
    body: list[ast.stmt] = []
    for number, statement in enumerate(function.body):
        before = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
        is_told = isinstance(before, ast.Call)
        changed = None
        if isinstance(statement, ast.For) and not is_told:
            changed = change(statement, number)
        body += [statement] if changed is None else changed
    function.body = body
    ast.fix_missing_locations(function)


def called(call: ast.Call, names: Mapping[str, Any]) -> Any:
    """Return the function of Python, of Taichi or of a name that is called, None for others.

    Args:
        call: the call.
        names: the names that Taichi finds in the kernel.
    """
    function = call.func
    if isinstance(function, ast.Name):
        return names.get(function.id, getattr(builtins, function.id, None))
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = names.get(function.value.id)
        if any(owner is module for module in MODULES):
            return getattr(owner, function.attr, None)
    return None


def tree_of(function: Any) -> ast.Module:
    """Return the tree of a function, an empty one if its source is unknown."""
    # As inspect.getsource finds it, less a search for its module among all.
    code = function.__code__
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    try:
        return ast.parse(textwrap.dedent("".join(inspect.getblock(lines))))
    except SyntaxError:  # Which Taichi will tell.
        return ast.parse("")


def names_of(function: Any) -> dict[str, Any]:
    """Return the names that Taichi finds in a function, but for its arguments."""
    code, cells = function.__code__, function.__closure__ or ()
    closed = zip(code.co_freevars, cells, strict=True)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in closed}}


def is_static(over: ast.expr) -> bool:
    """Return whether a loop over something is unrolled while Taichi reads it."""
    if not isinstance(over, ast.Call):
        return False
    function = over.func
    return getattr(function, "attr", getattr(function, "id", "")) == "static"


def is_pure(call: ast.Call, names: Mapping[str, Any]) -> bool:
    """Return whether a call only computes.

    Args:
        call: the call.
        names: the names that Taichi finds in the kernel.
    """
    found = called(call, names)
    if found is None and isinstance(call.func, ast.Attribute):
        owner: ast.expr = call.func.value
        while isinstance(owner, ast.Attribute | ast.Subscript):
            owner = owner.value
        is_variable = not (isinstance(owner, ast.Name) and owner.id in names)
        return is_variable and call.func.attr in _METHODS
    if getattr(found, "_is_taichi_function", False):
        return _only_computes(found)
    name = getattr(found, "__name__", "")
    is_known = any(found is getattr(module, name, None) for module in MODULES)
    is_builtin = any(found is one for one in _BUILTINS)
    is_of_change = getattr(found, "__module__", "") == OWN
    return found is not None and (
        is_builtin or is_of_change or (is_known and not name.startswith(_IMPURE))
    )


def _only_computes(function: Any) -> bool:
    """Return whether a ``ti.func`` changes nothing but variables of its own."""
    if getattr(function, "_is_real_function", False):
        return False
    tree = function_of(tree_of(function.__wrapped__))
    if tree is None:
        return False
    names = names_of(function.__wrapped__)
    arguments, own = {one.arg for one in tree.args.args}, stored(tree.body)
    if arguments & own:  # Which may be the caller's.
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            return False
        if isinstance(node, ast.Subscript):  # What others change, it may not know.
            owner = node.value
            if not isinstance(owner, ast.Name) or owner.id not in arguments | (own - names.keys()):
                return False
        if isinstance(node, ast.Call) and called(node, names) is function:
            return False
        if isinstance(node, ast.Call) and not is_pure(node, names):
            return False
    return True


def axes_of(kernel: Any) -> dict[str, int]:
    """Return how many axes each array argument of the object behind a ``ti.kernel`` has."""
    return {
        argument.name: ndim
        for argument in kernel.arguments
        if isinstance(argument.annotation, NdarrayType)
        and (ndim := argument.annotation.ndim) is not None
    }


def assigned_by(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names of variables that statements assign, but for those in blocks of theirs."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.If | ast.While):
            found |= stored([statement.test])
        elif isinstance(statement, ast.For):
            found |= stored([statement.iter])
        else:
            found |= stored([statement])
    return found


def stored(body: Sequence[ast.AST]) -> set[str]:
    """Return the names of variables that code assigns."""
    return {
        node.id
        for each in body
        for node in ast.walk(each)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def outer_names(function: ast.FunctionDef) -> set[str]:
    """Return the names of arguments and variables that live outside of the parallel loops."""
    outside = [one for one in function.body if not isinstance(one, ast.For | ast.While)]
    return {one.arg for one in function.args.args} | stored(outside)


def leaves(body: Sequence[ast.AST]) -> bool:
    """Return whether the statements of a loop may end it early."""

    def ends(node: ast.AST, is_inner: bool) -> bool:
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and not is_inner):
            return True
        is_inner = is_inner or isinstance(node, ast.For | ast.While)
        return any(ends(child, is_inner) for child in ast.iter_child_nodes(node))

    return any(ends(statement, is_inner=False) for statement in body)


def listed(node: ast.expr) -> list[ast.expr]:
    """Return the elements of a tuple, or a list of what is none: targets, and indices."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def is_number(node: ast.AST) -> bool:
    """Return whether code is an integer, which is not negative."""
    return isinstance(node, ast.Constant) and type(node.value) is int


def is_extent(node: ast.Subscript) -> bool:
    """Return whether code is ``x.shape[0]`` or the like."""
    return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"


def statements(code: str, place: ast.AST) -> list[ast.stmt]:
    """Return the statements of new code, which messages find where other code was."""
    made = ast.parse(code).body
    for statement in made:
        _put(statement, place)
    return made


def expression(code: str, place: ast.AST) -> ast.expr:
    """Return the expression of new code, which messages find where other code was."""
    made = ast.parse(code, mode="eval").body
    _put(made, place)
    return made


def indented(lines: Sequence[str], depth: int) -> str:
    """Return lines of code, all but the first of which are indented."""
    return textwrap.indent("\n".join(lines), "    " * depth).lstrip()


def _put(made: ast.AST, place: ast.AST) -> None:
    for each in ast.walk(made):
        ast.copy_location(each, place)


def fill(code: Sequence[ast.stmt], statements: Mapping[str, list[ast.stmt]]) -> None:
    """Replace calls such as ``_turn()`` within blocks of code by statements.

    Args:
        code: the code, which is changed.
        statements: by the names that are called.
    """
    filled = _Filled(statements)
    for statement in code:
        filled.visit(statement)


class Renamed(ast.NodeTransformer):
    """Gives variables other names.

    Args:
        names: the new names by the old ones.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Change a name."""
        node.id = self._names.get(node.id, node.id)
        return node


class _Filled(ast.NodeTransformer):
    def __init__(self, statements: Mapping[str, list[ast.stmt]]) -> None:
        self._statements = statements

    def visit_Expr(self, node: ast.Expr) -> Any:
        name = ast.unparse(node.value).removesuffix("()")
        return self._statements.get(name, node)

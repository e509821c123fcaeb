"""Functions of a module two of whose arguments may change places, such as those of a product."""

from __future__ import annotations

import ast
import copy
import itertools
import re
from collections.abc import Mapping

# Calls that return a number and do nothing else.
_PURE = re.compile(r"ti\.(abs|bit_cast|cast|max|min|select|[iuf](8|16|32|64))")
_SYMMETRIC = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
# Operators that take no floats.
_OF_INTEGERS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)

_Functions = Mapping[str, ast.FunctionDef]


def order_arguments(tree: ast.AST) -> None:
    """Let calls have those arguments in one order that their function takes in any order."""
    plain = _plain_functions(tree)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    # Where the arguments are that may change places with the next one.
    places = {function.name: _swappable(function, plain) for function in functions}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and all(_is_pure(each, plain) for each in node.args):
            found = places.get(ast.unparse(node.func), [])
            for place in found * len(found):  # Until a run of them is in order.
                node.args[place : place + 2] = sorted(node.args[place : place + 2], key=ast.dump)


def _plain_functions(tree: ast.AST) -> dict[str, ast.FunctionDef]:
    """Return the functions by name that return a number and do nothing else."""
    plain: dict[str, ast.FunctionDef] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and _is_plain(node, plain):
            plain[node.name] = node
    return plain


def _is_plain(function: ast.FunctionDef, plain: _Functions) -> bool:
    """Tell whether a function only names numbers, and returns the last of them.

    Args:
        function: the function.
        plain: those before it, which it may call.
    """
    if not function.body:  # Nothing is left of a mutant without its only statement.
        return False
    given = [_annotation(argument) for argument in function.args.args]
    decorators = [ast.unparse(each) for each in function.decorator_list]
    has_docstring = ast.get_docstring(function) is not None
    *named, last = function.body[has_docstring:] or function.body
    return (
        decorators == ["ti.func"]
        # What stands for a template may be assigned.
        and not any("template" in annotation for annotation in given)
        and isinstance(last, ast.Return)
        and all(isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) for s in named)
        and all(_is_pure(statement, plain) for statement in function.body)
    )


def _is_pure(node: ast.AST, plain: _Functions) -> bool:
    calls = [ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)]
    return all(_PURE.fullmatch(name) or name in plain for name in calls)


def _swappable(function: ast.FunctionDef, plain: _Functions) -> list[int]:
    """Return the places of arguments that a function may take in place of the next one."""
    return [
        place
        for place, (one, other) in enumerate(itertools.pairwise(function.args.args))
        if _annotation(one) == _annotation(other)
        # What stands for a template may be of any type.
        and _annotation(one)
        and "template" not in _annotation(one)
        and _ordered(function, {}, plain)
        == _ordered(function, {one.arg: other.arg, other.arg: one.arg}, plain)
    ]


def _annotation(argument: ast.arg) -> str:
    return ast.unparse(argument.annotation) if argument.annotation else ""


def _ordered(function: ast.FunctionDef, names: Mapping[str, str], plain: _Functions) -> str:
    body = ast.Module(copy.deepcopy(function.body), [])
    return ast.dump(_Ordered(names, plain).visit(body))


class _Ordered(ast.NodeTransformer):
    """Renames, and then puts the operands of sums, products and the like in one order.

    Minima and maxima of floats stay: which of two zeros, or of a number and NaN, they return may
    depend on the order.
    """

    def __init__(self, names: Mapping[str, str], plain: _Functions) -> None:
        self._names, self._plain = names, plain

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, _SYMMETRIC) and _is_pure(node, self._plain):
            node.left, node.right = sorted((node.left, node.right), key=ast.dump)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_extreme = ast.unparse(node.func) in ("ti.min", "ti.max")
        if is_extreme and all(_is_integer(argument, self._plain) for argument in node.args):
            node.args.sort(key=ast.dump)
        return node


def _is_integer(node: ast.AST | None, plain: _Functions) -> bool:
    """Tell whether an expression is surely an integer."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _OF_INTEGERS)
    if isinstance(node, ast.Call) and (function := plain.get(ast.unparse(node.func))):
        returned = function.body[-1]
        return isinstance(returned, ast.Return) and _is_integer(returned.value, plain)
    return False

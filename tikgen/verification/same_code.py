"""Tells whether two texts are the same code: what cannot change a result is taken out."""

from __future__ import annotations

import ast
import functools
import operator
from typing import Any

from tikgen.pipeline.rendering import digest_of
from tikgen.verification.symmetric import order_arguments

_FOLDED = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def is_same_code(text: str, other: str) -> bool:
    """Tell whether two modules surely do the same.

    Raises:
        SyntaxError: if one of them is not Python.
    """
    return digest_of(text) == digest_of(other) or normal_form(text) == normal_form(other)


@functools.lru_cache(maxsize=4)
def normal_form(text: str) -> str:
    """Return one text for modules whose code differs in nothing that counts.

    Arithmetic of whole literals is done, sums with 0, products with 1, ``pass`` and names that
    nobody reads go, the index of a loop of one turn is 0, and a name that is a whole literal from
    here to the end of the block is that literal. The sign bit of an extent is a zero
    that the compiler cannot know, and so has no sign. Arguments of a function that is the same
    with both swapped have one order. Modules that differ here may still do the same.

    Raises:
        SyntaxError: if ``text`` is not Python.
    """
    tree = _Simpler().visit(ast.parse(text))
    given = _zero_parameters(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            _HiddenZeros(node, given[node.name]).visit(node)
            _drop_unread(node)
    order_arguments(tree)
    return ast.dump(tree)


class _Simpler(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        left, right = _whole(node.left), _whole(node.right)
        if left is not None and right is not None and type(node.op) in _FOLDED:
            return ast.Constant(_FOLDED[type(node.op)](left, right))
        if (right == 0 and isinstance(node.op, ast.Add | ast.Sub)) or (
            right == 1 and isinstance(node.op, ast.Mult)
        ):
            return node.left
        if (left == 0 and isinstance(node.op, ast.Add)) or (
            left == 1 and isinstance(node.op, ast.Mult)
        ):
            return node.right
        if isinstance(node.op, ast.FloorDiv) and right is not None:
            _forget_rest(node.left, right)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        value = _whole(node.operand)
        if isinstance(node.op, ast.USub) and value is not None:
            return ast.Constant(-value)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        if isinstance(node.target, ast.Name) and _turns_once(node.iter):
            node.body = [_Literal(node.target.id, 0).visit(each) for each in node.body]
        return self._with_literals(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._with_literals(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._with_literals(node)

    def _with_literals(self, node: ast.For | ast.FunctionDef | ast.If) -> ast.AST:
        """Replace names by literals where they hold nothing else to the end of the block."""
        for number, statement in enumerate(node.body):
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name, value = statement.targets[0].id, _whole(statement.value)
                after = node.body[number + 1 :]
                changes = [n for each in after for n in ast.walk(each) if isinstance(n, ast.Name)]
                is_kept = not any(n.id == name and isinstance(n.ctx, ast.Store) for n in changes)
                if value is not None and len(statement.targets) == 1 and is_kept:
                    node.body[number + 1 :] = [_Literal(name, value).visit(each) for each in after]
        return self.generic_visit(node)

    def visit_Pass(self, node: ast.Pass) -> None:
        return None


def _forget_rest(node: ast.expr, divisor: int) -> None:
    """Let ``ti.max(n, 3)``, which is divided by more than 3, be ``ti.max(n, 0)``."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "ti.max" and len(node.args) == 2:
        least = _whole(node.args[1])
        if least is not None and 0 < least < divisor:
            node.args[1] = ast.Constant(0)


class _Literal(ast.NodeTransformer):
    """Replaces a name that is read by a literal."""

    def __init__(self, name: str, value: int) -> None:
        self._name, self._value = name, value

    def visit_Name(self, node: ast.Name) -> ast.AST:
        is_read = node.id == self._name and isinstance(node.ctx, ast.Load)
        return ast.Constant(self._value) if is_read else node


def _zero_parameters(tree: ast.AST) -> dict[str, set[str]]:
    """Return for each function the parameters that every call gives a hidden zero."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    given: dict[str, set[str]] = {function.name: set() for function in functions}
    # A zero may be passed on from function to function.
    for _ in functions:
        calls: dict[str, list[list[bool]]] = {}
        for caller in functions:
            zeros = _HiddenZeros(caller, given[caller.name])
            for node in ast.walk(caller):
                if isinstance(node, ast.Call):
                    is_zero = [zeros.is_zero(argument) for argument in node.args]
                    calls.setdefault(ast.unparse(node.func), []).append(is_zero)
        for function in functions:
            stored = {n.id for n in ast.walk(function) if _is_stored(n)}  # type: ignore[attr-defined]
            for number, argument in enumerate(function.args.args):
                passed = [
                    each[number : number + 1] == [True] for each in calls.get(function.name, [])
                ]
                if passed and all(passed) and argument.arg not in stored:
                    given[function.name].add(argument.arg)
    return given


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


class _HiddenZeros(ast.NodeTransformer):
    """Lets what is 0 at run time be added, subtracted and so on alike.

    Args:
        function: whose names are looked at; one that is assigned nothing else may be such a zero.
        given: parameters of the function that are such zeros.
    """

    def __init__(self, function: ast.FunctionDef, given: set[str]) -> None:
        names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
        stored = [n.id for n in names if isinstance(n.ctx, ast.Store)]
        stored += [argument.arg for argument in function.args.args]
        self._zeros = set(given)
        zeros = [
            node.targets[0].id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and self.is_zero(node.value)
        ]
        # Names that are assigned nothing else.
        self._zeros |= {name for name in zeros if zeros.count(name) == stored.count(name)}

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if self.is_zero(node):
            # An extent is 1 at least, so that one less has no sign either.
            node.left = _extent(node.left) or node.left
        elif isinstance(node.op, ast.BitOr | ast.BitXor) and self.is_zero(node.right):
            node.op = ast.BitXor()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        is_negated = isinstance(node.op, ast.USub) and self.is_zero(node.operand)
        return node.operand if is_negated else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_nothing = ast.unparse(node.func) == "ti.atomic_sub" and self.is_zero(node.args[-1])
        if is_nothing:
            node.func = ast.parse("ti.atomic_add", mode="eval").body
        return node

    def is_zero(self, node: ast.expr) -> bool:
        """Return whether it is ``x.shape[0] & ti.i32(-2147483648)``, or a name or cast of it."""
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ti.cast":
            return self.is_zero(node.args[0])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.is_zero(node.operand)
        if isinstance(node, ast.Name):
            return node.id in self._zeros
        return (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.BitAnd)
            and _extent(node.left) is not None
            and ast.unparse(node.right) in ("-2147483648", "ti.i32(-2147483648)")
        )


def _extent(node: ast.expr) -> ast.expr | None:
    """Return the extent that an expression is, such as ``x.shape[0]``, or one more than it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _whole(node.right) == 1:
        node = node.left
    is_item = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)
    return node if is_item and node.value.attr == "shape" else None  # type: ignore[attr-defined]


def _turns_once(loop: ast.expr) -> bool:
    """Tell whether a loop has one turn at most: ``range(1)`` or ``range(n % 2)``."""
    if not (isinstance(loop, ast.Call) and len(loop.args) == 1):
        return False
    is_range = isinstance(loop.func, ast.Name) and loop.func.id == "range"
    count = loop.args[0]
    is_rest = isinstance(count, ast.BinOp) and isinstance(count.op, ast.Mod)
    least = _whole(count.right) if is_rest else None  # type: ignore[attr-defined]
    return is_range and (_whole(count) == 1 or least == 2)


def _whole(node: ast.AST) -> int | None:
    is_whole = isinstance(node, ast.Constant) and type(node.value) is int
    return node.value if is_whole else None  # type: ignore[attr-defined]


def _drop_unread(function: ast.FunctionDef) -> None:
    """Take out assignments to local names that are read nowhere."""
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    read = {n.id for n in names if isinstance(n.ctx, ast.Load)}

    class Drop(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> Any:
            target = node.targets[0]
            is_unread = isinstance(target, ast.Name) and target.id not in read
            # A call may do more than return a value.
            has_calls = any(isinstance(n, ast.Call) for n in ast.walk(node.value))
            return None if is_unread and len(node.targets) == 1 and not has_calls else node

    Drop().visit(function)

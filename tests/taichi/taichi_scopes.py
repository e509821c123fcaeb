"""Runs the code of small kernels in Python, with variables that live as long as Taichi's do."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Gt: operator.gt,
}


class RefusedError(Exception):
    """A kernel is one that Taichi does not take, or whose result depends on the order of turns."""


def run(code: str, outside: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Run the statements of a kernel.

    Args:
        code: the statements.
        outside: the global names of the kernel.
        arguments: the arguments by their names.

    Raises:
        RefusedError: see there.
    """
    _Run(outside, arguments).block(ast.parse(code).body)


class _Run:
    def __init__(self, outside: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        self._outside, self._arguments = outside, arguments
        self._scopes: list[dict[str, Any]] = [dict(arguments)]
        # How many scopes are outside of the parallel loop.
        self._shared = 0

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Run statements in a scope of their own."""
        self._scopes.append({})
        for statement in body:
            self._statement(statement)
        self._scopes.pop()

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            value = self._value(node.value)
            (target,) = node.targets
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            values = value if isinstance(target, ast.Tuple) else [value]
            for one, its in zip(targets, values, strict=True):
                self._assign(one, its)
        elif isinstance(node, ast.AugAssign):
            name = node.target.id if isinstance(node.target, ast.Name) else ""
            if name and not any(name in scope for scope in self._scopes):
                raise RefusedError
            old = ast.parse(ast.unparse(node.target), mode="eval").body
            self._assign(node.target, self._value(old) + self._value(node.value))
        elif isinstance(node, ast.For):
            self._loop(node)
        elif isinstance(node, ast.If):
            self.block(node.body if self._value(node.test) else node.orelse)
        else:
            raise AssertionError(ast.dump(node))

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Subscript):
            self._value(target.value)[self._value(target.slice)] = value
            return
        assert isinstance(target, ast.Name)
        places = [at for at, scope in enumerate(self._scopes) if target.id in scope]
        if places and (places[-1] < self._shared or target.id in self._arguments):
            raise RefusedError
        self._scopes[places[-1] if places else -1][target.id] = value

    def _loop(self, node: ast.For) -> None:
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        names = [one.id for one in targets if isinstance(one, ast.Name)]
        is_ndrange = "ndrange" in ast.unparse(node.iter)
        if not is_ndrange and any(name in scope for scope in self._scopes for name in names):
            raise RefusedError
        before = self._shared
        self._shared = before or len(self._scopes)
        for turn in list(self._turns(node.iter)):
            self._scopes.append(dict(zip(names, turn, strict=True)))
            self.block(node.body)
            self._scopes.pop()
        self._shared = before

    def _turns(self, over: ast.expr) -> Iterable[tuple[int, ...]]:
        if isinstance(over, ast.Call):
            return itertools.product(*(range(self._value(one)) for one in over.args))
        return itertools.product(*map(range, self._value(over).shape))

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            places = (scope for scope in reversed(self._scopes) if node.id in scope)
            return next(places, self._outside)[node.id]
        if isinstance(node, ast.Tuple):
            return tuple(map(self._value, node.elts))
        if isinstance(node, ast.Attribute):
            return getattr(self._value(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            return self._value(node.value)[self._value(node.slice)]
        if isinstance(node, ast.Compare):
            (operation,), (right,) = node.ops, node.comparators
            return _OPERATORS[type(operation)](self._value(node.left), self._value(right))
        assert isinstance(node, ast.BinOp)
        return _OPERATORS[type(node.op)](self._value(node.left), self._value(node.right))

"""Assignments at every element of which some are reductions: ``r = r - a*q; rr = sum(r*r)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tikgen.dtypes import DType
from tikgen.expression.assignments import Assignments, Expression
from tikgen.expression.reader import Reader, free_output, statements_of, written_out
from tikgen.expression.reductions import TERMS, misused, reduction_of, unusable
from tikgen.expression.text import once_for_dtype
from tikgen.expression.tree import Node


class Reducing(Assignments):
    """Assignments such as ``r = r - a*q; rr = sum(r*r)``, executed in order at every element.

    Where the whole right-hand side is ``sum``, ``max`` or ``min`` of one expression, it is a
    reduction over all elements, and nothing in the text can read its result.

    Attributes:
        reductions: operation of each reduction by the name of its result, to which the
            assignments assign the value at an element.
        terms: arrays that hold the terms of a sum, which adds nothing up.
    """

    __slots__ = ("reductions", "terms")

    reductions: Mapping[str, str]
    terms: tuple[str, ...]

    def __init__(
        self,
        assignments: tuple[tuple[str, Expression], ...],
        reductions: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(assignments)
        found = dict(reductions or {})
        lines = []
        for name, expression in assignments:
            is_reduction = name in found
            value = f"{found[name]}({expression})" if is_reduction else str(expression)
            lines.append(f"{name} = {value}")
        terms = tuple(name for name, operation in found.items() if operation == TERMS)
        found = {name: operation for name, operation in found.items() if operation != TERMS}
        object.__setattr__(self, "reductions", found)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "text", "; ".join(lines))

    @classmethod
    def parse(cls, value: str | Assignments | Expression) -> Reducing:
        """Return ``value`` as a program.

        Raises:
            ExpressionError: if it contains something that is not allowed.
        """
        if isinstance(value, Reducing):
            return value
        if isinstance(value, Assignments | Expression):
            return cls(Assignments.parse(value).assignments)
        nodes, reductions = _parsed(value)
        found = cls(tuple((name, Expression(node)) for name, node in nodes), reductions)
        object.__setattr__(found, "_source", value)
        return found

    def _read_in(self, dtype: DType) -> None:
        _parsed(self._source, dtype)

    @property
    def written(self) -> tuple[str, ...]:
        """Return the arrays that are written at every element, in order."""
        return tuple(name for name in self.outputs if name not in self.reductions)

    @once_for_dtype
    def folded(self, dtype: DType) -> Reducing:
        """Return the program with operations on literals computed in ``dtype``.

        Raises:
            ExpressionError: if the program cannot be computed in ``dtype``.
        """
        return Reducing(super().folded(dtype).assignments, self.kinds)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.assignments, self.kinds)

    @property
    def kinds(self) -> dict[str, str]:
        """Return the operation of each reduction, and that of arrays that hold terms."""
        return {**self.reductions, **dict.fromkeys(self.terms, TERMS)}

    def with_terms(self) -> Reducing:
        """Return a program that stores the terms of each sum, and adds nothing up."""
        changed = {n: TERMS if op == "sum" else op for n, op in self.kinds.items()}
        return Reducing(self.assignments, changed)


class _Reader(Reader):
    """Reads the assignments, and says where a reduction cannot stand."""

    def _call(self, tree: ast.Call, depth: int) -> Node:
        if problem := misused(tree):
            raise self.error_at(tree, problem)
        return super()._call(tree, depth)


def _parsed(
    text: object, dtype: DType | None = None
) -> tuple[list[tuple[str, Node]], dict[str, str]]:
    """Return (name, tree) for each assignment in a text, and its reductions.

    Where a dtype is given, what cannot be computed in it is refused.
    """
    text, statements = statements_of(text)
    statements = written_out(text, statements)
    reader = _Reader(text, statements, dtype)
    if len(statements) == 1 and isinstance(statements[0], ast.Expr):
        value = statements[0].value
        operation = reduction_of(value)
        if found := unusable([ast.Name("")], [value]):
            raise reader.error_at(*found)
        node = reader.suited("", _operand(value))
        name = free_output(node)
        return [(name, node)], {name: operation} if operation else {}
    plain = [
        (statement, target)
        for statement in statements
        if isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(target := statement.targets[0], ast.Name)
    ]
    if found := unusable([target for _, target in plain], [s.value for s, _ in plain]):
        raise reader.error_at(*found)
    reductions = {t.id: op for s, t in plain if (op := reduction_of(s.value))}
    for statement, _ in plain:
        statement.value = _operand(statement.value)
    return [reader.assignment(statement) for statement in statements], reductions


def _operand(value: ast.expr) -> ast.expr:
    """Return what is reduced, or the right-hand side itself."""
    return value.args[0] if reduction_of(value) and isinstance(value, ast.Call) else value

"""Functions that a text defines, as in ``f(u) = u**2/2``: they are put in where they are called."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NoReturn

from tikgen.errors import near
from tikgen.expression.chains import replaced
from tikgen.expression.literals import copied, nodes_in
from tikgen.units import counted

MOST_NODES = 20_000
TOO_DEEP = "cannot be read: its functions are nested too deeply"
# The head of a definition, and what takes its place and its width for Python's parser.
_HEAD = re.compile(r"(^|;)([ \t]*[A-Za-z_]\w*)\(([^()=;\n]*)\)([ \t]*)=(?!=)", re.MULTILINE)
_PARSED = re.compile(r"^( *\w+)\[(.*)\] @= ", re.MULTILINE)

Refuse = Callable[[ast.AST, str], NoReturn]


def parsed_definitions(text: str) -> str:
    """Return a text for Python's parser: ``f(u) = 2*u`` becomes ``f[u]@= 2*u``."""
    return _HEAD.sub(
        lambda found: f"{found[1]}{found[2]}[{found[3] or '()'}]{found[4][1:]}@=", text
    )


def shown_definitions(text: str) -> str:
    """Return what Python prints as a user writes it."""
    return _PARSED.sub(lambda found: f"{found[1]}({found[2].strip('()')}) = ", text)


def is_definition(statement: ast.AST) -> bool:
    """Return whether a statement defines a function."""
    return isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.MatMult)


def inlined(
    statements: Sequence[ast.stmt],
    known: Collection[str],
    refuse: Refuse,
    taken: Iterable[str] = (),
    conditions: Mapping[str, ast.expr] | None = None,
) -> tuple[list[ast.stmt], dict[str, ast.expr]]:
    """Return statements and conditions in which functions of the text are written out.

    Args:
        statements: the user's statements, which stay as they are.
        known: functions that every text has.
        refuse: raises the error for a tree and a problem.
        taken: names that have a meaning already.
        conditions: conditions by name.
    """
    named = dict(conditions or {})
    if not any(is_definition(node) for each in statements for node in _statements_in(each)):
        return [*statements], named
    functions = _Functions(statements, known, refuse, taken)
    plain = [copied(each) for each in statements if not is_definition(each)]
    try:
        found: list[ast.stmt] = [functions.visit(each) for each in plain]
        named = {name: functions.visit(copied(tree)) for name, tree in named.items()}
    except RecursionError:
        refuse(statements[0], TOO_DEEP)
    functions.check_used()
    if not found:
        refuse(statements[0], "defines functions only, and assigns nothing")
    return found, named


def _statements_in(statement: ast.stmt) -> list[ast.stmt]:
    """Return a statement, and those of a block."""
    found = [statement]
    for each in found:
        found += [*getattr(each, "body", ()), *getattr(each, "orelse", ())]
    return found


class _Functions(ast.NodeTransformer):
    """Replaces calls by what they stand for."""

    def __init__(
        self,
        statements: Sequence[ast.stmt],
        known: Collection[str],
        refuse: Refuse,
        taken: Iterable[str],
    ) -> None:
        self._known = known
        self._refuse = refuse
        self._taken = {*taken}
        self._parameters: dict[str, list[str]] = {}
        self._definitions: dict[str, ast.AugAssign] = {}
        self._bodies: dict[str, ast.expr] = {}
        self._open: list[str] = []
        self._count = 0
        for statement in statements:
            if isinstance(statement, ast.AugAssign) and is_definition(statement):
                self._define(statement)

    def _define(self, statement: ast.AugAssign) -> None:
        target = statement.target
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            self._refuse(statement, "has '@=', which is not allowed")
        name = target.value.id
        if name in self._known:
            self._refuse(target, f"{name!r} is a function of every text; choose another name")
        if name in self._definitions:
            self._refuse(target, f"{name!r} is defined twice")
        if name in self._taken:
            self._refuse(target, f"{name!r} has a meaning already; choose another name")
        items = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        names = [item.id for item in items if isinstance(item, ast.Name) and item.id.isascii()]
        if not items or len(names) < len(items) or len({*names}) < len(names):
            self._refuse(
                target, f"the arguments of {name}() are different names, as in '{name}(a, b) = a*b'"
            )
        for item in names:
            if item in self._known or item == name:
                self._refuse(target, f"{item!r} is a function and cannot name an argument")
        self._definitions[name], self._parameters[name] = statement, names

    def check_used(self) -> None:
        """Refuse functions that nothing calls."""
        for name, statement in self._definitions.items():
            if name not in self._bodies:
                self._refuse(statement, f"{name}() is defined, and nothing calls it")

    def visit_AugAssign(self, tree: ast.AugAssign) -> ast.AST:
        """Refuse a definition within a block."""
        if is_definition(tree):
            self._refuse(tree, "a function is defined outside of blocks")
        return self.generic_visit(tree)

    def visit_Name(self, tree: ast.Name) -> ast.expr:
        """Refuse the name of a function without arguments."""
        if tree.id in self._definitions:
            what = "cannot be assigned" if isinstance(tree.ctx, ast.Store) else "takes arguments"
            self._refuse(tree, f"{tree.id!r} is a function of this text, and {what}")
        return tree

    def visit_BinOp(self, tree: ast.BinOp) -> ast.expr:
        """Replace the calls in a sum or product."""
        return replaced(tree, self.visit)

    def visit_Call(self, tree: ast.Call) -> ast.expr:
        """Replace a call of a function of the text."""
        name = tree.func.id if isinstance(tree.func, ast.Name) else ""
        tree.args = [self.visit(arg) for arg in tree.args]
        for keyword in tree.keywords:
            keyword.value = self.visit(keyword.value)
        if name not in self._definitions:
            hint = "" if name in self._known else near(name, self._definitions)
            if hint:
                self._refuse(tree, f"calls {name!r}, which is not a function.{hint}")
            return tree
        names = self._parameters[name]
        if tree.keywords or len(tree.args) != len(names):
            takes = counted(len(names), "argument")
            listed = f"{name}({', '.join(names)})"
            got = "keywords" if tree.keywords else len(tree.args)
            self._refuse(tree, f"{listed} takes {takes}; got {got}")
        body = copied(self._body(tree, name))
        self._count += len(nodes_in(body)) + sum(
            len(nodes_in(arg)) for arg in tree.args for _ in names
        )
        if self._count > MOST_NODES:
            self._refuse(tree, f"its functions stand for more than {MOST_NODES} operations")
        for node in ast.walk(body):
            ast.copy_location(node, tree)
        values = dict(zip(names, tree.args, strict=True))
        found: ast.expr = _Substitution(name, values, self._refuse).visit(body)
        return found

    def _body(self, tree: ast.Call, name: str) -> ast.expr:
        """Return the right-hand side of a function, in which others are written out."""
        if name in self._open:
            path = " calls ".join(f"{each}()" for each in [*self._open, name])
            self._refuse(tree, f"{path}: a function cannot call itself")
        if name not in self._bodies:
            self._open.append(name)
            self._bodies[name] = self.visit(copied(self._definitions[name].value))
            self._open.pop()
        return self._bodies[name]


class _Substitution(ast.NodeTransformer):
    """Replaces the names of arguments by what a call passes."""

    def __init__(self, name: str, values: Mapping[str, ast.expr], refuse: Refuse) -> None:
        self._name = name
        self._values = values
        self._refuse = refuse

    def visit_BinOp(self, tree: ast.BinOp) -> ast.expr:
        """Replace the names in a sum or product."""
        return replaced(tree, self.visit)

    def visit_Name(self, tree: ast.Name) -> ast.expr:
        """Replace an argument; of its next value and its components the name."""
        own = re.match(r"\w*", tree.id, re.ASCII)
        name = own[0] if own else ""
        value, rest = self._values.get(name), tree.id[len(name) :]
        if value is None:
            return tree
        if not rest:
            return copied(value)
        if not isinstance(value, ast.Name) or not value.id.isascii():
            self._refuse(
                tree, f"{self._name}() reads the next value or a component of {name!r}: pass a name"
            )
        return ast.copy_location(ast.Name(value.id + rest, tree.ctx), tree)

"""How many components the values of expressions have."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import NoReturn

from tikgen.expression.chains import chain_of, text_of
from tikgen.expression.operators import AXES


class Sizes:
    """Counts components, and refuses arithmetic that vectors do not have.

    Args:
        of_name: returns the number of components of a name, 0 for a number.
        dim: number of axes.
        refuse: raises the error for a tree and a problem.
    """

    def __init__(
        self,
        of_name: Callable[[ast.Name], int],
        dim: int,
        refuse: Callable[[ast.AST, str], NoReturn],
    ) -> None:
        self._of_name = of_name
        self._dim = dim
        self._refuse = refuse

    def of(self, tree: ast.expr) -> int:
        """Return how many components a value has, 0 for a number."""
        match tree:
            case ast.Name():
                return self._of_name(tree)
            case ast.Subscript():
                return self.of(tree.value)
            case ast.UnaryOp():
                return self.of(tree.operand)
            case ast.BinOp():
                chain = chain_of(tree)
                size = self.of(chain[-1].left)
                for part in reversed(chain):
                    size = self._of_operation(part, size, self.of(part.right))
                return size
            case ast.IfExp():
                return self.same(tree, [tree.body, tree.orelse])
            case ast.Call(func=ast.Name(id="dot"), args=[one, other]):
                self._check_carried(tree, one, other)
                return 0
            case ast.Call(func=ast.Name(id="grad"), args=[operand]) if self.of(operand):
                name = text_of(operand)
                each = ", ".join(f"d{letter}({name})" for letter in AXES[: self._dim])
                self._refuse(tree, f"takes the gradient of a vector; its derivatives are {each}")
            case ast.Call(func=ast.Name(id="grad")):
                return self._dim
            case ast.Call(func=ast.Name(id="curl")):
                return 3 if self._dim == 3 else 0
            case ast.Call(func=ast.Name(id="cross")):
                return 3 if self.same(tree, tree.args) == 3 else 0
            case ast.Call(func=ast.Name(id=name)) if name not in ("div", "dot", "norm"):
                return self.same(tree, tree.args[name == "where" :])
        return 0

    def same(self, tree: ast.expr, parts: Sequence[ast.expr]) -> int:
        """Return the number of components that all parts of a tree have."""
        sizes = [self.of(part) for part in parts]
        if len(set(sizes)) > 1:
            got = ", ".join(f"a vector of {size}" if size else "a number" for size in sizes)
            self._refuse(tree, f"takes vectors of one size, or numbers alone; got {got}")
        return sizes[0] if sizes else 0

    def _check_carried(self, tree: ast.Call, one: ast.expr, other: ast.expr) -> None:
        """Refuse what a flow does to a vector, with what it is term by term."""
        for flow, gradient in ((one, other), (other, one)):
            match gradient:
                case ast.Call(func=ast.Name(id="grad"), args=[operand]) if self.of(operand):
                    is_named = isinstance(flow, ast.Name)
                    by, name = text_of(flow) if is_named else "flow", text_of(operand)
                    terms = " + ".join(f"{by}.{a}*d{a}({name})" for a in AXES[: self._dim])
                    write = "write" if is_named else "name the other one, and write"
                    self._refuse(tree, f"takes the gradient of a vector; {write} {terms}")

    def _of_operation(self, tree: ast.BinOp, left: int, right: int) -> int:
        match tree.op:
            case ast.Add() | ast.Sub() if left and right and left != right:
                self._refuse(tree, f"adds vectors of different sizes, {left} and {right}")
            case ast.Add() | ast.Sub() if left != right:
                self._refuse(tree, f"adds a number to a vector of {left or right}")
            case ast.Mult() if left and right:
                self._refuse(tree, "multiplies two vectors; dot(v, w) is their scalar product")
            case ast.Div() if right:
                self._refuse(tree, "divides by a vector")
            case ast.Add() | ast.Sub() | ast.Mult() | ast.Div():
                return left or right
            case _ if left or right:
                self._refuse(tree, "has a vector where only numbers are allowed")
        return left or right

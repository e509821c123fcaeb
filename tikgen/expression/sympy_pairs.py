"""Takes SymPy's equations in all their forms: pairs of a left and a right side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sympy
from sympy.codegen.ast import Assignment, AugmentedAssignment, CodeBlock

from tikgen.expression.sympy_fields import refuse

# Of what SymPy takes for complex, it makes them: Abs(exp(x)) becomes exp(re(x)).
# The others are functions that texts do not have, in terms of those that they have.
_REWRITTEN = {
    sympy.re: lambda whole: whole,
    sympy.im: lambda _: sympy.S.Zero,
    sympy.Sum: lambda *args: sympy.Sum(*args).doit(),
    sympy.Heaviside: lambda *args: sympy.Heaviside(*args).rewrite(sympy.Piecewise),
    sympy.frac: lambda arg: arg - sympy.floor(arg),
    sympy.cot: lambda arg: 1 / sympy.tan(arg),
    sympy.sec: lambda arg: 1 / sympy.cos(arg),
    sympy.csc: lambda arg: 1 / sympy.sin(arg),
}
_AUGMENTED = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "%": sympy.Mod,
}


def pairs_of(equations: Any) -> list[tuple[Any, Any]]:
    """Return the left and the right side of each equation, as expressions of real numbers.

    Raises:
        ExpressionError: if something is no equation, or has no counterpart in real numbers.
    """
    return [(_plain(left), _plain(right)) for left, right in map(_pair, _several(equations))]


def _several(equations: Any) -> list[Any]:
    """Return equations one by one."""
    equations = getattr(equations, "all_assignments", equations)  # Of pystencils.
    if isinstance(equations, Mapping):
        return list(equations.items())
    if isinstance(equations, CodeBlock):
        return list(equations.args)
    if (
        isinstance(equations, tuple)
        and len(equations) == 2
        and isinstance(equations[0], sympy.Expr)
    ):
        return [equations]
    several = isinstance(equations, Iterable) and not isinstance(equations, sympy.Basic)
    return list(equations) if several else [equations]


def _pair(one: Any) -> tuple[Any, Any]:
    if isinstance(one, tuple | list | sympy.Tuple) and len(one) == 2:
        return one[0], one[1]
    if isinstance(one, AugmentedAssignment):
        return one.lhs, _AUGMENTED[one.binop](one.lhs, one.rhs)
    if getattr(one, "is_Reduction", False) or getattr(one, "is_Increment", False):  # Of Devito.
        refuse(one, "is an increment; write Eq(left, left + right)")
    if isinstance(one, sympy.Eq | Assignment):
        return one.lhs, one.rhs
    if isinstance(one, sympy.Rel):
        refuse(one, "is a comparison; an equation is Eq(left, right)")
    return refuse(one, "is no equation; write Eq(left, right) or a pair (left, right)")


def _plain(side: Any) -> Any:
    """Return a side as an expression of real numbers, in which indices are symbols."""
    try:
        side = sympy.sympify(side, strict=True)
    except sympy.SympifyError:
        refuse(side, f"is no expression of SymPy; got {type(side).__name__}")
    if isinstance(side, sympy.MatrixBase | sympy.MatrixExpr):
        refuse(side, "has several components; write an equation for each")
    for function, rewritten in _REWRITTEN.items():
        side = side.replace(function, rewritten)
    return side.xreplace({index: index.label for index in side.atoms(sympy.Idx)})

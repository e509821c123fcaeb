"""Turns SymPy's equations into the text of equations, of which all else is made."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import sympy
from sympy.codegen import cfunctions
from sympy.core.function import AppliedUndef

from tikgen.errors import ExpressionError
from tikgen.expression.chains import text_of
from tikgen.expression.operators import AXES
from tikgen.expression.spelling import PRIME, shown
from tikgen.expression.sympy_fields import Accesses, refuse
from tikgen.expression.sympy_laplacians import LAPLACIAN, with_laplacians
from tikgen.expression.sympy_names import MEANINGFUL, Names, past_name
from tikgen.expression.sympy_pairs import pairs_of
from tikgen.expression.tree import BEYOND_INTEGERS, LARGEST_EXPONENT

_FUNCTIONS = {
    sympy.Abs: "abs",
    sympy.acos: "acos",
    sympy.acosh: "acosh",
    sympy.asin: "asin",
    sympy.asinh: "asinh",
    sympy.atan: "atan",
    sympy.atan2: "atan2",
    sympy.atanh: "atanh",
    sympy.ceiling: "ceil",
    sympy.cos: "cos",
    sympy.cosh: "cosh",
    sympy.exp: "exp",
    sympy.floor: "floor",
    sympy.log: "log",
    sympy.Max: "max",
    sympy.Min: "min",
    sympy.sign: "sign",
    sympy.sin: "sin",
    sympy.sinh: "sinh",
    sympy.tan: "tan",
    sympy.tanh: "tanh",
    cfunctions.expm1: "expm1",
    cfunctions.hypot: "hypot",
    cfunctions.log10: "log10",
    cfunctions.log1p: "log1p",
    cfunctions.log2: "log2",
}
_COMPARISONS: dict[Any, type[ast.cmpop]] = {
    sympy.Lt: ast.Lt,
    sympy.Le: ast.LtE,
    sympy.Gt: ast.Gt,
    sympy.Ge: ast.GtE,
    sympy.Eq: ast.Eq,
    sympy.Ne: ast.NotEq,
}
_CONSTANTS = {sympy.pi: "pi", sympy.E: "e"}


@dataclass(frozen=True)
class SympyText:
    """Equations in SymPy, as text.

    Attributes:
        text: the equations, one a line.
        dim: number of axes; None if no field says.
        numbers: symbols that are read, and neither fields nor assigned nor axes, sorted.
        arrays: fields that are only read, and have names such as ``e`` and ``x``, which mean
            something else in a text unless a parameter such as ``types`` lists them, sorted.
    """

    text: str
    dim: int | None
    numbers: tuple[str, ...]
    arrays: tuple[str, ...] = ()

    @property
    def unlike_texts(self) -> tuple[str, ...]:
        """Return the names that mean something else where no parameter says what they are."""
        return (*self.arrays, *(name for name in self.numbers if name in MEANINGFUL))


def read(equations: Any) -> SympyText:
    """Return SymPy's equations as text.

    Args:
        equations: a ``sympy.Eq``, or several: a list of ``Eq`` or of pairs (left, right), or a
            dict; assignments of ``sympy.codegen.ast`` are taken as well.

    Raises:
        ExpressionError: if something has no counterpart in the text; it names the term.
    """
    pairs = pairs_of(equations)
    if not pairs:
        raise ExpressionError("[]", "is empty")
    accesses = Accesses([side for pair in pairs for side in pair])
    names = Names(pairs, accesses)
    writer = _Writer(accesses, names)
    text = shown("\n".join(writer.statement(left, right) for left, right in pairs))
    numbers = tuple(sorted(writer.numbers - writer.assigned))
    arrays = tuple(sorted((names.fields & MEANINGFUL) - writer.assigned))
    return SympyText(text, accesses.dim, numbers, arrays)


class _Writer:
    """Builds Python's syntax trees, of which ``ast`` prints the text.

    Attributes:
        numbers: plain symbols that were read.
        assigned: fields and symbols on left sides.
    """

    def __init__(self, accesses: Accesses, names: Names) -> None:
        self._accesses = accesses
        self._names = names
        self.numbers: set[str] = set()
        self.assigned: set[str] = set()

    def statement(self, left: Any, right: Any) -> str:
        """Return one assignment."""
        if left in self._accesses.found:
            field = self._accesses.found[left]
            if any(field.offset):
                refuse(left, "is not the point itself; assign to it without offsets in space")
            if field.step < 0:
                refuse(left, "is a value of the past, and cannot be assigned")
            target = self._field(left)
            self.assigned.add(field.name)
        elif isinstance(left, sympy.Derivative):
            refuse(
                left, "cannot be assigned; write the step, as in Eq(u(t + dt, x), u(t, x) + ...)"
            )
        elif isinstance(left, sympy.Symbol) and left not in self._accesses.axes:
            target = ast.Name(self._names.symbols[left])
            self.assigned.add(target.id)
        else:
            refuse(left, "cannot be assigned; the left side is a field or a symbol")
        return f"{ast.unparse(target)} = {text_of(self.number(right))}"

    def number(self, term: Any) -> ast.expr:
        """Return the tree of a term."""
        if term in self._accesses.found:
            return self._field(term)
        if term.is_Symbol:
            return self._symbol(term)
        if term.is_Number or term.is_NumberSymbol:
            return self._literal(term)
        if term.is_Add:
            return self._sum(term)
        if term.is_Mul:
            return self._product(term)
        if isinstance(term, sympy.exp):  # Or a power of e that SymPy left as it is.
            return self._call("exp", (term.exp,))
        if term.is_Pow:
            return self._power(*term.as_base_exp())
        if isinstance(term, sympy.Derivative):
            return self._derivative(term)
        if term.func == LAPLACIAN:
            return self._call("lap", term.args)
        if isinstance(term, sympy.Piecewise):
            return self._piecewise(term)
        if isinstance(term, sympy.Mod):
            return ast.BinOp(self.number(term.args[0]), ast.Mod(), self.number(term.args[1]))
        if term.func in _FUNCTIONS:
            return self._call(_FUNCTIONS[term.func], term.args)
        what = "function" if isinstance(term, sympy.Function | AppliedUndef) else "term"
        return refuse(term, f"is a {what} ({term.func.__name__}) that equations do not have")

    def truth(self, term: Any) -> ast.expr:
        """Return the tree of a condition."""
        if term.func in _COMPARISONS:
            left, right = map(self.number, term.args)
            return ast.Compare(left, [_COMPARISONS[term.func]()], [right])
        if isinstance(term, sympy.And | sympy.Or):
            op = ast.And() if isinstance(term, sympy.And) else ast.Or()
            parts = sorted(term.args, key=sympy.default_sort_key)
            return ast.BoolOp(op, [self.truth(part) for part in parts])
        if isinstance(term, sympy.Not):
            return _not(self.truth(term.args[0]))
        if isinstance(term, sympy.ITE):  # SymPy makes them of conditions within conditions.
            test, yes, no = map(self.truth, term.args)
            both = ast.BoolOp(ast.And(), [test, yes])
            return ast.BoolOp(ast.Or(), [both, ast.BoolOp(ast.And(), [_not(test), no])])
        if term in (sympy.true, sympy.false):  # A part of such a condition.
            return ast.Compare(ast.Constant(int(bool(term))), [ast.NotEq()], [ast.Constant(0)])
        return refuse(term, "is no comparison, And, Or or Not of comparisons")

    # Names and numbers.

    def _field(self, term: Any) -> ast.expr:
        field = self._accesses.found[term]
        own = field.name
        name = ast.Name({-1: past_name(own), 0: own, 1: own + PRIME}[field.step])
        if not any(field.offset):
            return name
        steps: list[ast.expr] = [ast.Constant(step) for step in field.offset]
        place = ast.Tuple(steps) if len(steps) > 1 else steps[0]
        return ast.Subscript(name, place)

    def _symbol(self, term: Any) -> ast.expr:
        name = self._names.symbols[term]
        if term not in self._accesses.axes:
            self.numbers.add(name)
        return ast.Name(name)

    def _literal(self, term: Any) -> ast.expr:
        if (name := _CONSTANTS.get(term)) and self._names.is_free(name):
            return ast.Name(name)
        if term.is_NumberSymbol:
            return ast.Constant(float(term))
        if not term.is_finite:
            refuse(term, "is not a finite number")
        if term.is_negative:
            return ast.UnaryOp(ast.USub(), self._literal(-term))
        # The dtype of the kernel rounds a quotient, and nothing before.
        if term.is_Rational and max(term.p, term.q) < BEYOND_INTEGERS:
            above, below = ast.Constant(int(term.p)), ast.Constant(int(term.q))
            return above if term.is_Integer else ast.BinOp(above, ast.Div(), below)
        number = float(term)
        if number in (0.0, math.inf) and not term.is_zero:
            refuse(term, "is too small or too large for a float")
        if term.is_Rational and not term.is_Integer and number == int(number):
            # It is whole after rounding. Integers, which do not hold it, refuse the quotient.
            return ast.BinOp(ast.Constant(number), ast.Div(), ast.Constant(1))
        return ast.Constant(number)

    def _call(self, function: str, args: Iterable[Any]) -> ast.expr:
        ordered = list(args)
        if function in ("max", "min"):
            ordered = sorted(ordered, key=sympy.default_sort_key)
        return ast.Call(ast.Name(function), [self.number(arg) for arg in ordered], [])

    # Arithmetic.

    def _sum(self, term: Any) -> ast.expr:
        """Return a sum that begins with a term that is not subtracted, if there is one."""
        parts = with_laplacians(list(term.as_ordered_terms()), self._accesses.axes)
        signs = [part.as_coeff_Mul()[0].is_negative for part in parts]
        if True in signs and False in signs:
            parts.insert(0, parts.pop(signs.index(False)))
        total = self.number(parts[0])
        for part in parts[1:]:
            is_negative = part.as_coeff_Mul()[0].is_negative
            op = ast.Sub() if is_negative else ast.Add()
            total = ast.BinOp(total, op, self.number(-part if is_negative else part))
        return total

    def _product(self, term: Any) -> ast.expr:
        number, rest = term.as_coeff_Mul()
        if number.is_negative:
            return ast.UnaryOp(ast.USub(), self.number(-term))
        above: list[ast.expr] = []
        below: list[ast.expr] = []
        for factor in rest.as_ordered_factors():
            base, exponent = factor.as_base_exp()
            if base is not sympy.E and exponent.is_number and exponent.is_negative:
                below.append(self.number(sympy.Pow(base, -exponent)))
            else:
                above.append(self.number(factor))
        if number != 1 or not above:
            above.insert(0, self._literal(number))
        product = _multiplied(above)
        return ast.BinOp(product, ast.Div(), _multiplied(below)) if below else product

    def _power(self, base: Any, exponent: Any) -> ast.expr:
        """Return a power; a negative one as a quotient, and half ones by a square root."""
        if exponent.is_number and exponent.is_negative:
            return ast.BinOp(ast.Constant(1), ast.Div(), self._power(base, -exponent))
        halves = 2 * float(exponent) if exponent.is_number else 0.5
        if halves != int(halves) or halves > 2 * LARGEST_EXPONENT:
            return ast.BinOp(self.number(base), ast.Pow(), self.number(exponent))
        whole, is_half = divmod(int(halves), 2)
        factors = [self.number(base)] if whole == 1 else []
        if whole > 1:
            factors = [ast.BinOp(self.number(base), ast.Pow(), ast.Constant(whole))]
        factors += [self._call("sqrt", (base,))] * is_half
        return _multiplied(factors)

    def _derivative(self, term: Any) -> ast.expr:
        """Return a derivative, as one of at most two axes, or several in turn."""
        letters: list[str] = []
        for variable, count in term.variable_count:
            if variable == self._accesses.time:
                step = "write the step, as in Eq(u(t + dt, x), u(t, x) + dt*...)"
                refuse(term, f"is a derivative in time; {step}")
            if variable not in self._accesses.axes or not count.is_Integer:
                refuse(term, f"is a derivative by {variable}, which is no axis of a field")
            letters += [AXES[self._accesses.axes.index(variable)]] * int(count)
        letters.sort()
        names = ["".join(letters[n : n + 2]) for n in range(0, len(letters), 2)]
        tree = self.number(term.expr)
        for name in names:
            tree = ast.Call(ast.Name(f"d{name}"), [tree], [])
        return tree

    def _piecewise(self, term: Any) -> ast.expr:
        *cases, (last, otherwise) = term.args
        if otherwise is not sympy.true:
            refuse(term, "says nothing of other cases; end it with (value, True)")
        tree = self.number(last)
        for value, condition in reversed(cases):
            args = [self.truth(condition), self.number(value), tree]
            tree = ast.Call(ast.Name("where"), args, [])
        return tree


def _not(condition: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), condition)


def _multiplied(factors: list[ast.expr]) -> ast.expr:
    return reduce(lambda one, other: ast.BinOp(one, ast.Mult(), other), factors)

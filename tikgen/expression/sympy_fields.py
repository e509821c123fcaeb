"""Finds the fields in SymPy's equations: which term is which neighbour of which field."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import sympy
from sympy.core.function import AppliedUndef

from tikgen.errors import ExpressionError

TIMES = ("t", "time")
MOST_AXES = 3


@dataclass(frozen=True)
class Access:
    """A field at a neighbour.

    Attributes:
        name: name of the field.
        offset: steps along each axis.
        step: steps in time: -1, 0 or 1.
    """

    name: str
    offset: tuple[int, ...]
    step: int = 0


def refuse(term: Any, problem: str) -> NoReturn:
    """Raise ExpressionError for a term."""
    text = str(term)
    raise ExpressionError(text if len(text) <= 80 else text[:77] + "...", problem)


def identifier(symbol: Any) -> str:
    """Return the name of a symbol, if it can be a name of the text."""
    name = str(getattr(symbol, "name", symbol))
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        refuse(name, "cannot be a name; take letters, digits and underscores, as in Du or c_0")
    return name


class Accesses:
    """What the terms of equations that stand for fields mean.

    A field is ``u[i + 1, j]`` of an ``IndexedBase``, ``u(t, x + h, y)`` of a ``Function``, or a
    field of pystencils. The first argument named ``t`` or ``time`` is the time; all others are
    axes, in the same order everywhere.

    Attributes:
        found: the access for each term.
        axes: symbols of the axes, in order.
        time: symbol of the time, or None.
        are_indices: whether the axes count points, as those of ``u[i, j]`` do.
    """

    def __init__(self, sides: Iterable[Any]) -> None:
        terms: dict[Any, None] = {}
        own: dict[Any, tuple[int, ...]] = {}
        for side in sides:
            parts = list(sympy.preorder_traversal(side))
            terms |= dict.fromkeys(p for p in parts if isinstance(p, AppliedUndef | sympy.Indexed))
            own |= {p: _offsets(p) for p in parts if hasattr(p, "offsets") and hasattr(p, "field")}
        arguments = {term: _arguments(term) for term in terms}
        self.are_indices = any(isinstance(term, sympy.Indexed) for term in terms)
        parts = [arg for args in arguments.values() for arg in args]
        symbols = {symbol for part in parts for symbol in part.free_symbols}
        self.time = next((s for s in sorted(symbols, key=str) if str(s) in TIMES), None)
        known = {part for part in parts if part.is_Symbol} | ({self.time} - {None})
        self.axes = self._axes(arguments, known)
        self._steps: dict[Any, Any] = {}
        self.found = {term: Access(identifier(p_name(term)), own[term]) for term in own}
        self.found |= {term: self._access(term, args) for term, args in arguments.items()}
        dims = {len(access.offset) for access in self.found.values()}
        if len(dims) > 1:
            refuse(next(iter(self.found)), "has another number of axes than other fields")
        self._check_units(arguments)
        self.dim = dims.pop() if dims else None
        if self.dim is not None and not 1 <= self.dim <= MOST_AXES:
            refuse(next(iter(self.found)), f"has {self.dim} axes in space; 1 to {MOST_AXES} work")

    def _axes(self, arguments: dict[Any, tuple[Any, ...]], known: set[Any]) -> tuple[Any, ...]:
        """Return the axes, in the order of the arguments of fields."""
        order: tuple[Any, ...] = ()
        for term, args in arguments.items():
            bases = []
            for arg in args:
                candidates = known & arg.free_symbols
                if len(candidates) != 1:
                    refuse(term, f"cannot be placed: {arg} is no axis, nor one with an offset")
                bases += [base for base in candidates if base != self.time]
            if order and tuple(bases) != order:
                usual = ", ".join(map(str, order))
                refuse(term, f"has other axes than other fields, whose axes are {usual}")
            order = tuple(bases)
        return order

    def _access(self, term: Any, args: tuple[Any, ...]) -> Access:
        step, offset = 0, []
        for arg in args:
            bases = arg.free_symbols & {*self.axes, self.time}
            base = bases.pop()
            # SymPy writes x - h as -(h - x) at times.
            shift = sympy.expand(arg - base)
            if base in shift.free_symbols:
                unit = "1" if self.are_indices else "dt" if base == self.time else "h"
                example = f"{base}, or one with an offset, as in {base} + {unit}"
                refuse(term, f"cannot be placed: it is at {arg}; write {example}")
            shift = self._shift(term, shift, base)
            if base == self.time:
                step = shift
            else:
                offset.append(shift)
        if abs(step) > 1:
            refuse(term, "is further than one step away in time; give such values another name")
        return Access(identifier(p_name(term)), tuple(offset), step)

    def _shift(self, term: Any, shift: Any, base: Any) -> int:
        """Return by how many points or steps an argument is shifted."""
        if shift == 0:
            return 0
        count, unit = shift.as_coeff_Mul()
        if isinstance(term, sympy.Indexed):
            count, unit = shift, sympy.Integer(1)
        elif not unit.is_Symbol:
            refuse(term, f"is shifted by {shift}; write the distance of points, as in {base} + h")
        elif self._steps.setdefault(base, unit) != unit:
            refuse(term, f"is shifted by {unit}, and others by {self._steps[base]}")
        if not count.is_number:
            refuse(term, f"is shifted by {shift}; write a number of points, as in {base} + 1")
        if count != int(count):
            refuse(term, f"lies between points: it is shifted by {shift}")
        return int(count)

    def _check_units(self, arguments: dict[Any, tuple[Any, ...]]) -> None:
        """Refuse a field that is shifted in space by the step in time."""
        step = self._steps.get(self.time)
        for axis in self.axes:
            if step is not None and self._steps.get(axis) == step:
                term = next(
                    term
                    for term, args in arguments.items()
                    if any({axis, step} <= arg.free_symbols for arg in args)
                )
                what = f"is shifted along {axis} by {step}, which is the step in time"
                refuse(term, f"{what}; write the distance of points, as in {axis} + h")


def p_name(term: Any) -> Any:
    """Return the name of a term's field."""
    if isinstance(term, sympy.Indexed):
        return term.base.label
    return term.field.name if hasattr(term, "field") else term.func.__name__


def owner_of(term: Any) -> Any:
    """Return what the accesses to one field have in common."""
    if isinstance(term, sympy.Indexed):
        return term.base.label
    return sympy.Symbol(str(p_name(term))) if hasattr(term, "field") else term.func


def _arguments(term: Any) -> tuple[Any, ...]:
    return tuple(term.indices if isinstance(term, sympy.Indexed) else term.args)


def _offsets(term: Any) -> tuple[int, ...]:
    """Return the offsets of a field of pystencils."""
    if any(getattr(term, "index", ())):
        refuse(term, "is a component of a field; give each component a field of its own")
    if not all(getattr(step, "is_Integer", isinstance(step, int)) for step in term.offsets):
        refuse(term, "has an offset that is no whole number")
    return tuple(map(int, term.offsets))

"""Says which object of SymPy has which name in the text of its equations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sympy

from tikgen.expression.operators import AXES, INDICES
from tikgen.expression.spelling import PRIME, stored_name
from tikgen.expression.sympy_fields import Access, Accesses, identifier, owner_of, refuse
from tikgen.expression.tree import CONSTANTS

# They mean something in a text where nothing assigns them and no parameter says what they are.
MEANINGFUL = frozenset((*CONSTANTS, *INDICES, *AXES))


class Names:
    """The names of symbols and fields, each of one object.

    Attributes:
        symbols: the name of each symbol, and the letter of each that is a coordinate or an index.
        fields: names of fields.
    """

    def __init__(self, pairs: Iterable[tuple[Any, Any]], accesses: Accesses) -> None:
        sides = [side for pair in pairs for side in pair]
        written = dict.fromkeys(part for side in sides for part in _written(side, accesses))
        found = accesses.found
        self.symbols: dict[Any, str] = {}
        self._owners: dict[str, Any] = {}
        for term in written:
            if term in found:
                self._claim(found[term].name, owner_of(term))
        self.fields = frozenset(self._owners)
        letters = dict(zip(accesses.axes, INDICES if accesses.are_indices else AXES, strict=False))
        axes = {str(axis): axis for axis in accesses.axes}
        symbols = [term for term in written if term not in found]
        for symbol in symbols:
            if symbol not in letters and not isinstance(symbol, sympy.Dummy):
                self.symbols[symbol] = name = identifier(symbol)
                if name in self.fields:
                    refuse(name, "is a field and a plain symbol; rename one of them")
                if (axis := axes.get(name, symbol)) != symbol:
                    _refuse_two(symbol, axis)
                self._claim(name, symbol)
        for term in written:
            if term in found and (name := _other_value(found[term])) in self._owners:
                when = "past" if found[term].step < 0 else "next"
                refuse(name, f"is the {when} value of a field as well; rename one of them")
        for symbol in symbols:
            if symbol in letters:
                self._set_coordinate(symbol, letters[symbol])
        self._set_dummies(symbol for symbol in symbols if symbol not in self.symbols)

    def is_free(self, name: str) -> bool:
        """Return whether no symbol and no field has a name."""
        return name not in self._owners

    def _claim(self, name: str, owner: Any) -> None:
        if (other := self._owners.setdefault(name, owner)) != owner:
            _refuse_two(owner, other)

    def _set_coordinate(self, symbol: Any, letter: str) -> None:
        self.symbols[symbol] = letter
        if letter in self._owners:
            what, other = ("field", "field") if letter in self.fields else ("number", "symbol")
            refuse(letter, f"would be a coordinate and a {what}; rename the {other} or the axes")

    def _set_dummies(self, dummies: Iterable[Any]) -> None:
        """Set dummies apart from all other names; they are unlike one another by definition."""
        others = {spell(name) for name in self.fields for spell in (past_name, _next_name)}
        taken = {*self._owners, *self.symbols.values(), *others, *CONSTANTS}
        for dummy in sorted(dummies, key=lambda dummy: int(dummy.dummy_index)):
            own, count = identifier(dummy), 1
            name = own
            while name in taken:
                count += 1
                name = f"{own}_{count}"
            taken.add(name)
            self.symbols[dummy] = name
            self._claim(name, dummy)


def past_name(field: str) -> str:
    """Return the name of the past value of a field."""
    return f"{field}_prev"


def _next_name(field: str) -> str:
    return stored_name(field + PRIME)


def _other_value(access: Access) -> str:
    """Return the name of the past or next value of a field that an access is, or ""."""
    spelled = {-1: past_name, 1: _next_name}.get(access.step)
    return spelled(access.name) if spelled else ""


def _written(side: Any, accesses: Accesses) -> Iterator[Any]:
    """Yield the symbols and fields that the text of a side names."""
    if side in accesses.found or side.is_Symbol:
        yield side
        return
    for part in side.args[:1] if isinstance(side, sympy.Derivative) else side.args:
        yield from _written(part, accesses)


def _refuse_two(one: Any, other: Any) -> None:
    both = f"{sympy.srepr(one)} and {sympy.srepr(other)}"
    refuse(one, f"is the name of two things, {both}; make them one, or rename one of them")

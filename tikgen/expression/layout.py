"""Breaks long lines of generated code."""

from __future__ import annotations

import bisect
import re

WIDTH = 96
_EQUALS = re.compile(r"( \+?= )")
# Brackets, and separators: the operators from those that bind least on, and commas.
_TOKEN = re.compile(
    r"[()\[\]]|(?P<comma>, )"
    r"| (?=(?:(?P<comparison>[<>]=?|[=!]=|and|or)|(?P<sum>[+-])|(?P<product>[*/])) )"
)
_OPERATORS = ("comparison", "sum", "product")

# From where to where something is in the code.
Span = tuple[int, int]


def broken(statement: str, width: int = WIDTH) -> str:
    """Return an assignment with its sums, products and calls broken into lines where it is long."""
    if len(statement) <= width:
        return statement
    target, equals, value = _EQUALS.split(statement, maxsplit=1)
    lines = _Expression(value, width).lines((0, len(value)), _OUTSIDE, 4)
    return f"{target}{equals}(\n{lines}\n)"


_OUTSIDE = -1  # In place of an opening bracket.


class _Expression:
    """The code of an expression, and what stands in it directly within each bracket.

    That is by the place where the bracket opens, and for each kind of separator, or for
    "brackets", in order.
    """

    def __init__(self, code: str, width: int) -> None:
        self._code, self._width = code, width
        self._inside: dict[int, dict[str, list[Span]]] = {_OUTSIDE: {}}
        around, within = [], _OUTSIDE
        for match in _TOKEN.finditer(code):
            start, stop = match.span()
            if kind := match.lastgroup:
                self._inside[within].setdefault(kind, []).append((start, stop))
            elif code[start] in "([":
                around.append(within)
                within = start
                self._inside[start] = {}
            else:
                opened, within = within, around.pop()
                self._inside[within].setdefault("brackets", []).append((opened, start))

    def lines(self, piece: Span, within: int, indent: int, end: str = "") -> str:
        """Return a piece of the code and an end over several lines, each indented.

        Args:
            piece: from where to where it is.
            within: where the bracket around it opens.
            indent: spaces before each line.
            end: what follows the piece.
        """
        start, stop = piece
        pad, code = " " * indent, self._code
        if stop - start + len(end) + indent <= self._width:
            return pad + code[start:stop] + end
        for kind in _OPERATORS:
            parts = self._split(piece, within, kind)
            if len(parts) > 1:
                found = [self.lines(part, within, indent) for part in parts[:-1]]
                return "\n".join([*found, self.lines(parts[-1], within, indent, end)])
        round_ones = [one for one in self._of("brackets", piece, within) if code[one[0]] == "("]
        if not round_ones:
            return pad + code[start:stop] + end
        opened, closed = max(round_ones, key=lambda one: one[1] - one[0])
        inside = self._split((opened + 1, closed), opened, "comma")
        found = [self.lines(part, opened, indent + 4, ",") for part in inside[:-1]]
        found.append(self.lines(inside[-1], opened, indent + 4))
        lines = "\n".join(found)
        return f"{pad}{code[start : opened + 1]}\n{lines}\n{pad}{code[closed:stop]}{end}"

    def _of(self, kind: str, piece: Span, within: int) -> list[Span]:
        """Return what of a kind stands in a piece, and in no bracket of it."""
        every = self._inside[within].get(kind, [])
        low, high = (bisect.bisect_left(every, (place, 0)) for place in piece)
        return every[low:high]

    def _split(self, piece: Span, within: int, kind: str) -> list[Span]:
        """Return the pieces of a piece between the separators of a kind."""
        start, stop = piece
        parts = []
        for first, last in self._of(kind, piece, within):
            if first > start:
                parts.append((start, first))
                start = last
        return [*parts, (start, stop)]

"""Breaks long lines of generated code."""

from __future__ import annotations

import bisect
import re

WIDTH = 96
_EQUALS = re.compile(r"( \+?= )")
# Brackets, and separators: operators, those that bind least first, and commas.
_TOKEN = re.compile(r"[()\[\]]| (?=(?:([<>]=?|[=!]=|and|or)|([+-])|([*/])) )|(, )")
_BRACKETS, *_OPERATORS, _COMMA = range(5)

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

    That is by the place where the bracket opens: a list for brackets, with where each closes, and
    one for each kind of separator.
    """

    def __init__(self, code: str, width: int) -> None:
        self._code, self._width = code, width
        self._closing: dict[int, int] = {}
        found: list[list[int]] = [[], [], [], [], []]
        self._inside = {_OUTSIDE: found}
        around, within = [], _OUTSIDE
        for match in _TOKEN.finditer(code):
            start = match.start()
            if kind := match.lastindex:
                found[kind].append(start)
            elif code[start] in "([":
                found[_BRACKETS].append(start)
                around.append(within)
                within = start
                found = self._inside[start] = [[], [], [], [], []]
            else:
                self._closing[within] = start
                within = around.pop()
                found = self._inside[within]

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
            if len(parts := self._split(piece, within, kind)) > 1:
                found = [self.lines(part, within, indent) for part in parts[:-1]]
                return "\n".join([*found, self.lines(parts[-1], within, indent, end)])
        opening = [at for at in self._of(piece, within, _BRACKETS) if code[at] == "("]
        if not opening:
            return pad + code[start:stop] + end
        opened = max(opening, key=lambda at: self._closing[at] - at)
        closed = self._closing[opened]
        inside = self._split((opened + 1, closed), opened, _COMMA)
        found = [self.lines(part, opened, indent + 4, ",") for part in inside[:-1]]
        found.append(self.lines(inside[-1], opened, indent + 4))
        lines = "\n".join(found)
        return f"{pad}{code[start : opened + 1]}\n{lines}\n{pad}{code[closed:stop]}{end}"

    def _of(self, piece: Span, within: int, kind: int) -> list[int]:
        """Return where what is of a kind stands in a piece, and in no bracket of it."""
        every = self._inside[within][kind]
        if not every:
            return every
        start, stop = piece
        return every[bisect.bisect_left(every, start) : bisect.bisect_left(every, stop)]

    def _split(self, piece: Span, within: int, kind: int) -> list[Span]:
        """Return the pieces of a piece between the separators of a kind."""
        start, stop = piece
        parts = []
        for first in self._of(piece, within, kind):
            if first > start:
                parts.append((start, first))
                start = first + (2 if kind == _COMMA else 1)
        return [*parts, (start, stop)]

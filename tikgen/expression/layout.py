"""Breaks long lines of generated code."""

from __future__ import annotations

import bisect
import functools
import re

WIDTH = 96
_EQUALS = re.compile(r"( \+?= )")
# A bracket, an opening one with all up to its end if no other stands between.
_BRACKET = re.compile(r"[(\[](?:[^()\[\]]*[)\]])?|[)\]]")
# Brackets that open, and separators: operators, those that bind least first, and commas.
_TOKEN = re.compile(r"[(\[]| (?=(?:([<>]=?|[=!]=|and|or)|([&|^]|<<|>>)|([+-])|([*/])) )|(, )")
_BRACKETS, _COMMA = 0, 5

# From where to where something is in the code.
Span = tuple[int, int]


@functools.lru_cache(maxsize=256)  # A kernel often has the same line twice.
def broken(statement: str, width: int = WIDTH) -> str:
    """Return an assignment with its sums, products and calls broken into lines where it is long."""
    if len(statement) <= width:
        return statement
    target, equals, value = _EQUALS.split(statement, maxsplit=1)
    lines = _Expression(value, width).lines((0, len(value)), _OUTSIDE, 4)
    return f"{target}{equals}(\n{lines}\n)"


_OUTSIDE = -1  # In place of an opening bracket.


class _Expression:
    """The code of an expression, where its brackets close, and what stands directly within them.

    The latter is found once it is needed, by the place where the bracket opens: a list for brackets
    that open, and one for each kind of separator.
    """

    def __init__(self, code: str, width: int) -> None:
        self._code, self._width = code, width
        self._closing = {_OUTSIDE: len(code)}
        self._inside: dict[int, list[list[int]]] = {}
        around: list[int] = []
        for match in _BRACKET.finditer(code):
            start, stop = match.span()
            if code[start] in ")]":
                self._closing[around.pop()] = start
            elif stop == start + 1:
                around.append(start)
            else:
                self._closing[start] = stop - 1

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
        brackets, *operators, _ = self._within(within)
        for separators in operators:
            if separators and len(parts := _split(piece, separators, 1)) > 1:
                found = [self.lines(part, within, indent) for part in parts[:-1]]
                return "\n".join([*found, self.lines(parts[-1], within, indent, end)])
        opening = [at for at in _of(piece, brackets) if code[at] == "("]
        if not opening:
            return pad + code[start:stop] + end
        opened = max(opening, key=lambda at: self._closing[at] - at)
        closed = self._closing[opened]
        arguments = _split((opened + 1, closed), self._within(opened)[_COMMA], 2)
        found = [self.lines(part, opened, indent + 4, ",") for part in arguments[:-1]]
        found.append(self.lines(arguments[-1], opened, indent + 4))
        lines = "\n".join(found)
        return f"{pad}{code[start : opened + 1]}\n{lines}\n{pad}{code[closed:stop]}{end}"

    def _within(self, opened: int) -> list[list[int]]:
        """Return where what is of each kind stands directly within a bracket."""
        if opened in self._inside:
            return self._inside[opened]
        found: list[list[int]] = [[] for _ in range(_COMMA + 1)]
        position, stop = opened + 1, self._closing[opened]
        while match := _TOKEN.search(self._code, position, stop):
            start, kind = match.start(), match.lastindex or _BRACKETS
            found[kind].append(start)
            position = match.end() if kind else self._closing[start]
        self._inside[opened] = found
        return found


def _of(piece: Span, places: list[int]) -> list[int]:
    """Return the places that lie in a piece."""
    start, stop = piece
    return places[bisect.bisect_left(places, start) : bisect.bisect_left(places, stop)]


def _split(piece: Span, separators: list[int], length: int) -> list[Span]:
    """Return the pieces of a piece between separators of some length."""
    start, stop = piece
    parts = []
    for first in _of(piece, separators):
        if first > start:
            parts.append((start, first))
            start = first + length
    return [*parts, (start, stop)]

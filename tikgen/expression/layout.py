"""Breaks long lines of generated code."""

from __future__ import annotations

import re

WIDTH = 96
_EQUALS = re.compile(r"( \+?= )")
_BRACKET = re.compile(r"[()\[\]]")
# Separators, those that bind least first, and the brackets that may enclose them.
_OPERATOR = re.compile(
    r"[()\[\]]| (?=(?:(?P<comparison>[<>]=?|[=!]=|and|or)|(?P<sum>[+-])|(?P<product>[*/])) )"
)
_COMMA = re.compile(r"[()\[\]]|(?P<comma>, )")


def broken(statement: str, width: int = WIDTH) -> str:
    """Return an assignment with its sums, products and calls broken into lines where it is long."""
    if len(statement) <= width:
        return statement
    target, equals, value = _EQUALS.split(statement, maxsplit=1)
    lines = _Expression(value, width).lines(0, len(value), 4)
    return f"{target}{equals}(\n{lines}\n)"


class _Expression:
    """The code of an expression, and where its brackets close."""

    def __init__(self, code: str, width: int) -> None:
        self._code, self._width = code, width
        self._closing: dict[int, int] = {}
        opened: list[int] = []
        for match in _BRACKET.finditer(code):
            if match[0] in "([":
                opened.append(match.start())
            else:
                self._closing[opened.pop()] = match.start()

    def lines(self, start: int, stop: int, indent: int, end: str = "") -> str:
        """Return a piece of the code and an end over several lines, each indented."""
        pad, code = " " * indent, self._code
        if stop - start + len(end) + indent <= self._width:
            return pad + code[start:stop] + end
        parts = self._split(start, stop, _OPERATOR)
        if len(parts) > 1:
            found = [self.lines(*part, indent) for part in parts[:-1]]
            return "\n".join([*found, self.lines(*parts[-1], indent, end)])
        opened, closed = self._longest_bracket(start, stop)
        if opened < 0:
            return pad + code[start:stop] + end
        inside = self._split(opened + 1, closed, _COMMA)
        found = [self.lines(*part, indent + 4, ",") for part in inside[:-1]]
        found.append(self.lines(*inside[-1], indent + 4))
        within = "\n".join(found)
        return f"{pad}{code[start : opened + 1]}\n{within}\n{pad}{code[closed:stop]}{end}"

    def _split(self, start: int, stop: int, separator: re.Pattern[str]) -> list[tuple[int, int]]:
        """Return the pieces between the separators that bind least and that no bracket encloses."""
        found: dict[str, list[tuple[int, int]]] = {kind: [] for kind in separator.groupindex}
        at = start
        while match := separator.search(self._code, at, stop):
            at = match.end()
            if kind := match.lastgroup:
                found[kind].append(match.span())
            else:
                at = self._closing[match.start()] + 1
        parts = []
        for first, last in next(filter(None, found.values()), ()):
            if first > start:
                parts.append((start, first))
                start = last
        return [*parts, (start, stop)]

    def _longest_bracket(self, start: int, stop: int) -> tuple[int, int]:
        """Return where the longest outermost round bracket opens and closes, or -1."""
        found = (-1, -1)
        while match := _BRACKET.search(self._code, start, stop):
            opened, closed = match.start(), self._closing[match.start()]
            start = closed + 1
            if match[0] == "(" and (closed - opened > found[1] - found[0] or found[0] < 0):
                found = opened, closed
        return found

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
    return f"{target}{equals}(\n{_lines(value, 4, width)}\n)"


def _lines(code: str, indent: int, width: int) -> str:
    """Return an expression over several lines, each indented."""
    pad = " " * indent
    if len(code) + indent <= width:
        return pad + code
    parts = _split(code, _OPERATOR)
    if len(parts) > 1:
        return "\n".join(_lines(part, indent, width) for part in parts)
    opened, closed = _longest_bracket(code)
    if opened < 0:
        return pad + code
    inside = _split(code[opened + 1 : closed], _COMMA)
    inside = [f"{part}," for part in inside[:-1]] + inside[-1:]
    within = "\n".join(_lines(part, indent + 4, width) for part in inside)
    return f"{pad}{code[: opened + 1]}\n{within}\n{pad}{code[closed:]}"


def _split(code: str, separator: re.Pattern[str]) -> list[str]:
    """Return the pieces between the separators that bind least and that no bracket encloses."""
    depth = 0
    found: dict[str, list[tuple[int, int]]] = {kind: [] for kind in separator.groupindex}
    for match in separator.finditer(code):
        kind = match.lastgroup
        if kind is None:
            depth += 1 if match[0] in "([" else -1
        elif depth == 0:
            found[kind].append(match.span())
    start, parts = 0, []
    for first, last in next(filter(None, found.values()), ()):
        if first > start:
            parts.append(code[start:first].rstrip())
            start = last
    return [*parts, code[start:]]


def _longest_bracket(code: str) -> tuple[int, int]:
    """Return where the longest outermost round bracket opens and closes, or -1."""
    depth, opened, found = 0, -1, (-1, -1)
    for match in _BRACKET.finditer(code):
        letter = match[0]
        if letter in "([":
            opened = match.start() if depth == 0 else opened
            depth += 1
        else:
            depth -= 1
            is_longer = match.start() - opened > found[1] - found[0]
            if depth == 0 and letter == ")" and (is_longer or found[0] < 0):
                found = opened, match.start()
    return found

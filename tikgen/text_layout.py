"""Lays out texts and tables to fit the terminal, without breaking words."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from typing import TextIO

_GAP = "  "


def width_of(stream: TextIO | None) -> int | None:
    """Return the number of columns: COLUMNS, or the terminal's; None if the output is piped.

    Args:
        stream: where the text goes; None for nowhere, as where a standard stream is closed.
    """
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if stream is None:
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):  # It is no terminal, or no file.
        return None


def fit(text: str, width: int | None, hang: int = 2) -> str:
    """Return ``text`` with long lines wrapped, and continued ``hang`` columns further right."""
    if width is None:
        return text
    return "\n".join(
        line if len(line) <= width else "\n".join(_wrapped(line, width, _indent(line) + hang * " "))
        for line in text.split("\n")
    )


def reflow(text: str, width: int | None) -> str:
    """Return paragraphs wrapped to ``width``; indented lines and list items stay lines."""
    if width is None:
        return text
    joined = re.sub(r"(?<=\S)\n(?=[^\s\-*|>])", " ", text)
    return fit(joined, width, hang=0)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> tuple[list[str], list[str]]:
    """Return the lines of a table's head and of its body.

    Cells are wrapped if the table is too wide. If not even the longest words of all columns fit
    side by side, each row becomes a block with a line for each column, and the head is empty.
    """
    cells = [columns, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    if width is not None:
        least = [max(_longest_word(row[i]) for row in cells) for i in range(len(columns))]
        room = width - len(_GAP) * (len(columns) - 1)
        if sum(least) > room:
            return [], _blocks(columns, rows, width)
        widths = _shrunk(widths, least, room)
    lines = [_row(row, widths) for row in cells]
    return lines[0], [line for row in lines[1:] for line in row]


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return a block of lines for each row, without empty cells."""
    label = max(map(len, columns))
    lines: list[str] = []
    for row in rows:
        lines += [""] if lines else []
        for column, cell in zip(columns, row, strict=True):
            if cell:
                lines += _row((column, cell), (label, max(1, width - label - len(_GAP))))
    return lines


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the lines of a row whose cells are wrapped to their widths."""
    wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for i in range(max(map(len, wrapped))):
        parts = [part[i] if i < len(part) else "" for part in wrapped]
        padded = [part.ljust(width) for part, width in zip(parts, widths, strict=True)]
        lines.append(_GAP.join(padded).rstrip())
    return lines


def _shrunk(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths that fit into ``room``: the widest column shrinks first."""
    found = list(widths)
    while sum(found) > room:
        widest = max((i for i in range(len(found)) if found[i] > least[i]), key=found.__getitem__)
        found[widest] -= 1
    return found


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    lines = textwrap.wrap(
        text,
        max(1, width),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [""]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)

"""Writes docs/coverage.md: which lines of tikgen no test runs, by room and by file.

``make verify`` calls ``python docs/coverage_page.py LINES.json`` with what ``coverage json`` wrote.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("coverage.md")
HEAD = """\
# Coverage

Lines of `tikgen/` that tests run, on cpu and Vulkan, child processes included. `make verify`
measures them and writes this page. Lines for GPUs and for other systems run on neither.
"""


def table(name: str, rows: Iterable[tuple[str, int, int]]) -> str:
    """Return a table of lines: how many there are, and how many no test ran."""
    lines = [f"| {name} | lines | not run | run |", "| --- | ---: | ---: | ---: |"]
    for label, count, missed in rows:
        share = 100.0 * (count - missed) / count if count else 100.0
        lines.append(f"| {label} | {count} | {missed} | {share:.1f} % |")
    return "\n".join(lines) + "\n"


def ranges(lines: Iterable[int]) -> str:
    """Return numbers of lines with neighbours put together: ``3, 7-9``."""
    found = []
    for _, group in groupby(enumerate(sorted(lines)), lambda pair: pair[1] - pair[0]):
        run = [line for _, line in group]
        found.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(found)


def page(measured: dict[str, Any]) -> str:
    """Return the text of the page."""
    files = {
        Path(path).relative_to("tikgen").as_posix(): found
        for path, found in measured["files"].items()
    }
    rooms: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, found in files.items():
        room = path.split("/")[0] if "/" in path else "single files"
        rooms[room][0] += found["summary"]["num_statements"]
        rooms[room][1] += found["summary"]["missing_lines"]
    total = [sum(column) for column in zip(*rooms.values(), strict=True)]
    by_room = [(f"`{name}`", *rooms[name]) for name in sorted(rooms)]
    missing = [
        f"| `{path}` | {ranges(found['missing_lines'])} |"
        for path, found in sorted(files.items())
        if found["missing_lines"]
    ]
    parts = [HEAD, table("room", [*by_room, ("all", *total)]), "## Lines that no test runs\n"]
    return "\n".join([*parts, "| file | lines |", "| --- | --- |", *missing]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(Path(sys.argv[1]).read_text())), encoding="utf-8")

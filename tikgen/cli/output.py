"""What the commands print: rich on a terminal, plain when piped, JSON when asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from tikgen.parameters import canonical
from tikgen.units import duration
from tikgen.untrusted import printable

if TYPE_CHECKING:
    from tikgen.stages import Stage


def console() -> Console:
    """Return a console on the current standard output."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())


def say(text: str, style: str = "") -> None:
    """Print one line; ``style`` shows on a terminal only."""
    console().print(escape(printable(text)), style=style or None)


def print_json(data: Any) -> None:
    """Print ``data`` as JSON."""
    print(json.dumps(data, indent=2))


def print_result(result: Any, as_json: bool) -> None:
    """Print a result that has ``to_dict``, and a face of its own for a terminal."""
    if as_json:
        print_json(result.to_dict())
    elif sys.stdout.isatty():
        console().print(result)
    else:
        print(printable(str(result)))


def print_code(text: str) -> None:
    """Print Python code, coloured on a terminal, byte for byte when piped."""
    if sys.stdout.isatty():
        console().print(Syntax(text, "python", background_color="default", word_wrap=False))
    else:
        sys.stdout.write(text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table: with rules on a terminal, as aligned columns when piped."""
    title, rows = printable(title), [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        table = Table(
            title=escape(printable(title)) or None, title_justify="left", box=None, pad_edge=False
        )
        for column in columns:
            table.add_column(column, overflow="fold", header_style="bold cyan")
        for row in rows:
            table.add_row(*map(escape, row))
        console().print(table)
        return
    if title:
        print(title)
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    for row in (columns, *rows):
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())


def print_stage(stage: Stage) -> None:
    """Print one stage of the pipeline."""
    console().print(
        f"[bold green]{stage.name:<8}[/] {duration(stage.seconds):>9}  {escape(stage.result)}"
    )


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON can hold them: whatever is no number or text, as its text."""
    simple = (bool, int, float, str, type(None))
    return {
        k: (str(v) if isinstance(v, str) else v) if isinstance(v, simple) else canonical(v)
        for k, v in params.items()
    }

"""Printing: rich on a terminal, plain text when piped, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.syntax import Syntax

from tikgen import text_layout as layout
from tikgen.consoles import make_console
from tikgen.template.parameters import canonical
from tikgen.units import duration
from tikgen.untrusted import printable

if TYPE_CHECKING:
    from rich.console import Console

    from tikgen.demo.stepwise import Stage


def console(*, stderr: bool = False) -> Console:
    """Return a console on the standard output, or the error stream, that does not wrap lines."""
    return make_console(stderr=stderr, highlight=False, soft_wrap=True)


def width() -> int | None:
    """Return the number of columns of the standard output; None if unlimited."""
    return layout.width_of(sys.stdout)


def say(text: str, style: str = "", hang: int = 2) -> None:
    """Print a text with long lines wrapped; ``style`` takes effect on a terminal only."""
    console().print(escape(layout.fit(printable(text), width(), hang)), style=style or None)


def say_error(text: str, kind: str = "error") -> None:
    """Print a message to the error stream, preceded by its ``kind``."""
    width = layout.width_of(sys.stderr)
    rest = layout.fit(f"{kind}: {printable(text)}", width).removeprefix(f"{kind}:")
    shown = f"[bold red]{kind}:[/]{escape(rest)}"
    console(stderr=True).print(shown)


def print_json(data: Any) -> None:
    """Print ``data`` as JSON."""
    print(json.dumps(data, indent=2))


def print_result(result: Any, as_json: bool) -> None:
    """Print a result as JSON, for a terminal, or as text."""
    if as_json:
        print_json(result.to_dict())
    elif sys.stdout.isatty():
        make_console(highlight=False).print(result)
    else:
        laid_out = getattr(result, "text", None)
        text = str(result) if laid_out is None else laid_out(width())
        print(layout.fit(printable(text), width(), hang=4))


def print_code(text: str) -> None:
    """Print Python code, coloured on a terminal, byte for byte when piped."""
    if sys.stdout.isatty():
        console().print(Syntax(text, "python", background_color="default", word_wrap=False))
    else:
        sys.stdout.write(text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table as aligned columns, or as blocks of lines if it is too wide."""
    head, body = layout.table(columns, [[*map(printable, row)] for row in rows], width())
    out = console()
    if title:
        say(title, style="italic")
    for lines, style in ((head, "bold cyan"), (body, None)):
        for line in lines:
            out.print(escape(line), style=style)


def print_stage(stage: Stage) -> None:
    """Print one stage of the pipeline."""
    head = f"{stage.name:<8} {duration(stage.seconds):>9}  "
    shown = layout.fit(head + stage.result, width(), hang=len(head))
    console().print(f"[bold green]{stage.name}[/]{escape(shown.removeprefix(stage.name))}")


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON can hold them: other values as text."""
    simple = (bool, int, float, str, type(None))
    return {
        k: (str(v) if isinstance(v, str) else v) if isinstance(v, simple) else canonical(v)
        for k, v in params.items()
    }

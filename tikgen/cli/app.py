"""Puts the commands together, and turns errors into exit codes."""

from __future__ import annotations

import errno
import sys
import warnings
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from tikgen.cli import aot, kernels, life, live, machine, sweeps, templates, trace, tuning
from tikgen.cli.interrupts import heard, hush
from tikgen.disk import why
from tikgen.errors import (
    ExportError,
    KernelCompileError,
    LibraryError,
    RenderError,
    TikgenError,
    TuningError,
    VerificationError,
)
from tikgen.version import __version__

FAILED, MISUSED = 1, 2
_FAILURES = (
    ExportError,
    KernelCompileError,
    LibraryError,
    RenderError,
    TuningError,
    VerificationError,
)


class _Commands(TyperGroup):
    """A group whose commands end with one clean message where tikgen knows what is wrong."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with heard():
                return super().invoke(ctx)
        except TikgenError as error:
            console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
            console.print(f"[bold red]error:[/] {escape(str(error))}")
            raise typer.Exit(FAILED if isinstance(error, _FAILURES) else MISUSED) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # Whoever read the output has seen enough.
                raise
            where = f": {error.filename}" if error.filename else ""
            print(f"error: {why(error)}{where}", file=sys.stderr)
            raise typer.Exit(FAILED) from None


app = typer.Typer(
    name="tikgen",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog="Exit codes: 0 all is well; 1 a kernel failed to render, to compile, to run or to agree "
    "with its reference; 2 wrong usage, an unknown template, a bad parameter, an arch that cannot.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tikgen {__version__}")
        raise typer.Exit


@app.callback()
def _tikgen(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Turn Jinja2 templates into verified, tuned, cached Taichi kernels."""


for group in (templates, kernels, life, live, tuning, sweeps, aot, trace, machine):
    group.register(app)


def main() -> None:
    """Run the command line."""
    hush()
    warnings.showwarning = _show_warning
    app()


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as a sentence, not as a line of source."""
    print(f"warning: {message}", file=sys.stderr)

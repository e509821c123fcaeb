"""Puts the commands together, and turns errors into exit codes."""

from __future__ import annotations

import errno
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tikgen.cli import (
    aot,
    completion,
    exit_codes,
    kernels,
    live,
    machine,
    sweeps,
    templates,
    trace,
    tuning,
)
from tikgen.cli import (
    inspect as life,
)
from tikgen.cli import (
    text_layout as layout,
)
from tikgen.cli.interrupts import heard, hush
from tikgen.cli.output import say_error
from tikgen.disk import why
from tikgen.errors import TikgenError
from tikgen.version import __version__


class _Commands(TyperGroup):
    """A group whose commands end with one clean message where tikgen knows what is wrong."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with heard():
                return super().invoke(ctx)
        except TikgenError as error:
            say_error(str(error))
            raise typer.Exit(exit_codes.of_error(error)) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # Whoever read the output has seen enough.
                raise
            where = f": {error.filename}" if error.filename else ""
            say_error(f"{why(error)}{where}")
            raise typer.Exit(exit_codes.of_error(error)) from None


app = typer.Typer(
    name="tikgen",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog=exit_codes.MEANING,
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
    completion.run_app(app)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as a sentence, not as a line of source."""
    print(layout.fit(f"warning: {message}", layout.width_of(sys.stderr)), file=sys.stderr)

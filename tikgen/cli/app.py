"""The command line: its commands, and the exit status of errors."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tikgen import text_layout as layout
from tikgen.cli import bundle_commands as bundles
from tikgen.cli import exit_codes, shell_completion, streams
from tikgen.cli import kernel_commands as kernels
from tikgen.cli import machine_commands as machine
from tikgen.cli import template_commands as templates
from tikgen.cli import tuning_commands as tuning
from tikgen.cli.export_command import export_command
from tikgen.cli.interrupts import heard
from tikgen.cli.output import say_error
from tikgen.cli.submit_command import submit_command
from tikgen.cli.sweep_command import sweep_command
from tikgen.cli.trace_command import trace_command
from tikgen.cli.watch_command import watch_command
from tikgen.disk import why
from tikgen.ending import hush
from tikgen.errors import TikgenError
from tikgen.version import __version__

_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Templates": {
        "list": templates.list_command,
        "describe": templates.describe_command,
        "new": templates.new_command,
        "verify": kernels.verify_command,
        "watch": watch_command,
    },
    "Kernels": {
        "render": kernels.render_command,
        "build": kernels.build_command,
        "eject": kernels.eject_command,
        "ir": kernels.ir_command,
        "why": kernels.why_command,
        "trace": trace_command,
    },
    "Tuning": {"tune": tuning.tune_command, "sweep": sweep_command},
    "Clusters": {"submit": submit_command},
    "Ahead of time": {"export": export_command},
    "This machine": {"doctor": machine.doctor_command, "demo": machine.demo_command},
}
# Name, panel of the help, help, and commands of each group.
_GROUPS: list[tuple[str, str, str, dict[str, Callable[..., None]]]] = [
    (
        "tuned",
        "Tuning",
        "Show, export, import and delete tuning records.",
        {
            "show": tuning.show_command,
            "export": tuning.export_command,
            "import": tuning.import_command,
            "clear": tuning.clear_command,
        },
    ),
    (
        "bundle",
        "Ahead of time",
        "Show, verify and run bundles.",
        {
            "show": bundles.show_command,
            "verify": bundles.verify_command,
            "run": bundles.run_command,
        },
    ),
    (
        "cache",
        "This machine",
        "Show or delete what tikgen keeps on disk.",
        {"show": machine.cache_show_command, "clear": machine.cache_clear_command},
    ),
]


class _Commands(TyperGroup):
    """A group whose commands report errors in one message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with heard():
                return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _worded(error)
            raise
        except TikgenError as error:
            say_error(str(error))
            raise typer.Exit(exit_codes.of_error(error)) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # The reader of the output has stopped.
                raise
            where = f": {error.filename}" if error.filename else ""
            say_error(f"{why(error)}{where}")
            raise typer.Exit(exit_codes.of_error(error)) from None


def _worded(error: Any) -> str:
    """Return the message of a bad parameter, without the words of pydantic that typer passes on."""
    details: list[Any] = getattr(error.__cause__, "errors", list)()
    text = str(error.message).removeprefix("Value error, ")
    if not text.startswith("Input should be "):
        return text
    needed = text.removeprefix("Input should be ").partition(",")[0]
    got = f"; got {details[0]['input']!r}" if details else ""
    return f"must be {needed}{got}."


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


for _panel, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        # What follows a script belongs to it, options included.
        _settings = {"allow_interspersed_args": False} if _name in ("trace", "submit") else None
        app.command(_name, rich_help_panel=_panel, context_settings=_settings)(_command)
for _name, _panel, _help, _commands in _GROUPS:
    _group = typer.Typer(no_args_is_help=True, help=_help)
    for _inner, _command in _commands.items():
        _group.command(_inner)(_command)
    app.add_typer(_group, name=_name, rich_help_panel=_panel)


def main() -> None:
    """Run the command line."""
    hush()
    streams.open_missing()
    warnings.showwarning = _show_warning
    with streams.flushed():
        shell_completion.run_app(app)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning without a line of source."""
    print(layout.fit(f"warning: {message}", layout.width_of(sys.stderr)), file=sys.stderr)

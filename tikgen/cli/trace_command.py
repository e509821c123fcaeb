"""The command trace: runs a user's script and reports on its kernels."""

from __future__ import annotations

import os
import runpy
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from tikgen.cli.exit_codes import FAILED, INTERRUPTED
from tikgen.cli.interrupts import pythons_own
from tikgen.consoles import make_console
from tikgen.errors import TraceError
from tikgen.text_layout import width_of

if TYPE_CHECKING:
    from tikgen.lifecycle.trace import Trace

# Taichi reads it at ti.init.
_PROFILER = "TI_KERNEL_PROFILER"


def trace_command(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT.py", help="Script to run.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Arguments of the script.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write for Perfetto, such as trace.json."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Page to write, such as trace.html.")
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Picture to write, such as trace.png.")
    ] = None,
    device_time: Annotated[
        bool, typer.Option("--device-time", help="Time each kernel with Taichi's profiler as well.")
    ] = False,
    own: Annotated[
        bool, typer.Option("--own", help="Trace tikgen's kernels only, not all of Taichi's.")
    ] = False,
) -> None:
    """Run a script; then print the stages of its kernels and their durations.

    Options come before the script; what follows it goes to the script. The exit status is that of
    the script. The table goes to the error stream.
    """
    from tikgen.lifecycle.trace import PAGES, PICTURES, check_path, timelines, trace

    _check_script(script)
    written = [(save, (".json",)), (html, PAGES), (timeline, PICTURES)]
    for path, endings in written:  # Now, not when the script has ended.
        if path is not None:
            check_path(path, endings)
    targets = [path and path.absolute() for path, _ in written]  # The script may change the folder.
    if timeline is not None:
        timelines()  # A package that is there may not be importable.
    if device_time:
        os.environ[_PROFILER] = "1"
    with trace(all_kernels=not own) as traced:
        code = _run(script, arguments or [])
    if sys.stdout is not None:
        sys.stdout.flush()
    is_written = _report(traced, *targets)
    raise typer.Exit(code if is_written else code or FAILED)


def _check_script(script: Path) -> None:
    if not script.is_file():
        what = "it is a folder" if script.is_dir() else "there is no such file"
        raise TraceError(f"cannot run {script}: {what}")


def _run(script: Path, arguments: list[str]) -> int:
    """Run the script as ``python SCRIPT`` would, and return its exit status."""
    sys.argv = [str(script), *arguments]
    script = script.absolute()  # As Python names the file of a script.
    # In place of the folder of the command.
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with pythons_own():
            runpy.run_path(str(script), run_name="__main__")
            _join_threads()
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        print(exit_.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        shown = error.with_traceback(_frames_of(script, error.__traceback__))
        traceback.print_exception(shown)
        return 1
    return 0


def _join_threads() -> None:
    """Wait for the threads that Python would wait for before it ends."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()


def _frames_of(script: Path, frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the script on; None if the script did not start."""
    while frames is not None and frames.tb_frame.f_code.co_filename != str(script):
        frames = frames.tb_next
    return frames


def _report(traced: Trace, save: Path | None, page: Path | None, timeline: Path | None) -> bool:
    """Print the table and write the files; return whether all could be written."""
    console = make_console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"\n{escape(traced.table(width_of(sys.stderr)))}")
    is_written = True
    for path, write in ((save, traced.save), (page, traced.html), (timeline, traced.timeline)):
        if path is None:
            continue
        try:
            write(path)
        except TraceError as error:
            is_written = False
            console.print(f"[bold red]error:[/] {escape(str(error))}")
        else:
            console.print(f"wrote {escape(str(path))}")
    return is_written

"""The standard streams of a command: closed ones, and those that cannot be written to any more."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from tikgen.cli import exit_codes
from tikgen.cli.output import say_error
from tikgen.disk import why


def open_missing() -> None:
    """Open the null device in place of streams that are closed, as daemons have them.

    Files that are opened later would take their numbers, and what Taichi prints would go there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # The smallest that is free.
            os.set_inheritable(number, True)
            stream = os.fdopen(number, mode, encoding="utf-8", errors="replace")
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


@contextlib.contextmanager
def flushed() -> Iterator[None]:
    """Write what is left of the output at the end of a block, and exit if that fails.

    Where the reader of a pipe has stopped, the status is what shells report of other commands.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (OSError, SystemExit) as end:
        # Typer and rich exit while they handle the error of a pipe.
        error = end.__context__ if isinstance(end, SystemExit) else end
        if isinstance(error, BrokenPipeError):
            _drop(sys.stdout)
            _drop(sys.stderr)
            sys.exit(exit_codes.UNREAD)
        if isinstance(end, SystemExit):
            raise
        _drop(sys.stdout)
        say_error(why(end))
        sys.exit(exit_codes.of_error(end))


def _drop(stream: TextIO) -> None:
    """Send what a stream still holds to the null device, since Python writes it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)

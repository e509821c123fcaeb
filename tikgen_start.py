"""Starts the command ``tikgen``: the module that its console script imports.

It stands beside the package, since whoever imports a module of the package waits for the package.
Ctrl-C in that time would show a traceback, so that it ends the process from here on.
"""

import _signal  # See tikgen/ending.py.
import os


def end(*_: object) -> None:
    """Handle SIGINT until :func:`tikgen.ending.hush` takes over."""
    os._exit(130)


if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, end)

from tikgen.cli import main  # noqa: E402

__all__ = ["main"]

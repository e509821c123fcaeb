"""Ends a program at Ctrl-C, silently. It imports only what Python has imported by itself."""

# What `signal` adds are enumerations; to import those takes longer than all that is done here.
import _signal
import os


def end(*_: object) -> None:
    """Handle SIGINT: end the process with what shells report after Ctrl-C."""
    os._exit(130)


def hush() -> None:
    """Have :func:`end` handle SIGINT instead of Python.

    During imports and at exit a KeyboardInterrupt would be shown, lost, or turned into another
    error. A handler of someone else stays, and so does one that ignores the signal.
    """
    if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
        return
    try:
        _signal.signal(_signal.SIGINT, end)
    except ValueError:  # Threads besides the main one may not.
        return

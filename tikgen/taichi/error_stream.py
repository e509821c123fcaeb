"""Reads the error stream of the process: the log of a library in C++ goes nowhere else."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator

# The death of some processes is read off their error stream, which must not be redirected then.
may_redirect = True
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Redirected by two threads at a time, the stream would be lost.
_redirecting = threading.Lock()


@contextlib.contextmanager
def reading(is_ours: Callable[[str], bool]) -> Iterator[list[str] | None]:
    """Collect the lines that are written meanwhile, known at the end, or None where it cannot.

    Args:
        is_ours: tells which lines are kept back; all others are handed on at the end.
    """
    with _redirecting, contextlib.ExitStack() as opened:
        try:
            file = opened.enter_context(tempfile.TemporaryFile())
            saved = os.dup(2) if may_redirect else None
        except OSError:  # There is no place for a file, or no error stream.
            saved = None
        if saved is None:
            yield None
            return
        opened.callback(os.close, saved)
        os.dup2(file.fileno(), 2)
        lines: list[str] = []
        try:
            yield lines
        finally:
            os.dup2(saved, 2)
            file.seek(0)
            written = file.read().splitlines(keepends=True)
            # A terminal gets colours, which say nothing.
            lines += [_COLOUR.sub("", line.decode(errors="replace")) for line in written]
            rest = b"".join(w for w, li in zip(written, lines, strict=True) if not is_ours(li))
            with contextlib.suppress(OSError):  # Nobody may listen any more.
                while rest:
                    rest = rest[os.write(2, rest) :]

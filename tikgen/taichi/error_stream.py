"""Reads the error stream of the process, to which Taichi's C++ library writes its log."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator

# Child processes whose parent reads their error stream set this to False.
may_redirect = True
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# If two threads redirected the stream at a time, it would be lost.
_redirecting = threading.Lock()


@contextlib.contextmanager
def reading(is_ours: Callable[[str], bool]) -> Iterator[list[str] | None]:
    """Collect the lines that are written in the ``with`` block.

    Yields a list that is filled when the block ends, or None if the stream cannot be redirected.

    Args:
        is_ours: returns whether a line is withheld; all others are written to the stream at the
            end.
    """
    with _redirecting, contextlib.ExitStack() as opened:
        try:
            file = opened.enter_context(tempfile.TemporaryFile())
            saved = os.dup(2) if may_redirect else None
        except OSError:  # No room for a file, or no error stream.
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
            lines += [_COLOUR.sub("", line.decode(errors="replace")) for line in written]
            rest = b"".join(w for w, li in zip(written, lines, strict=True) if not is_ours(li))
            with contextlib.suppress(OSError):  # The reader may be gone.
                while rest:
                    rest = rest[os.write(2, rest) :]

"""Replaces a file in one step, once another one beside it is whole.

That one is locked as long as it is written. One that nobody locks was left by a process that was
killed, on any host, and the next save removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Give a new file, which gets a name at the end if nothing is raised.

    Args:
        path: the name, which is not that of a link.

    Raises:
        OSError: if the file cannot be written.
    """
    check_plain(path)
    _clear(path)
    temporary, file, is_locked = _new(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not is_locked:  # On a system without locks, which may rename no open file.
                file.close()
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_replaceable(path: Path) -> None:
    """Raise OSError if a file cannot be made or replaced.

    Args:
        path: its name, which is not that of a link.
    """
    check_plain(path)
    temporary, file, _ = _new(path)
    file.close()
    temporary.unlink(missing_ok=True)


def check_plain(path: Path) -> None:
    """Raise OSError if something else than a file has a name, such as a folder or a device."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError("it is no ordinary file")


def _new(path: Path) -> tuple[Path, BinaryIO, bool]:
    """Return a new file beside another one: its name, itself, and whether it is locked."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        file = temporary.open("xb")
        is_locked = _lock(file, wait=True)
        if os.fstat(file.fileno()).st_nlink or not is_locked:
            return temporary, file, is_locked
        file.close()  # Removed before it was locked.


def _clear(path: Path) -> None:
    """Remove what killed processes left beside a file."""
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.tmp")
    with contextlib.suppress(OSError):
        for found in path.parent.iterdir():
            if left.fullmatch(found.name):
                with contextlib.suppress(OSError), found.open("r+b") as file:
                    if _lock(file, wait=False):
                        found.unlink()


def _lock(file: BinaryIO, wait: bool) -> bool:
    """Return whether this process has the lock on a file, until it closes the file or ends."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):  # There are none, or another process has it.
        return False
    return True

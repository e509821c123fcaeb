"""Locks of exports, and what exports that were killed have left behind.

Whoever puts a bundle at ``path`` works in ``.NAME.ID.tmp`` beside it, and holds a lock on
``.NAME.ID.lock`` meanwhile. The system lets go of the lock when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import filelock

_LOCK = ".lock"


@contextlib.contextmanager
def held(file: Path, seconds: float) -> Iterator[None]:
    """Hold the lock on a file, which is made for that, and deleted in the end.

    Raises:
        filelock.Timeout: if another process holds it for longer than ``seconds``.
        OSError: if the file cannot be made.
    """
    lock = _acquired(file, seconds)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Some systems delete no file that is open.
            file.unlink()
        lock.release()


@contextlib.contextmanager
def own_folder(path: Path) -> Iterator[Path]:
    """Give the name of a folder beside ``path``, which is this process's own, to make and to fill.

    Raises:
        OSError: if nothing can be written there.
    """
    stem = path.parent / f".{path.name}.{uuid.uuid4().hex[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(Path(f"{stem}{_LOCK}"), 0):
        yield Path(f"{stem}.tmp")


def clear(path: Path) -> None:
    """Delete what exports to ``path`` have left beside it, unless a living process owns it."""
    name = re.compile(rf"(\.{re.escape(path.name)}\.[0-9a-f]{{12}})\.(tmp|zip|old|lock)")
    with contextlib.suppress(OSError):
        found = [name.fullmatch(file.name) for file in path.parent.iterdir()]
        for stem in sorted({match[1] for match in found if match}):
            _clear_one(path, path.parent / stem)


def _clear_one(path: Path, stem: Path) -> None:
    import filelock

    with contextlib.suppress(OSError, filelock.Timeout), held(Path(f"{stem}{_LOCK}"), 0):
        shutil.rmtree(f"{stem}.tmp", ignore_errors=True)
        Path(f"{stem}.zip").unlink(missing_ok=True)
        if path.exists():  # Else it is the bundle that was there, moved aside.
            shutil.rmtree(f"{stem}.old", ignore_errors=True)


def _acquired(file: Path, seconds: float) -> filelock.BaseFileLock:
    """Return the lock on a file that others may delete at any time."""
    import filelock

    while True:
        lock = filelock.FileLock(file, timeout=seconds)
        with file.open("a") as before:
            lock.acquire()
            # As long as it is open there can be no other file of its number.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(before.fileno()), file.stat()):
                    return lock
        lock.release()

"""Writes files, all of them or nothing; temporary folders; why a file could not be read."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

_WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full: the quota is used up",
    errno.ENAMETOOLONG: "the name is too long",
}


def why(error: Exception) -> str:
    """Return the reason of an error in words, without its number and path."""
    if not isinstance(error, OSError):
        return str(error)
    return _WORDS.get(error.errno or 0) or error.strerror or str(error)


def path_of(path: object, refuse: Callable[[str], Exception], what: str = "a file") -> Path:
    """Return a path that a user gave.

    Args:
        path: what was given, which may be anything.
        refuse: makes the error that is raised, of what is wrong in words.
        what: what the path is of, for the message.
    """
    if problem := path_problem(path, what):
        raise refuse(problem)
    return Path(cast("str", path))


def path_problem(path: object, what: str = "a file") -> str:
    """Return why something is no path of ``what``, or an empty string."""
    if not isinstance(path, str | os.PathLike):
        return f"takes the path of {what}; got {path!r:.60}"
    if "\0" in str(path):
        return f"takes the path of {what}, and no file name contains a null character"
    return ""


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the name of a file to write, which replaces ``path`` at the end.

    If anything is raised, what ``path`` held before stays. A device, a pipe and a file in a folder
    that cannot be written to are written as they are; so is what nothing can write, which then
    raises OSError: a folder, and a link that leads to itself.

    Args:
        path: file to write.
    """
    target = Path(os.path.realpath(path))  # A link stays a link.
    exists = target.exists()
    is_ordinary = target.is_file() and os.access(target.parent, os.W_OK)
    if target.is_symlink() or (exists and not is_ordinary):
        yield target
        return
    new = target.with_name(f".{uuid.uuid4().hex}{target.suffix}")
    try:
        yield new
        if exists:
            shutil.copymode(target, new)
        new.replace(target)
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)


class TemporaryFolder:
    """A new folder that is removed as it is garbage collected, or when the process ends.

    Unlike :class:`tempfile.TemporaryDirectory`, a forked process leaves it to its parent.

    Args:
        prefix: how its name begins.

    Attributes:
        path: the folder.
        remove: removes it now, in the process that made it.
    """

    def __init__(self, prefix: str = "tikgen-") -> None:
        import tempfile

        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)

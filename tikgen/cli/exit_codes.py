"""The exit status, which means the same in every command."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from tikgen.errors import (
    ExportError,
    KernelCompileError,
    LibraryError,
    RecordingError,
    RenderError,
    TuningError,
    VerificationError,
)

if TYPE_CHECKING:
    from tikgen.verification import Report

OK, FAILED, MISUSED = 0, 1, 2
# As shells report Ctrl-C, and a command that wrote to a pipe whose reader had stopped.
INTERRUPTED, UNREAD = 130, 141

MEANING = (
    "Exit codes: 0 success; 1 failure: a kernel that does not render, compile, run or agree with "
    "its reference, a proof, a disk; 2 a request that cannot be met: wrong usage, an unknown "
    "template or file, a bad parameter, an arch that does not work here; 130 interrupted; 141 "
    "the reader of the output has stopped, as head does."
)

_FAILURES = (
    ExportError,
    KernelCompileError,
    LibraryError,
    RenderError,
    TuningError,
    VerificationError,
)
_BAD_PATHS = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}


# What a disk does, whatever tikgen makes of it.
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO}


def of_error(error: BaseException) -> int:
    """Return the exit status of a command that ends with ``error``."""
    if isinstance(error, OSError):
        return MISUSED if error.errno in _BAD_PATHS else FAILED
    has_failed = isinstance(error, _FAILURES) and not isinstance(error, RecordingError)
    return FAILED if has_failed or _is_of_disk(error) else MISUSED


def _is_of_disk(error: BaseException | None) -> bool:
    """Tell whether an error was raised because a disk failed, be it several errors ago."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK:
            return True
        error = error.__cause__ or error.__context__
    return False


def of_report(report: Report, every_arch: bool) -> int:
    """Return the exit status of a verification, in which one arch or every arch has to pass."""
    found = [arch.status for arch in report.archs]
    if "failed" in found:
        return FAILED
    passed = found.count("passed")
    return OK if passed == len(found) or (passed and not every_arch) else MISUSED

"""What the exit codes mean: the same in every command."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from tikgen.errors import (
    ExportError,
    KernelCompileError,
    LibraryError,
    RenderError,
    TuningError,
    VerificationError,
)

if TYPE_CHECKING:
    from tikgen.verification import Report

OK, FAILED, MISUSED = 0, 1, 2
# What a shell makes of Ctrl-C.
INTERRUPTED = 130

MEANING = (
    "Exit codes: 0 all is well; 1 what was asked for failed: a kernel that does not render, "
    "compile, run or agree with its reference, a proof, a disk; 2 it cannot be done as asked: "
    "wrong usage, an unknown template or file, a bad parameter, an arch that does not work here; "
    "130 interrupted."
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


def of_error(error: Exception) -> int:
    """Return the exit code of a command that ``error`` ends."""
    if isinstance(error, OSError):
        return MISUSED if error.errno in _BAD_PATHS else FAILED
    return FAILED if isinstance(error, _FAILURES) else MISUSED


def of_report(report: Report, every_arch: bool) -> int:
    """Return the exit code of a verification.

    Args:
        report: what it found.
        every_arch: whether each arch has to pass, as where the user named them; otherwise one
            is enough.
    """
    found = [arch.status for arch in report.archs]
    if "failed" in found:
        return FAILED
    passed = found.count("passed")
    return OK if passed == len(found) or (passed and not every_arch) else MISUSED

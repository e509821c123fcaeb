"""Describes why a file could not be read or written."""

from __future__ import annotations

import errno

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

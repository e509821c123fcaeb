"""Memory between pages that nobody may touch, as Electric Fence gives it (Perens, 1987)."""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable

import numpy as np

from tikgen.dtypes import DType
from tikgen.template.base import NDArray

# A kernel that is off by a row or a plane should meet the fence as well.
_FENCE = 2**20
_NO_ACCESS, _READ = 0, 1


def are_fences_known() -> bool:
    """Tell whether this system lets a process forbid itself a page."""
    return _protect() is not None


def fenced(elements: int, dtype: DType) -> NDArray:
    """Return whole pages of zeros with room for ``elements``, a fence before and behind them.

    Any access to a fence ends the process with SIGSEGV, also one whose value is not used.

    Args:
        elements: how many elements there must be room for.
        dtype: their type.
    """
    size = elements * dtype.bits // 8
    inside = max(-(-size // mmap.PAGESIZE), 1) * mmap.PAGESIZE
    memory = mmap.mmap(-1, _FENCE + inside + _FENCE)
    pages = np.frombuffer(memory, np.uint8)
    protect = _protect()
    for start in (0, _FENCE + inside):
        if protect is None or protect(pages.ctypes.data + start, _FENCE, _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "memory cannot be protected")
    found: NDArray = pages[_FENCE : _FENCE + inside].view(dtype.numpy)
    return found


def make_read_only(pages: NDArray) -> None:
    """Have any write to whole pages end the process with SIGSEGV."""
    protect = _protect()
    if protect is None or protect(pages.ctypes.data, pages.nbytes, _READ):
        raise OSError(ctypes.get_errno(), "memory cannot be protected")


@functools.cache
def _protect() -> Callable[[int, int, int], int] | None:
    if sys.platform == "win32":
        return None
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    found: Callable[[int, int, int], int] = protect
    return found

"""The CUDA context of a runtime, which the library makes current in the creating thread only."""

from __future__ import annotations

import ctypes
import functools

from tikgen.machine import drivers


def current_context() -> int:
    """Return the CUDA context that is current in this thread, 0 where there is none."""
    context = ctypes.c_void_p(0)
    _driver().cuCtxGetCurrent(ctypes.byref(context))
    return context.value or 0


def make_current(context: int) -> None:
    """Make a CUDA context current in this thread; Taichi itself may have put another there."""
    _driver().cuCtxSetCurrent(ctypes.c_void_p(context))


@functools.cache
def _driver() -> ctypes.CDLL:
    return drivers.cuda()

"""The PTX of kernels, from a process that is kept for the next kernel for a while.

Taichi writes PTX only when a kernel is launched. The process launches it with arrays of zeros.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
from typing import TYPE_CHECKING, Any

from tikgen.lifecycle import ir
from tikgen.pipeline import events
from tikgen.pipeline.kernel import Kernel

if TYPE_CHECKING:
    from tikgen.children.process import ChildProcess

# The process takes memory on the device.
_SECONDS_KEPT = 30.0


class _Kept:
    """A compiling process for one set of options of ``ti.init``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._options = ""
        self._opened = contextlib.ExitStack()
        self._process: ChildProcess | None = None
        self._timer: threading.Timer | None = None

    def ask(self, kernel: Kernel) -> str:
        """Return the PTX of a kernel."""
        job = ir.job_of(kernel, "ptx", ())
        options = json.dumps(ir.compiler_options("ptx"))
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if self._process is None or options != self._options:
                self._close()
                opening = ir.compiler(kernel, "cuda", "ptx")
                self._process = self._opened.enter_context(opening)
                self._options = options
            try:
                found = ir.ask(self._process, kernel, job)
            except BaseException:
                self._close()
                raise
            self._timer = threading.Timer(_SECONDS_KEPT, self.close)
            self._timer.daemon = True
            self._timer.start()
            return found

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._close()

    def end(self) -> None:
        """End the process along with this one, without waiting for what it compiles."""
        if (process := self._process) is not None:
            process.stop()
        if self._lock.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._lock.release()

    def _close(self) -> None:
        self._process = None
        self._opened.close()


_kept = _Kept()


def _leave_to_parent() -> None:
    """Begin anew in a forked process; another thread may have held the lock."""
    global _kept
    _kept = _Kept()


atexit.register(lambda: _kept.end())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def ptx_of(function: Any) -> str:
    """Return the PTX of a loaded ``ti.kernel``; raises what :func:`ir.ir_of` raises."""
    loaded: Any = events.lives[events.subject_of(function.__wrapped__)]
    return _kept.ask(Kernel(loaded))

"""One launch of a persistent kernel: its thread and its end."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tikgen.ring.persistent import heartbeat as heartbeats
from tikgen.ring.persistent.heartbeat import Heartbeat
from tikgen.ring.persistent.words import COMMAND, END, FAILED, PAUSED, STATE

if TYPE_CHECKING:
    from tikgen.aot import Runtime

# Seconds that a kernel has for the messages that it has taken, when the process ends.
_LAST_SECONDS = 5.0


class Launch:
    """A persistent kernel, in a thread that does not hold the interpreter lock.

    It ends when it is garbage collected, and when the process ends.
    """

    def __init__(
        self,
        runtime: Runtime,
        start: Callable[[], None],
        words: memoryview[int],
        heartbeat: Heartbeat,
        name: str,
    ) -> None:
        self._words = words
        self._errors: list[BaseException] = []
        # A daemon: Python waits for other threads before it runs the exit handlers.
        self._thread = threading.Thread(
            target=_run, args=(runtime, start, words, self._errors), name=name, daemon=True
        )
        heartbeats.add(heartbeat)
        self.close = weakref.finalize(self, _close, self._thread, words, heartbeat, runtime)
        self._thread.start()

    @property
    def error(self) -> BaseException | None:
        """Return the error of the launch, if any."""
        return self._errors[0] if self._errors else None

    @property
    def is_over(self) -> bool:
        """Return whether the kernel has ended."""
        return not self._thread.is_alive()

    def join(self, timeout: float | None) -> bool:
        """Wait for the end of the kernel; return whether it has ended."""
        self._thread.join(timeout)
        return self.is_over

    def detach(self) -> None:
        """Leave the kernel to the parent of this process, which was forked without its thread."""
        self.close.detach()


def _run(
    runtime: Runtime,
    start: Callable[[], None],
    words: memoryview[int],
    errors: list[BaseException],
) -> None:
    try:
        start()
        runtime.sync()
    except BaseException as error:
        errors.append(error)
    if words[STATE] <= PAUSED:  # It ended without setting its state.
        words[STATE] = FAILED


def _close(
    thread: threading.Thread,
    words: memoryview[int],
    heartbeat: Heartbeat,
    runtime: Runtime,
) -> None:
    """End the kernel, then close its runtime."""
    words[COMMAND] = END
    if thread is threading.current_thread():  # Garbage collection runs in any thread.
        heartbeats.remove(heartbeat)
        return
    thread.join(_LAST_SECONDS)
    heartbeats.remove(heartbeat)
    if thread.is_alive():  # Busy with a message, perhaps forever: do not wait.
        runtime._engine.close.detach()
    else:
        runtime.close()


def wait_for(
    is_so: Callable[[], bool], timeout: float | None, check: Callable[[], Any] | None = None
) -> bool:
    """Wait until a condition holds, polling at growing intervals; return whether it does."""
    begun = time.perf_counter()
    pause = 0.0
    while not is_so():
        if check is not None:
            check()
        waited = time.perf_counter() - begun
        if timeout is not None and waited >= timeout:
            return is_so()
        if waited > 1e-3:
            pause = min(max(2 * pause, 2e-5), 1e-3)
        with contextlib.suppress(OverflowError):
            time.sleep(pause if timeout is None else min(pause, max(timeout - waited, 0)))
    return True

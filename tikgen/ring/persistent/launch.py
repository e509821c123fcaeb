"""One launch of a persistent kernel: its thread, and its end, whatever brings it about."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tikgen.ring.persistent import heartbeat
from tikgen.ring.persistent.words import COMMAND, END, FAILED, PAUSED, STATE

if TYPE_CHECKING:
    from tikgen.aot import Runtime

# What a kernel may still need for the messages that it has taken, when the process ends.
_LAST_SECONDS = 5.0


class Launch:
    """A kernel that stays, in a thread that does not hold the interpreter.

    It ends when nothing refers to it any more, and when the process ends.

    Attributes:
        error: what the launch raised, if anything.

    Args:
        runtime: what runs it, closed in the end.
        start: launches the kernel; returns once it has ended, or once it runs.
        words: its control words, unsigned.
        heart: beats for it.
        name: name of the thread.
    """

    def __init__(
        self,
        runtime: Runtime,
        start: Callable[[], None],
        words: memoryview[int],
        heart: heartbeat.Heart,
        name: str,
    ) -> None:
        self._words = words
        self._errors: list[BaseException] = []
        # A daemon, because Python waits for other threads before it tells anybody of its end.
        self._thread = threading.Thread(
            target=_run, args=(runtime, start, words, self._errors), name=name, daemon=True
        )
        heartbeat.add(heart)
        self.close = weakref.finalize(self, _close, self._thread, words, heart, runtime)
        self._thread.start()

    @property
    def error(self) -> BaseException | None:
        """Return what the launch raised, if anything."""
        return self._errors[0] if self._errors else None

    @property
    def is_over(self) -> bool:
        """Tell whether the kernel has ended."""
        return not self._thread.is_alive()

    def join(self, timeout: float | None) -> bool:
        """Wait for the end of the kernel; tell whether it came."""
        self._thread.join(timeout)
        return self.is_over

    def leave_to_parent(self) -> None:
        """Use it no more in this process, a fork, to which its thread did not come."""
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
    if words[STATE] <= PAUSED:  # It ended, and did not say so.
        words[STATE] = FAILED


def _close(
    thread: threading.Thread,
    words: memoryview[int],
    heart: heartbeat.Heart,
    runtime: Runtime,
) -> None:
    """End the kernel, then close its runtime."""
    words[COMMAND] = END
    if thread is threading.current_thread():  # Garbage collection may come anywhere.
        heartbeat.remove(heart)
        return
    thread.join(_LAST_SECONDS)
    heartbeat.remove(heart)
    if thread.is_alive():  # Its message takes longer, perhaps for ever: no exit waits for that.
        runtime._engine.close.detach()
    else:
        runtime.close()


def wait_for(
    is_so: Callable[[], bool], timeout: float | None, check: Callable[[], Any] | None = None
) -> bool:
    """Wait until something is so: spinning at first, then more and more patiently.

    Args:
        is_so: tells whether it is.
        timeout: seconds; None for no limit.
        check: called now and then; raises if it will never be.
    """
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

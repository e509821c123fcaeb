"""What Ctrl-C does to a run: it takes effect between steps, on all processes after the same one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from tikgen.program.walk import Walk


class Interrupts:
    """Has Ctrl-C stop steps in progress, and do what it does only after the current one.

    Where its handler raises nothing, the steps go on. Several processes wait for each other at any
    time of a run: Ctrl-C is kept until they agree, after the same step, that one of them ends it.

    Args:
        walk: the steps.
    """

    def __init__(self, walk: Walk) -> None:
        team = walk.plan.team
        self._walk = walk
        self._is_alone = team is None or team.size == 1
        self._was_stopped = False
        self._heard: tuple[int, FrameType | None] | None = None
        self._raised: BaseException | None = None
        self._is_stepping = False
        self._handler: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._handler is None:
            return
        signal.signal(signal.SIGINT, self._handler)
        if self._heard is not None and kind is None:  # After the processes agreed the last time.
            self._handler(*self._heard)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if not self._is_alone:
            self._heard = number, frame
            return
        if not self._is_stepping:
            self._handler(number, frame)
            return
        if self._heard is None:
            self._was_stopped = self._walk.is_stopped
        self._heard = number, frame
        self._walk.stop()

    def advance(self, count: int) -> None:
        """Do steps; Ctrl-C takes effect after them, or when several processes agree."""
        self._is_stepping = True
        try:
            self._walk.advance(count)
        finally:
            self._is_stepping = False
            if self._is_alone and self._heard is not None:
                heard, self._heard = self._heard, None
                if not self._was_stopped:
                    self._walk.begin()
                self._handler(*heard)

    def ask(self) -> bool:
        """Return whether Ctrl-C is to end the run of several processes, as its handler raised."""
        heard, self._heard = self._heard, None
        if heard is not None:
            try:
                self._handler(*heard)
            except BaseException as error:  # The others wait for this process to agree.
                self._raised = error
        return self._raised is not None

    def end(self) -> None:
        """Raise what the handler raised, KeyboardInterrupt if it was that of another process."""
        raised, self._raised = self._raised, None
        raise raised or KeyboardInterrupt("another process that shares the grid was interrupted")

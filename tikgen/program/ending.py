"""How a run ends before its last step on all of its processes, and the checkpoints it writes."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from tikgen.errors import ProgramError, Terminated
from tikgen.program import checkpoints, zarr_checkpoints
from tikgen.program.checkpoints import PathLike
from tikgen.program.interrupts import Interrupts
from tikgen.program.team import Team
from tikgen.program.walk import Walk

# After so many seconds Python looks for signals, shows progress, and processes agree how to go on.
_SECONDS = 0.05
# Where agreeing takes long they do so less often: for this share of the time, or after so many
# seconds. Between two H200 each time took 0.5 ms, in which both had nothing to do.
_SHARE, _MOST_SECONDS = 1 / 500, 0.5


class Ending:
    """Has the processes of a run agree whether it goes on, and writes its checkpoints.

    With a checkpoint, SIGTERM sets a mark only. When the current steps are done and the processes
    have agreed that one of them has a mark, a checkpoint is written and :class:`Terminated` raised.

    Args:
        walk: the steps.
        team: the processes; None for this one alone.
        path: the checkpoint; None for none.
        minutes: one is written every so many minutes as well, by the clock of rank 0.
        save: writes the checkpoint, on all processes.
        interrupts: what Ctrl-C does to the run.

    Attributes:
        is_over: whether all agreed that the run ends.

    Raises:
        ProgramError: if this is not the main thread, the only one that hears signals, or the
            checkpoint cannot be written; on all processes.
    """

    def __init__(
        self,
        walk: Walk,
        team: Team | None,
        path: PathLike | None,
        minutes: float | None,
        save: Callable[[PathLike], None],
        interrupts: Interrupts,
    ) -> None:
        self.is_over = False
        self._walk, self._team, self._path, self._save = walk, team, path, save
        self._interrupts = interrupts
        self._seconds = None if minutes is None else 60 * minutes
        self._is_asked, self._is_due = False, False
        self._heard = False
        self._steps, self._took, self._agreeing = 0, 0.0, 0.0
        self._handler: Any = None
        if path is not None:
            self._check(path)

    def _check(self, path: PathLike) -> None:
        problem = ""
        if threading.current_thread() is not threading.main_thread():
            problem = "checkpoint= needs the main thread, the only one that hears SIGTERM"
        elif self._is_writer:
            kind = zarr_checkpoints if zarr_checkpoints.is_store(path) else checkpoints
            try:  # Now, not when the time is up.
                kind.check_writable(path)
            except ProgramError as error:
                problem = str(error)
        if self._team is not None:
            self._team.check(problem)
        elif problem:
            raise ProgramError(problem)

    @property
    def _is_writer(self) -> bool:
        return self._team is None or self._team.rank == 0

    def __enter__(self) -> Ending:
        self._written = time.monotonic()
        if self._path is not None:
            # None for a handler that was not made by Python, which cannot be put back.
            self._handler = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
            signal.signal(signal.SIGTERM, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._path is None:
            return
        if kind is Terminated:
            # Another process may hear it late; it ends with the same status then.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            return
        signal.signal(signal.SIGTERM, self._handler)
        if self._heard and kind is None:  # After the last step.
            signal.raise_signal(signal.SIGTERM)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard = True
        if self._team is None:
            self._walk.stop()

    def did(self, steps: int, seconds: float) -> None:
        """Say that some steps are done; agree, where there were enough since the last time.

        Args:
            steps: how many were wanted, the same on all processes.
            seconds: how long they took here.
        """
        self._steps, self._took = self._steps + steps, self._took + seconds
        if self._team is None or self._steps >= self._walk.ahead:
            self.agree()

    def agree(self) -> None:
        """Agree with the other processes, all after the same step, how to go on.

        Raises:
            KeyboardInterrupt: after Ctrl-C, on all processes; of this one what its handler raises.
        """
        is_interrupted = self._interrupts.ask()  # First, as a handler may stop the run.
        late = self._seconds is not None and time.monotonic() - self._written >= self._seconds
        marks = [self._walk.is_stopped, self._heard, late and self._is_writer, is_interrupted]
        seconds = _SECONDS
        if self._team is not None:
            began = time.perf_counter()
            *found, self._took, took = self._team.greatest([*marks, self._took, self._agreeing])
            marks, self._agreeing = [value > 0 for value in found], time.perf_counter() - began
            seconds = min(max(_SECONDS, took / _SHARE), _MOST_SECONDS)
        self.is_over, self._is_asked, self._is_due, is_interrupted = marks
        self.is_over = self.is_over or self._is_asked
        # Equal on all processes, so that they agree after the same step.
        self._walk.ahead = _ahead(self._walk.ahead, self._steps, self._took, seconds)
        self._steps, self._took = 0, 0.0
        if is_interrupted and not self._is_asked:  # SIGTERM has its checkpoint.
            self._interrupts.end()

    def keep(self) -> None:
        """Write a checkpoint if it is time.

        Raises:
            Terminated: if a process was asked to end.
            ProgramError: if the checkpoint cannot be written.
        """
        if self._path is None or not (self._is_asked or self._is_due):
            return
        self._save(self._path)
        self._written, self._is_due = time.monotonic(), False
        if self._is_asked:
            ended = Terminated(str(self._path), self._walk.steps)
            if self._is_writer:
                print(ended, file=sys.stderr, flush=True)
            raise ended


def _ahead(ahead: int, steps: int, took: float, seconds: float) -> int:
    """Return how many steps to do in some seconds, if others took so long."""
    if took > seconds:
        return max(1, int(steps * seconds / took))
    # Doubled at most, as a single step may take less time than those to come.
    return 2 * ahead if steps >= ahead and took < seconds / 2 else ahead

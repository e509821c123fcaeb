"""Lets the exports of a module share a compiling process, whose start outlasts most of its work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from tikgen.aot.exporting import compiling
from tikgen.aot.exporting.worker_process import WorkerProcess

_Command = tuple[str, ...]


class _Lasting(WorkerProcess):
    """Waits for the next export where it would have ended, unless its export failed."""

    idle: dict[_Command, _Lasting]

    def __exit__(self, error: object, *_: object) -> None:
        if error is None and self.is_running and self._command not in self.idle:
            self.idle[self._command] = self
        else:
            self.stop()


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Let all exports of the block compile in one process for each arch."""
    idle: dict[_Command, _Lasting] = {}

    def process_for(
        *command: str, doing: str, seconds: float, stop: threading.Event
    ) -> WorkerProcess:
        process = idle.pop(command, None)
        if process is None:
            process = _Lasting(*command, doing=doing, seconds=seconds, stop=stop)
            process.idle = idle
        process._stop = stop
        return process

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "WorkerProcess", process_for)
        yield
    for process in idle.values():
        process.stop()


@pytest.fixture(scope="module")
def one_compiler() -> Iterator[None]:
    """Let all exports of the module compile in one process for each arch."""
    with shared():
        yield

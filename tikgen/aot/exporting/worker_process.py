"""The processes of an export: each answers jobs, and is started anew when it dies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from tikgen.children.process import ChildProcess, Died

# The longest that an interrupted thread continues to wait.
_SLICE_SECONDS = 0.2

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):
    """The result of a thread is no longer needed: another failed, or Ctrl-C was pressed."""


class WorkerProcess(ChildProcess):
    """Answers jobs one after another; ``doing`` is a noun for its work in messages.

    A job may take so many ``seconds``; ``stop`` is set when answers are no longer needed.
    """

    def __init__(
        self, module: str, *arguments: str, doing: str, seconds: float, stop: threading.Event
    ) -> None:
        super().__init__(module, *arguments)
        self._doing, self._seconds, self._stop = doing, seconds, stop
        self._absent = ""

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the reply to a job, or a dict whose ``problem`` says why there is none."""
        if not self.is_running and not self._absent:
            self._absent = self.start()
        if self._absent:
            return {"problem": f"its {self._doing} could not start: {self._absent}"}
        try:
            self.send(json.dumps(job))
            return self._reply()
        except Died as death:
            return {"problem": f"the process died during its {self._doing}: {death}"}
        except TimeoutError:
            self.stop()
            return {"problem": f"its {self._doing} took longer than {self._seconds:g} s"}

    def _reply(self) -> dict[str, Any]:
        end = time.monotonic() + self._seconds
        while not self._stop.is_set():
            try:
                return self.reply(min(_SLICE_SECONDS, end - time.monotonic()))
            except TimeoutError:
                if time.monotonic() >= end:
                    raise
        raise Stopped


def in_threads(
    work: Callable[[Item, threading.Event], Result], items: Sequence[Item], at_once: int
) -> list[Result]:
    """Return what ``work`` returns for each item; the first error ends all.

    ``work`` takes an event as well, which is set when its result is no longer needed.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            futures = [pool.submit(work, item, stop) for item in items]
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()  # Raises the first error, not that others were stopped by it.
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise

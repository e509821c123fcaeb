"""Threads that wait for child processes, and leave at once when the program is interrupted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from tikgen.children.process import ChildProcess

# How long an interrupted thread goes on waiting.
_SLICE_SECONDS = 0.2

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):
    """A thread need not wait any more: another one failed, or the program was interrupted."""


def in_threads(
    work: Callable[[Item, threading.Event], Result], items: Sequence[Item], at_once: int
) -> list[Result]:
    """Return what ``work`` makes of each item, several at once.

    Args:
        work: takes an item, and an event that is set once nobody waits for its result.
        items: the items.
        at_once: number of threads.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            futures = [pool.submit(work, item, stop) for item in items]
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()  # Raises what came first, not that others were stopped then.
            return [future.result() for future in futures]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def reply_of(process: ChildProcess, seconds: float, stop: threading.Event) -> dict[str, Any]:
    """Return the next reply of a process.

    Raises:
        Stopped: if ``stop`` is set meanwhile.
        TimeoutError: if there is none within so many seconds.
        Died: if the process is gone; it is stopped then.
    """
    end = time.monotonic() + seconds
    while not stop.is_set():
        try:
            return process.reply(min(_SLICE_SECONDS, end - time.monotonic()))
        except TimeoutError:
            if time.monotonic() >= end:
                raise
    raise Stopped

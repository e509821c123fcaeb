"""Those who wait for messages, and those who wait for room, woken in order and never forgotten."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import deque

from tikgen.ring.errors import InvalidConfigurationError


class Waiters:
    """Tasks that wait for the same thing, first come, first woken.

    To be woken says that it is worth looking again. Whoever is cancelled then wakes the next one.

    Attributes:
        futures: for each that waits its number, in order, and what wakes it.
    """

    __slots__ = ("_numbers", "futures")

    def __init__(self) -> None:
        self.futures: deque[tuple[int, asyncio.Future[bool]]] = deque()
        self._numbers = itertools.count()

    def wake(self) -> None:
        """Wake the first one, if any."""
        futures = self.futures
        while futures:
            future = futures.popleft()[1]
            if not future.done():
                future.set_result(True)
                return

    def wake_all(self) -> None:
        """Wake all of them."""
        while self.futures:
            self.wake()

    def number(self) -> int:
        """Return a place in the order, for one who may have to wait several times."""
        return next(self._numbers)

    async def wait(self, timeout: float | None = None, number: int | None = None) -> bool:
        """Wait to be woken; tell whether that was so, or time was up.

        Args:
            timeout: seconds; None for as long as it takes.
            number: its place in the order; behind all others without one.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        futures = self.futures
        if number is None:
            entry = next(self._numbers), future
            futures.append(entry)
        else:
            entry = number, future
            place = sum(1 for other, _ in futures if other < number)
            futures.insert(place, entry)
        timer = None
        if timeout is not None:
            timer = loop.call_later(max(timeout, 0.0), _time_out, future)
        try:
            woken = await future
            if not woken:
                self._forget(entry)
            return woken
        except BaseException:
            self._forget(entry)
            if future.done() and not future.cancelled() and future.result():
                self.wake()  # It was this one's turn.
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _forget(self, entry: tuple[int, asyncio.Future[bool]]) -> None:
        if entry in self.futures:
            self.futures.remove(entry)


def _time_out(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)


class Clock:
    """How much is left of a time-out, however often somebody has to wait."""

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, 0 if none are."""
        return max(self._end - time.monotonic(), 0.0)


def clock(timeout: float | None, name: str = "timeout") -> Clock | None:
    """Return what measures a time-out, None where there is none.

    Raises:
        InvalidConfigurationError: if it is no number of seconds.
    """
    if timeout is None or timeout == math.inf:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or math.isnan(timeout):
        raise InvalidConfigurationError(name, timeout, "takes seconds, or None")
    return Clock(timeout)


def left_of(measured: Clock | None) -> float | None:
    """Return the seconds that are left of a time-out, None where there is none."""
    return None if measured is None else measured.left()

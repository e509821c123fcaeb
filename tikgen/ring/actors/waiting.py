"""Those who wait for messages, and those who wait for room, woken in order and never forgotten."""

from __future__ import annotations

import asyncio
import bisect
import itertools
import math
import time
from asyncio import get_running_loop
from collections import deque

from tikgen.ring.errors import InvalidConfigurationError

Future = asyncio.Future[bool]


class ActorStop(asyncio.CancelledError):
    """Ends the body of an actor that waits for a message and will get none."""


class Waiters:
    """Tasks that wait for the same thing, first come, first woken.

    To be woken says that it is worth looking again. Whoever is cancelled then wakes the next one.

    Attributes:
        futures: what wakes them, in order; some may be done already.
    """

    __slots__ = ("futures",)

    def __init__(self) -> None:
        self.futures: deque[Future] = deque()

    def wake(self) -> None:
        """Wake the first one, if any."""
        futures = self.futures
        while futures:
            future = futures.popleft()
            if not future.done():
                future.set_result(True)
                return

    def wake_all(self) -> None:
        """Wake all of them."""
        while self.futures:
            self.wake()

    def enter(self) -> Future:
        """Return what wakes one more, to be awaited at once; :meth:`leave` if that raises."""
        future = get_running_loop().create_future()
        self.futures.append(future)
        return future

    def leave(self, future: Future) -> None:
        """Wait no more, because of an exception."""
        if future in self.futures:
            self.futures.remove(future)
        if future.done() and not future.cancelled() and future.result():
            self.wake()  # It was this one's turn.

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait to be woken; tell whether that was so, or time was up.

        Args:
            timeout: seconds; None for as long as it takes.
        """
        return await self._wait(self.enter(), timeout)

    async def _wait(self, future: Future, timeout: float | None) -> bool:
        timer = None
        if timeout is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(max(timeout, 0.0), _time_out, future)
        try:
            woken = await future
        except BaseException:
            self.leave(future)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if not woken:
            self.leave(future)
        return woken


class Line(Waiters):
    """Waiters of whom some come back, and then stand where they stood before."""

    __slots__ = ("_numbers", "_places")

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count()
        self._places: dict[Future, int] = {}

    def number(self) -> int:
        """Return a place in the line."""
        return next(self._numbers)

    async def wait_at(self, number: int, timeout: float | None = None) -> bool:
        """Wait at a place in the line; as :meth:`wait` otherwise."""
        future = asyncio.get_running_loop().create_future()
        places = [self._places[other] for other in self.futures]
        self.futures.insert(bisect.bisect(places, number), future)
        self._places[future] = number
        try:
            return await self._wait(future, timeout)
        finally:
            del self._places[future]


def _time_out(future: Future) -> None:
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

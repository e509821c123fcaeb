"""Waiters for messages and for room, woken in order, and the time-outs of waiting."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from asyncio import get_running_loop
from collections import OrderedDict

from tikgen.ring.errors import InvalidConfigurationError

Future = asyncio.Future[bool]
# Seconds that count as no time-out at all: more than the clocks of some systems can count.
_ENDLESS = 1e9


class ActorStop(asyncio.CancelledError):
    """Ends the body of an actor that waits for a message when none will come."""


class Waiters:
    """Tasks that wait for the same event, woken in the order in which they came.

    A woken task looks again whether it can go on. One that is cancelled after it was woken wakes
    the next one.

    Attributes:
        futures: the futures of the waiting tasks, in order; some may be done already.
    """

    __slots__ = ("futures",)

    def __init__(self) -> None:
        self.futures: OrderedDict[Future, None] = OrderedDict()  # Fast removal anywhere.

    def wake(self) -> None:
        """Wake the first one, if any."""
        while self.futures:
            future = self._first()
            if not future.done():
                future.set_result(True)
                return

    def _first(self) -> Future:
        """Remove and return the first one; there must be one."""
        return self.futures.popitem(last=False)[0]

    def wake_all(self) -> None:
        """Wake all of them."""
        while self.futures:
            self.wake()

    def cancel_all(self) -> None:
        """Cancel all of them."""
        while self.futures:
            self._first().cancel()

    def enter(self) -> Future:
        """Return a future to await at once; call :meth:`leave` if that raises."""
        future = get_running_loop().create_future()
        self.futures[future] = None
        return future

    def leave(self, future: Future) -> None:
        """Remove a future whose task does not wait any more."""
        self.futures.pop(future, None)
        if future.done() and not future.cancelled() and future.result():
            self.wake()  # It was this one's turn.

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait to be woken; return False if that took longer than ``timeout`` seconds."""
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
    """Waiters that keep their place in the line when they have to wait again."""

    __slots__ = ("_numbers", "_queue")

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count()
        # By number; those that have left stay in it until their turn.
        self._queue: list[tuple[int, int, Future]] = []

    def number(self) -> int:
        """Return the next place in the line."""
        return next(self._numbers)

    def _first(self) -> Future:
        while True:
            _, _, future = heapq.heappop(self._queue)
            if future in self.futures:
                del self.futures[future]
                return future

    def leave(self, future: Future) -> None:
        """Remove a future whose task does not wait any more."""
        super().leave(future)
        if len(self._queue) > 2 * len(self.futures) + 64:
            self._queue = [entry for entry in self._queue if entry[2] in self.futures]
            heapq.heapify(self._queue)

    async def wait_at(self, number: int, timeout: float | None = None) -> bool:
        """Wait at a place in the line; return as :meth:`wait` does."""
        future = self.enter()
        heapq.heappush(self._queue, (number, next(self._numbers), future))
        return await self._wait(future, timeout)


def _time_out(future: Future) -> None:
    if not future.done():
        future.set_result(False)


class Clock:
    """The time that is left of a time-out, across several waits."""

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, 0 if none are."""
        return max(self._end - time.monotonic(), 0.0)


def clock(timeout: float | None) -> Clock | None:
    """Return the clock of a time-out, None without one; raises as :func:`seconds_of`."""
    seconds = seconds_of(timeout)
    return None if seconds is None else Clock(seconds)


def seconds_of(timeout: float | None) -> float | None:
    """Return a time-out in seconds, None where there is none.

    Raises:
        InvalidConfigurationError: if it is no number of seconds, or negative.
    """
    if timeout is None:
        return None
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not timeout >= 0:
        raise InvalidConfigurationError("timeout", timeout, "takes seconds from 0, or None")
    return None if timeout > _ENDLESS else timeout


def left_of(measured: Clock | None) -> float | None:
    """Return the seconds that are left of a time-out, None where there is none."""
    return None if measured is None else measured.left()

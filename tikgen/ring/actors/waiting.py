"""Those who wait for messages, and those who wait for room, woken in order and never forgotten."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from asyncio import get_running_loop
from collections import OrderedDict

from tikgen.ring.errors import InvalidConfigurationError

Future = asyncio.Future[bool]
# More seconds than a machine runs, and than the clocks of some systems can count.
_FOR_EVER = 1e9


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
        self.futures: OrderedDict[Future, None] = OrderedDict()  # Quick to leave from anywhere.

    def wake(self) -> None:
        """Wake the first one, if any."""
        while self.futures:
            future = self._first()
            if not future.done():
                future.set_result(True)
                return

    def _first(self) -> Future:
        """Take the first one out; there must be one."""
        return self.futures.popitem(last=False)[0]

    def wake_all(self) -> None:
        """Wake all of them."""
        while self.futures:
            self.wake()

    def cancel_all(self) -> None:
        """Cancel what they wait for."""
        while self.futures:
            self._first().cancel()

    def enter(self) -> Future:
        """Return what wakes one more, to be awaited at once; :meth:`leave` if that raises."""
        future = get_running_loop().create_future()
        self.futures[future] = None
        return future

    def leave(self, future: Future) -> None:
        """Wait no more, because of an exception."""
        self.futures.pop(future, None)
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

    __slots__ = ("_numbers", "_queue")

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count()
        # By number; those that have left are still in it until their turn comes.
        self._queue: list[tuple[int, int, Future]] = []

    def number(self) -> int:
        """Return a place in the line."""
        return next(self._numbers)

    def _first(self) -> Future:
        while True:
            _, _, future = heapq.heappop(self._queue)
            if future in self.futures:
                del self.futures[future]
                return future

    def leave(self, future: Future) -> None:
        """Wait no more, because of an exception."""
        super().leave(future)
        if len(self._queue) > 2 * len(self.futures) + 64:
            self._queue = [entry for entry in self._queue if entry[2] in self.futures]
            heapq.heapify(self._queue)

    async def wait_at(self, number: int, timeout: float | None = None) -> bool:
        """Wait at a place in the line; as :meth:`wait` otherwise."""
        future = self.enter()
        heapq.heappush(self._queue, (number, next(self._numbers), future))
        return await self._wait(future, timeout)


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
        InvalidConfigurationError: if it is no number of seconds, or negative.
    """
    seconds = seconds_of(timeout, name)
    return None if seconds is None else Clock(seconds)


def seconds_of(timeout: float | None, name: str = "timeout") -> float | None:
    """Return a time-out that was given, None where there is none; raises as :func:`clock`."""
    if timeout is None:
        return None
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not timeout >= 0:
        raise InvalidConfigurationError(name, timeout, "takes seconds from 0, or None")
    return None if timeout > _FOR_EVER else timeout


def left_of(measured: Clock | None) -> float | None:
    """Return the seconds that are left of a time-out, None where there is none."""
    return None if measured is None else measured.left()

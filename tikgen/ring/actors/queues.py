"""The two queues of an actor, and the envelopes of messages in them."""

from __future__ import annotations

import asyncio
from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tikgen.ring.actors.waiting import ActorStop, Clock, Line, Waiters, left_of

# The deadline of a message that was counted as expired.
EXPIRED = -1


class Envelope(msgspec.Struct):
    """A message in the queue of an actor.

    Attributes:
        message: the message; of a block, the first one that is left.
        priority: 0 to 255, higher goes first.
        sent: when it was sent, in nanoseconds of ``time.perf_counter_ns``.
        reply: the future of its reply; None for a message that is no request.
        deadline: when it expires, on the same clock; 0 for never.
        block: the messages of a block, a list or columns; None for a single message.
        count: how many messages are left in it.
        start: how many messages of the block were taken.
        key: identifies the request when its reply is sent.
    """

    message: Any
    priority: int
    sent: int
    reply: asyncio.Future[Any] | None = None
    deadline: int = 0
    block: Any = None
    count: int = 1
    start: int = 0
    key: int = 0

    def left(self) -> Any:
        """Return the messages that are left: a list, or columns."""
        if self.block is None:
            return [self.message]
        return self.block[self.start :] if self.start else self.block

    def first(self, count: int) -> Envelope:
        """Return the first messages that are left of a block, as another envelope."""
        part: Any = self.block[self.start : self.start + count]
        return Envelope(None, self.priority, self.sent, None, self.deadline, part, count)

    def skip(self, count: int) -> None:
        """Take the first messages off a block."""
        self.start += count
        self.count -= count


class Failure:
    """Takes the place of a reply in the output queue; receiving it raises the error."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def raised(error: BaseException) -> BaseException:
    """Return a copy of an error, with the same cause.

    Raising one object several times would lengthen its traceback each time.
    """
    made = error.__class__.__new__(error.__class__)
    made.__dict__.update(error.__dict__)
    made.args = error.args
    made.__cause__ = error.__cause__
    return made


def settle(reply: asyncio.Future[Any], error: BaseException) -> None:
    """Set the exception of a reply that is still awaited."""
    if not reply.done():
        reply.set_exception(raised(error))
        reply.exception()  # Else asyncio logs it where the caller has stopped waiting.


# Seconds of waiting that raise the priority of a message by one.
AGEING = 0.01


class Senders(Line):
    """Tasks that wait for room in a queue.

    A switch of tasks for each message costs more than the message. So they are woken in the next
    turn of the event loop, when the receiver has taken all that it can.

    Attributes:
        is_due: whether a wake-up is scheduled.
    """

    __slots__ = ("is_due",)

    def __init__(self) -> None:
        super().__init__()
        self.is_due = False

    def freed(self, queue: Inbox | Outbox) -> None:
        """Schedule the wake-up of as many senders as the queue has room for."""
        if not self.is_due:
            self.is_due = True
            get_running_loop().call_soon(self._wake_some, queue)

    def _wake_some(self, queue: Inbox | Outbox) -> None:
        self.is_due = False
        for _ in range(min(queue.maxsize - queue.size, len(self.futures))):
            self.wake()


class Inbox:
    """Envelopes by priority, and the tasks that wait for messages or for room.

    The next envelope is the one with the highest priority, where a priority rises by one for every
    ``ageing`` seconds of waiting. All age alike, so only the oldest of each priority is compared.

    Args:
        maxsize: messages that it is to hold.
        ageing: seconds; None for strict priorities.

    Attributes:
        size: messages that it holds.
        only: the queue of the only priority; None where there are several.
        paused: whether nothing is taken out for now.
        takers: tasks of the actor that wait for a message.
        senders: tasks that wait for room.
    """

    __slots__ = ("_ageing", "_bands", "maxsize", "only", "paused", "senders", "size", "takers")

    def __init__(self, maxsize: int, ageing: float | None = AGEING) -> None:
        self.maxsize = maxsize
        self.size = 0
        self.paused = True
        self.takers = Waiters()
        self.senders = Senders()
        # Without ageing a priority outweighs any time.
        self._ageing = round(ageing * 1e9) if ageing is not None else 1 << 62
        self.only: deque[Envelope] | None = deque()
        self._bands: dict[int, deque[Envelope]] = {128: self.only}

    @property
    def is_full(self) -> bool:
        """Return whether it holds as many messages as it may."""
        return self.size >= self.maxsize

    def room(self) -> int:
        """Return how many more messages it may hold."""
        return max(self.maxsize - self.size, 0)

    # Putting.

    def put(self, envelope: Envelope) -> None:
        """Append an envelope to those of its priority, and wake a taker."""
        band = self._bands.get(envelope.priority)
        if band is None:
            band = self._bands[envelope.priority] = deque()
            self.only = None
        band.append(envelope)
        self.size += envelope.count
        if self.takers.futures and not self.paused:
            self.takers.wake()

    def try_put(self, envelope: Envelope) -> bool:
        """Put an envelope if there is room and no sender waits; return whether it was put."""
        if self.size + envelope.count > self.maxsize or self.senders.futures:
            return False
        band = self._bands.get(envelope.priority)
        if band is None:
            self.put(envelope)
            return True
        band.append(envelope)
        self.size += envelope.count
        if self.takers.futures and not self.paused:
            self.takers.wake()
        return True

    async def wait_for_room(self, check: Callable[[], None], timeout: Clock | None) -> bool:
        """Wait until there is room; return False if that took longer than ``timeout``."""
        number = self.senders.number()
        is_first = True
        while self.is_full or (is_first and self.senders.futures):
            is_first = False
            woken = await self.senders.wait_at(number, left_of(timeout))
            check()
            if not woken and self.is_full:
                return False
        return True

    # Taking.

    def pop(self) -> Envelope:
        """Take the next message; there must be one."""
        if (only := self.only) is not None and only[0].block is None:
            self.size -= 1
            return only.popleft()
        return self._pop_first(*self._next_band())

    def pop_block(self, most: int) -> Envelope:
        """Take the next envelope, of a list at most ``most`` messages; there must be one.

        Columns are taken whole: a kernel takes them in one launch, however many they are.
        """
        priority, band = self._next_band()
        envelope = band[0]
        if envelope.count > most and isinstance(envelope.block, list):
            taken = envelope.first(most)
            envelope.skip(most)
        else:
            taken = band.popleft()
            self._drop_if_empty(priority, band)
        self.size -= taken.count
        return taken

    def pop_oldest(self) -> Envelope:
        """Take the message that has waited longest, whatever its priority; there must be one."""
        bands = [item for item in self._bands.items() if item[1]]
        return self._pop_first(*min(bands, key=lambda item: item[1][0].sent))

    def drain(self) -> Iterator[Envelope]:
        """Take everything, in order, as it was put."""
        while self.size:
            yield self.pop_block(self.size)

    def taken(self) -> None:
        """Wake senders, and the next taker of what is left; call it after taking."""
        if self.senders.futures:
            self.senders.freed(self)
        if self.size and self.takers.futures and not self.paused:
            self.takers.wake()

    def _pop_first(self, priority: int, band: deque[Envelope]) -> Envelope:
        """Take the first message of a priority, also off a block."""
        envelope = band[0]
        self.size -= 1
        taken = envelope
        if envelope.block is not None:
            taken = envelope.first(1)
            taken.message, taken.block = envelope.block[envelope.start], None
            envelope.skip(1)
        if envelope.block is None or not envelope.count:
            band.popleft()
        self._drop_if_empty(priority, band)
        return taken

    def _drop_if_empty(self, priority: int, band: deque[Envelope]) -> None:
        if not band and len(self._bands) > 1:
            del self._bands[priority]
            if len(self._bands) == 1:
                (self.only,) = self._bands.values()

    def _next_band(self) -> tuple[int, deque[Envelope]]:
        for priority in [p for p, band in self._bands.items() if not band]:
            self._drop_if_empty(priority, self._bands[priority])
        ageing = self._ageing
        return min(self._bands.items(), key=lambda item: item[1][0].sent - item[0] * ageing)


class _NoTakers(Waiters):
    __slots__ = ()

    def enter(self) -> Future[bool]:
        """Raise :class:`ActorStop`: no message will come."""
        raise ActorStop


class ClosedInbox(Inbox):
    """The inbox of a body that has ended: it has no messages, and waiting ends the task."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(1, None)
        self.takers = _NoTakers()


class Outbox:
    """Replies that were sent and not received yet: messages, lists and columns of messages."""

    __slots__ = ("_items", "maxsize", "receivers", "senders", "size")

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self.size = 0
        self.receivers = Waiters()
        self.senders = Senders()
        self._items: deque[Any] = deque()  # Messages, and envelopes of blocks.

    def put(self, message: Any) -> None:
        """Put a message, whether there is room or not."""
        self._items.append(message)
        self.size += 1
        if self.receivers.futures:
            self.receivers.wake()

    def put_block(self, block: Any, count: int) -> None:
        """Put a list or columns of messages."""
        self._items.append(Envelope(None, 0, 0, None, 0, block, count))
        self.size += count
        if self.receivers.futures:
            self.receivers.wake()

    def take(self) -> Any:
        """Take the first message; there must be one."""
        items = self._items
        item = items[0]
        self.size -= 1
        if type(item) is Envelope:
            message = item.block[item.start]
            item.skip(1)
            if not item.count:
                items.popleft()
        else:
            message = item
            items.popleft()
        if self.receivers.futures or (self.senders.futures and not self.senders.is_due):
            self._taken()
        return message

    def take_block(self, most: int) -> tuple[Any, int]:
        """Take a block, or single messages as a list, at most ``most``; there must be one."""
        items = self._items
        item = items[0]
        if type(item) is Envelope:
            count = min(item.count, most)
            found = item.left() if count == item.count else item.first(count).block
            item.skip(count)
            if not item.count:
                items.popleft()
        else:
            found = []
            while items and len(found) < most and type(items[0]) is not Envelope:
                found.append(items.popleft())
            count = len(found)
        self.size -= count
        self._taken()
        return found, count

    def drain(self) -> list[Any]:
        """Take everything; columns stay one item."""
        found: list[Any] = []
        while self.size:
            block, _ = self.take_block(self.size)
            found += block if isinstance(block, list) else [block]
        return found

    def _taken(self) -> None:
        if self.senders.futures:
            self.senders.freed(self)
        if self.size and self.receivers.futures:
            self.receivers.wake()

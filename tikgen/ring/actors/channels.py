"""The two queues of an actor: what it is to handle, and what it answered."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from tikgen.ring.actors.envelope import Envelope
from tikgen.ring.actors.mailbox import Mailbox
from tikgen.ring.actors.waiting import ActorStop, Clock, Line, Waiters, left_of


class Room:
    """Those who wait for room in a queue.

    A switch of tasks for each message costs more than the message: so they are woken when the event
    loop has its next turn, by when whoever takes messages has taken all that it can.

    Attributes:
        waiters: those who wait.
        is_due: whether they are to be woken already.
    """

    __slots__ = ("_maxsize", "is_due", "waiters")

    def __init__(self, maxsize: int) -> None:
        self.waiters = Line()
        self.is_due = False
        self._maxsize = maxsize

    def freed(self, size: Callable[[], int]) -> None:
        """Take note that messages were taken out; somebody waits."""
        if not self.is_due:
            self.is_due = True
            asyncio.get_running_loop().call_soon(self._wake, size)

    def _wake(self, size: Callable[[], int]) -> None:
        self.is_due = False
        for _ in range(min(self._maxsize - size(), len(self.waiters.futures))):
            self.waiters.wake()


class Inbox(Mailbox):
    """The mailbox of an actor, and those who wait for messages in it, or for room.

    Attributes:
        paused: whether nothing is taken out for now.
        takers: tasks of the actor that wait for a message.
        senders: tasks that wait for room.
    """

    __slots__ = ("paused", "senders", "takers", "waiting_room")

    def __init__(self, maxsize: int, ageing: float | None) -> None:
        super().__init__(maxsize, ageing)
        self.paused = True
        self.takers = Waiters()
        self.waiting_room = Room(maxsize)
        self.senders = self.waiting_room.waiters

    def try_put(self, envelope: Envelope) -> bool:
        """Put an envelope if there is room and nobody waits for it; tell whether that was so."""
        if self.size + envelope.count > self.maxsize or self.senders.futures:
            return False
        band = self._bands.get(envelope.priority)
        if band is None:
            self.put(envelope)
        else:
            band.append(envelope)
            self.size += envelope.count
        if self.takers.futures and not self.paused:
            self.takers.wake()
        return True

    def room(self) -> int:
        """Return how many messages it can take."""
        return max(self.maxsize - self.size, 0)

    async def wait_for_room(self, check: Callable[[], None], timeout: Clock | None) -> bool:
        """Wait until there is room; tell whether there was some in time.

        Args:
            check: raises when waiting has become of no use.
            timeout: None for as long as it takes.
        """
        number = self.senders.number()
        is_first = True
        while self.size >= self.maxsize or (is_first and self.senders.futures):
            is_first = False
            woken = await self.senders.wait_at(number, left_of(timeout))
            check()
            if not woken and self.size >= self.maxsize:
                return False
        return True

    def taken(self) -> None:
        """Wake whoever waits for room, and the next taker of what is left; after taking."""
        if self.senders.futures:
            self.waiting_room.freed(self._size)
        if self.size and self.takers.futures and not self.paused:
            self.takers.wake()

    def _size(self) -> int:
        return self.size


class NoTakers(Waiters):
    """Ends whoever would wait."""

    __slots__ = ()

    def enter(self) -> asyncio.Future[bool]:
        """Raise :class:`ActorStop`."""
        raise ActorStop


class NoInbox(Inbox):
    """What a body is left with that is over: no message, and none will come."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(1, None)
        self.takers = NoTakers()


class Outbox:
    """What an actor sent and nobody has received yet: messages, lists and columns of messages."""

    __slots__ = ("_items", "maxsize", "receivers", "senders", "size", "waiting_room")

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self.size = 0
        self.receivers = Waiters()
        self.waiting_room = Room(maxsize)
        self.senders = self.waiting_room.waiters
        self._items: deque[Any] = deque()  # Messages, and blocks of them.

    def put(self, message: Any) -> None:
        """Put a message, whether there is room or not."""
        self._items.append(message)
        self.size += 1
        if self.receivers.futures:
            self.receivers.wake()

    def put_block(self, block: Any, count: int) -> None:
        """Put a list or columns of messages."""
        self._items.append(_Block(block, count))
        self.size += count
        if self.receivers.futures:
            self.receivers.wake()

    def take(self) -> Any:
        """Take the first message; there must be one."""
        item = self._items[0]
        self.size -= 1
        if type(item) is _Block:
            message = item.block[item.start]
            item.start += 1
            item.count -= 1
            if not item.count:
                self._items.popleft()
        else:
            message = item
            self._items.popleft()
        if self.receivers.futures or (self.senders.futures and not self.waiting_room.is_due):
            self._taken()
        return message

    def take_block(self, most: int) -> tuple[Any, int]:
        """Take a block, or single messages as a list, ``most`` at most; there must be one."""
        items = self._items
        if type(items[0]) is _Block:
            item = items[0]
            count = min(item.count, most)
            is_whole = count == item.count and not item.start
            found = item.block if is_whole else item.block[item.start : item.start + count]
            item.start += count
            item.count -= count
            if not item.count:
                items.popleft()
        else:
            found = []
            while items and len(found) < most and type(items[0]) is not _Block:
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
            self.waiting_room.freed(self._size)
        if self.size and self.receivers.futures:
            self.receivers.wake()

    def _size(self) -> int:
        return self.size


class _Block:
    __slots__ = ("block", "count", "start")

    def __init__(self, block: Any, count: int) -> None:
        self.block = block
        self.count = count
        self.start = 0

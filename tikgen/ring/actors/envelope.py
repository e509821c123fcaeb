"""What travels through a mailbox: a message, or a block of messages, and what is known of it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

# A deadline that is over, with the message counted as expired.
EXPIRED = -1


class Envelope(msgspec.Struct):
    """A message on its way to an actor.

    Attributes:
        message: the message; of a block, the first one that is left.
        priority: 0 to 255, higher goes first.
        sent: when it was sent, in nanoseconds of ``time.perf_counter_ns``.
        reply: what the sender waits for, None where nobody waits.
        deadline: when it is of no use any more, on the same clock; 0 for never.
        block: the messages of a block, a list or columns; None for a single message.
        count: how many messages are left in it.
        start: how many of the block are gone.
        key: under which its reply finds it.
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


class Failure:
    """Stands in a queue of replies for one that never came; whoever receives it gets the error."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def raised(error: BaseException) -> BaseException:
    """Return an error that may be raised in several places: a copy with the same cause.

    Raising one object twice would lengthen its traceback each time.
    """
    made = error.__class__.__new__(error.__class__)
    made.__dict__.update(error.__dict__)
    made.args = error.args
    made.__cause__ = error.__cause__
    return made


def settle(reply: asyncio.Future[Any], error: BaseException) -> bool:
    """Give an error to whoever waits for a reply; tell whether somebody did."""
    if reply.done():
        return False
    reply.set_exception(raised(error))
    reply.exception()  # Whoever gave up meanwhile shall not be told of it by the event loop.
    return True

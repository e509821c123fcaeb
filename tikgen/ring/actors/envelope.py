"""A message, or a block of messages, in a queue, with its metadata."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

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

"""The messages in a ring, and the distribution of their replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tikgen.ring.actors.context import KernelContext
from tikgen.ring.actors.queues import Envelope, Failure, settle
from tikgen.ring.messages.columns import Array, Column, Columns, unpack


@dataclass
class Flight:
    """Messages of one envelope that are in the ring.

    Attributes:
        envelope: the envelope.
        count: number of messages without a reply so far.
        messages: the messages, if they are objects; None for columns.
        is_last: whether they are the last ones of the envelope.
        ctx: the run of the body; None after it has failed: their replies are discarded.
        is_direct: whether it is a request that bypassed the queue.
        failure: takes the place of a reply; its message is not in the ring.
    """

    envelope: Envelope
    count: int
    messages: list[Any] | None
    is_last: bool = True
    ctx: KernelContext | None = None
    is_direct: bool = False
    failure: Failure | None = None


class Flights:
    """The messages in a ring, in the order in which their replies come.

    Args:
        outputs: the columns of a reply.
        output_type: the class of replies.
    """

    def __init__(self, outputs: tuple[Column, ...], output_type: type[Any]) -> None:
        self._outputs = outputs
        self._output_type = output_type
        self._flying: deque[Flight] = deque()

    def __bool__(self) -> bool:
        return bool(self._flying)

    def add(self, flight: Flight) -> None:
        """Record messages that were put into the ring."""
        self._flying.append(flight)

    @property
    def has_failure_first(self) -> bool:
        """Return whether a failure comes before the next reply."""
        return bool(self._flying) and self._flying[0].failure is not None

    def abandon(self, error: Exception) -> None:
        """Discard all replies to come; requests that bypassed the queue get an error."""
        self._flying = deque(flight for flight in self._flying if flight.failure is None)
        for flight in self._flying:
            if flight.is_direct and flight.ctx is not None and flight.envelope.reply is not None:
                settle(flight.envelope.reply, error)
            flight.ctx = None

    def clear(self) -> None:
        """Remove everything: the ring is gone."""
        self._flying.clear()

    def land(self, columns: Mapping[str, Array], count: int) -> list[tuple[Any, int]]:
        """Give replies to their callers; return the others as blocks for the output queue."""
        blocks: list[tuple[Any, int]] = []
        place = 0
        while self._flying and (place < count or self.has_failure_first):
            flight = self._flying[0]
            here = min(flight.count, count - place)
            if flight.failure is not None:
                _append(blocks, [flight.failure], 1)
            elif flight.ctx is not None:
                block = self._block(flight, columns, place, here)
                if flight.envelope.reply is None:
                    _append(blocks, block, here)
                else:
                    self._answer(flight, flight.ctx, block[0])
            place += here
            flight.count -= here
            if not flight.count:
                self._flying.popleft()
                if flight.ctx is not None and flight.is_last and not flight.is_direct:
                    flight.ctx.let_go(flight.envelope)
        return blocks

    def _block(self, flight: Flight, columns: Mapping[str, Array], place: int, count: int) -> Any:
        if flight.messages is None:
            arrays = {name: array[place : place + count] for name, array in columns.items()}
            return Columns(arrays, self._outputs, self._output_type, count)
        asked = [message.message_id for message in flight.messages[:count]]
        del flight.messages[:count]
        return unpack(columns, self._outputs, self._output_type, place, count, correlations=asked)

    @staticmethod
    def _answer(flight: Flight, ctx: KernelContext, answer: Any) -> None:
        reply = flight.envelope.reply
        assert reply is not None
        if not flight.is_direct:
            ctx.answer_held(flight.envelope, answer)
        elif reply.done():
            ctx.telemetry.late_replies += 1
        else:
            reply.set_result(answer)


def _append(blocks: list[tuple[Any, int]], block: Any, count: int) -> None:
    """Append a block, or extend the last one by messages."""
    if isinstance(block, list) and blocks and isinstance(blocks[-1][0], list):
        before, size = blocks[-1]
        before.extend(block)
        blocks[-1] = before, size + count
    else:
        blocks.append((block, count))

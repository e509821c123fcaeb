"""Which messages are in a ring, and what becomes of the replies that come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tikgen.ring.actors.envelope import Envelope
from tikgen.ring.messages.blocks import Array, Columns
from tikgen.ring.messages.columns import Column, unpack

if TYPE_CHECKING:
    from tikgen.ring.actors.context import KernelContext


@dataclass
class Flight:
    """Messages of one envelope that are in the ring.

    Attributes:
        envelope: where they came from.
        count: how many of them have no reply yet.
        messages: the messages, if they are objects; None for columns.
        is_last: whether none of the envelope comes after them.
        ctx: who holds the envelope; None for a request that did not travel through the queue.
    """

    envelope: Envelope
    count: int
    messages: list[Any] | None
    is_last: bool = True
    ctx: KernelContext | None = None


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
        """Note messages that were put into the ring."""
        self._flying.append(flight)

    def give_up(self) -> Iterator[Flight]:
        """Take out everything: no reply will come."""
        while self._flying:
            yield self._flying.popleft()

    def land(self, columns: Mapping[str, Array], count: int) -> list[tuple[Any, int]]:
        """Hand replies to whoever waits for them; return the others as blocks for the queue."""
        blocks: list[tuple[Any, int]] = []
        place = 0
        while place < count:
            flight = self._flying[0]
            here = min(flight.count, count - place)
            block = self._block(flight, columns, place, here)
            place += here
            flight.count -= here
            if flight.envelope.reply is None:
                if isinstance(block, list) and blocks and isinstance(blocks[-1][0], list):
                    blocks[-1] = (blocks[-1][0] + block, blocks[-1][1] + here)
                else:
                    blocks.append((block, here))
            if not flight.count:
                self._flying.popleft()
                self._finish(flight, block)
        return blocks

    def _block(self, flight: Flight, columns: Mapping[str, Array], place: int, count: int) -> Any:
        if flight.messages is None:
            arrays = {name: array[place : place + count] for name, array in columns.items()}
            return Columns(arrays, self._outputs, self._output_type, count)
        asked = [message.message_id for message in flight.messages[:count]]
        del flight.messages[:count]
        return unpack(columns, self._outputs, self._output_type, place, count, correlations=asked)

    @staticmethod
    def _finish(flight: Flight, block: Any) -> None:
        envelope, ctx = flight.envelope, flight.ctx
        if envelope.reply is not None:
            if ctx is not None:
                ctx.answer_held(envelope, block[0])
            elif not envelope.reply.done():
                envelope.reply.set_result(block[0])
        if ctx is not None and flight.is_last:
            ctx.let_go(envelope)

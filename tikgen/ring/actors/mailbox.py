"""A bounded queue with priorities: first in, first out within one, and none starves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from tikgen.ring.actors.envelope import Envelope

# A message that has waited so long counts as one of the next higher priority.
AGEING = 0.01


class Mailbox:
    """Envelopes by priority.

    The next one is that with the highest priority, where a priority rises by one for every
    ``ageing`` seconds of waiting. Since all of them age alike, the oldest of each priority is
    its first, and only these have to be compared.

    Args:
        maxsize: messages that it is to hold; whoever puts one asks :attr:`is_full` first.
        ageing: seconds; None for strict priorities.

    Attributes:
        size: messages that it holds.
        only: the band of the one priority that there is, None where there are several.
    """

    __slots__ = ("_ageing", "_bands", "maxsize", "only", "size")

    def __init__(self, maxsize: int, ageing: float | None = AGEING) -> None:
        self.maxsize = maxsize
        self.size = 0
        # Without ageing a priority outweighs any time.
        self._ageing = round(ageing * 1e9) if ageing is not None else 1 << 62
        self.only: deque[Envelope] | None = deque()  # The band, where there is but one.
        self._bands: dict[int, deque[Envelope]] = {128: self.only}

    @property
    def is_full(self) -> bool:
        """Tell whether it holds as many messages as it may."""
        return self.size >= self.maxsize

    def put(self, envelope: Envelope) -> None:
        """Put an envelope behind those of its priority."""
        band = self._bands.get(envelope.priority)
        if band is None:
            band = self._bands[envelope.priority] = deque()
            self.only = None
        band.append(envelope)
        self.size += envelope.count

    def pop(self) -> Envelope:
        """Take the next message; there must be one."""
        if (only := self.only) is not None and only[0].block is None:
            self.size -= 1
            return only.popleft()
        return self._take_first(*self._next_band())

    def pop_block(self, most: int) -> Envelope:
        """Take the next envelope, of a list so many messages at most; there must be one.

        Columns are taken whole: a kernel takes them in one launch, however many they are.
        """
        priority, band = self._next_band()
        envelope = band[0]
        if envelope.count > most and isinstance(envelope.block, list):
            taken = _part(envelope, most)
            envelope.start += most
            envelope.count -= most
        else:
            taken = band.popleft()
            self._leave(priority, band)
        self.size -= taken.count
        return taken

    def pop_oldest(self) -> Envelope:
        """Take the message that has waited longest, whatever its priority; there must be one."""
        bands = [item for item in self._bands.items() if item[1]]
        return self._take_first(*min(bands, key=lambda item: item[1][0].sent))

    def drain(self) -> Iterator[Envelope]:
        """Take everything, in order, as it was put."""
        while self.size:
            yield self.pop_block(self.size)

    def _take_first(self, priority: int, band: deque[Envelope]) -> Envelope:
        """Take the first message of a band."""
        envelope = band[0]
        self.size -= 1
        if envelope.block is None:
            band.popleft()
        else:
            envelope = self._first_of(envelope, band)
        self._leave(priority, band)
        return envelope

    def _leave(self, priority: int, band: deque[Envelope]) -> None:
        """Forget a band that became empty, unless it is the only one."""
        if not band and len(self._bands) > 1:
            del self._bands[priority]
            if len(self._bands) == 1:
                (self.only,) = self._bands.values()

    def _next_band(self) -> tuple[int, deque[Envelope]]:
        for priority in [p for p, band in self._bands.items() if not band]:
            self._leave(priority, self._bands[priority])
        ageing = self._ageing
        return min(self._bands.items(), key=lambda item: item[1][0].sent - item[0] * ageing)

    @staticmethod
    def _first_of(block: Envelope, band: deque[Envelope]) -> Envelope:
        """Take the first message off a block that stands first in its band."""
        taken = _part(block, 1)
        taken.message, taken.block = block.block[block.start], None
        taken.start = 0
        block.start += 1
        block.count -= 1
        if not block.count:
            band.popleft()
        return taken


def _part(envelope: Envelope, count: int) -> Envelope:
    """Return an envelope with the first messages that are left of a block."""
    part: Any = envelope.block[envelope.start : envelope.start + count]
    return Envelope(None, envelope.priority, envelope.sent, None, envelope.deadline, part, count)

"""Barriers: places where a number of actors wait for each other."""

from __future__ import annotations

import asyncio

from tikgen.ring.actors.waiting import Waiters, clock, left_of
from tikgen.ring.errors import BarrierBroken, InvalidConfigurationError, WrongLoop


class Barrier:
    """A place where ``parties`` of actors wait until all of them are there; then it begins anew.

    It breaks when one of them gives up waiting, or an actor ends that has waited at it; those who
    wait are told, and whoever comes later, until :meth:`reset`. It belongs to the event loop in
    which it is first used.
    """

    def __init__(self, name: str, parties: int) -> None:
        if isinstance(parties, bool) or not isinstance(parties, int) or parties < 1:
            raise InvalidConfigurationError("parties", parties, "takes a whole number from 1")
        self.name = name
        self.parties = parties
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters = Waiters()
        self._arrived = self._round = 0
        self._broken = ""
        self._aborted = -1  # The last round that broke.
        self._members: set[str] = set()

    @property
    def waiting(self) -> int:
        """Return how many wait."""
        return self._arrived

    @property
    def is_broken(self) -> bool:
        """Tell whether it is broken."""
        return bool(self._broken)

    async def wait(self, timeout: float | None = None, member: str = "") -> int:
        """Wait for the others; return how many had come before.

        Args:
            timeout: seconds; None for as long as it takes.
            member: the actor that waits, with whose end the barrier breaks.

        Raises:
            BarrierBroken: if it is broken, or breaks.
            WrongLoop: if it belongs to another event loop.
        """
        time_left = clock(timeout)
        self._check_loop("wait at")
        if self._broken:
            raise BarrierBroken(self.name, self._broken)
        if member:
            self._members.add(member)
        arrived, this_round = self._arrived, self._round
        self._arrived += 1
        if self._arrived == self.parties:
            self._begin_round()
            return arrived
        try:
            is_woken = await self._waiters.wait(left_of(time_left))
        except BaseException:
            if self._round == this_round:
                self.abort("one gave up")
            raise
        if self._round == this_round and not is_woken:
            self.abort(f"one waited {timeout:g} s in vain")
        if self._round == this_round or this_round == self._aborted:
            raise BarrierBroken(self.name, self._broken or "it was reset")
        return arrived

    def abort(self, reason: str) -> None:
        """Break it: whoever waits gets :class:`BarrierBroken`."""
        self._check_loop("break")
        self._broken = reason
        self._arrived = 0
        self._aborted = self._round
        self._waiters.wake_all()

    def reset(self) -> None:
        """Mend it, once it is broken; whoever waits is told that it broke."""
        self._check_loop("reset")
        if self._arrived:
            self.abort("it was reset")
        self._round += 1
        self._broken = ""
        self._members.clear()

    def leave(self, member: str) -> None:
        """Break it if an actor that ends has waited at it."""
        if member in self._members and not self._broken:
            self.abort(f"actor {member!r} ended")

    def _check_loop(self, operation: str) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:  # None runs in this thread.
            running = None
        self._loop = self._loop or running
        if self._loop is not running:
            raise WrongLoop("", f"{operation} the barrier {self.name!r}")

    def _begin_round(self) -> None:
        self._round += 1
        self._arrived = 0
        self._waiters.wake_all()

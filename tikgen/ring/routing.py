"""The actors of a runtime by name, and what connects them: topics, connections, barriers."""

from __future__ import annotations

import asyncio
import functools
from asyncio import get_running_loop
from collections.abc import Iterable
from typing import NoReturn

from tikgen.ring.actors.actor import RingKernel
from tikgen.ring.actors.waiting import Waiters, clock, left_of
from tikgen.ring.errors import (
    BarrierBroken,
    InvalidConfigurationError,
    KernelNotFoundError,
    RuntimeClosed,
    WrongLoop,
)


class Routing:
    """The part of a runtime that finds actors.

    Attributes:
        loop: the event loop; None before the start.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._is_over = False
        self._actors: dict[str, RingKernel] = {}
        self._topics = Topics()
        self._barriers: dict[str, Barrier] = {}

    @property
    def is_active(self) -> bool:
        """Return whether the runtime was started and not shut down."""
        return self.loop is not None and not self._is_over

    @property
    def kernel_ids(self) -> list[str]:
        """Return the names of its actors."""
        return list(self._actors)

    def connect(self, source: str, target: str | None) -> None:
        """Send every reply of an actor that answers no request to another actor.

        Args:
            source: the actor whose replies they are.
            target: the actor that gets them; None for the output queue.

        Raises:
            KernelNotFoundError: if there is no such actor.
            InvalidConfigurationError: if the connections would form a circle.
        """
        self._check_loop(source, "connect it")
        mailbox, at = self._known(source).mailbox, target
        while at is not None:
            if at == source:
                raise InvalidConfigurationError("target", target, "replies would go in a circle")
            at = self._known(at).mailbox.outlet
        mailbox.outlet = target
        mailbox.outbox.senders.wake_all()

    def subscribe(self, pattern: str, kernel_id: str) -> None:
        """Subscribe an actor to topics: ``"sensors.*.wind"``, ``"log.**"``."""
        self._check_loop(kernel_id, "subscribe it")
        self._known(kernel_id)
        self._topics.subscribe(pattern, kernel_id)

    def unsubscribe(self, pattern: str, kernel_id: str) -> None:
        """Remove a subscription."""
        self._check_loop(kernel_id, "unsubscribe it")
        if not isinstance(pattern, str):
            raise InvalidConfigurationError("pattern", pattern, "takes a pattern of a subscription")
        self._topics.unsubscribe(pattern, kernel_id)

    def barrier(self, name: str, parties: int) -> Barrier:
        """Return the barrier of a name, which is made at the first call.

        Raises:
            InvalidConfigurationError: if it was made for another number of parties.
        """
        self._check_active("", f"wait at the barrier {name!r}")
        found = self._barriers.get(name)
        if found is None:
            found = self._barriers[name] = Barrier(name, parties)
        elif found.parties != parties:
            problem = f"the barrier {name!r} waits for {found.parties}"
            raise InvalidConfigurationError("parties", parties, problem)
        return found

    async def wait_at(self, name: str, parties: int, timeout: float | None, member: str) -> int:
        """Wait at a barrier, which breaks when the member ends; for actors."""
        return await self.barrier(name, parties).wait(timeout, member)

    def _known(self, kernel_id: str) -> RingKernel:
        actor = self._actors.get(kernel_id) if isinstance(kernel_id, str) else None
        if actor is None:
            raise KernelNotFoundError(kernel_id, self._actors)
        return actor

    def _actor(self, kernel_id: str, operation: str) -> RingKernel:
        actor = self._actors.get(kernel_id) if isinstance(kernel_id, str) else None
        if actor is None or get_running_loop() is not self.loop:
            self._refuse(kernel_id, operation)
        return actor

    def _refuse(self, kernel_id: str, operation: str) -> NoReturn:
        self._check_active(kernel_id, operation)
        raise KernelNotFoundError(kernel_id, self._actors)

    def _check_active(self, kernel_id: str, operation: str) -> None:
        """Raise unless the runtime is active, on the running event loop."""
        if not self.is_active:
            raise RuntimeClosed(operation, self._is_over)
        self._check_loop(kernel_id, operation)

    def _check_loop(self, kernel_id: str, operation: str) -> None:
        """Raise unless the runtime is on the running event loop, and has not ended."""
        if self._is_over and not self._actors:
            raise RuntimeClosed(operation, True)
        try:
            running = get_running_loop()
        except RuntimeError:  # None in this thread.
            running = None
        if running is not self.loop:
            raise WrongLoop(kernel_id, operation) if self.loop else RuntimeClosed(operation, False)


def in_order(actors: Iterable[RingKernel]) -> list[list[RingKernel]]:
    """Return actors in groups, in which each actor comes after all that send to it.

    Actors that send to each other in a circle form the last group, with all that come after them.
    """
    left = list(actors)
    groups = []
    while left:
        targets: set[str] = set().union(*(a.mailbox.targets for a in left if not a.termination))
        later = [actor for actor in left if actor.kernel_id in targets]
        if len(later) == len(left):
            later = []
        groups.append([a for a in left if not later or a.kernel_id not in targets])
        left = later
    return groups


class Topics:
    """The subscriptions of actors.

    A topic is a list of words separated by dots, such as ``sensors.roof.wind``. In a pattern ``*``
    matches one word, and ``**`` any number of words, including none.
    """

    def __init__(self) -> None:
        self._subscribers: dict[str, dict[str, None]] = {}
        self._found: dict[str, tuple[str, ...]] = {}

    def subscribe(self, pattern: str, kernel_id: str) -> None:
        """Subscribe an actor to all topics that match a pattern."""
        _check_topic(pattern, "pattern")
        self._subscribers.setdefault(pattern, {})[kernel_id] = None
        self._found.clear()

    def unsubscribe(self, pattern: str | None, kernel_id: str) -> None:
        """Remove a subscription or, without a pattern, all subscriptions of an actor."""
        for name in [pattern] if pattern is not None else list(self._subscribers):
            subscribers = self._subscribers.get(name, {})
            subscribers.pop(kernel_id, None)
            if not subscribers:
                self._subscribers.pop(name, None)
        self._found.clear()

    def subscribers(self, topic: str) -> tuple[str, ...]:
        """Return the subscribers of a topic, in the order of subscription."""
        found = self._found.get(topic) if isinstance(topic, str) else None
        if found is None:
            _check_topic(topic, "topic")
            words = tuple(topic.split("."))
            patterns = (p for p in self._subscribers if _matches(tuple(p.split(".")), words))
            found = tuple(dict.fromkeys(name for p in patterns for name in self._subscribers[p]))
            if len(self._found) < 10_000:  # There may be any number of topics.
                self._found[topic] = found
        return found


def _matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Return whether words match a pattern, in quadratic time at most."""

    @functools.cache
    def rest(place: int, word: int) -> bool:
        if place == len(pattern):
            return word == len(words)
        if pattern[place] == "**":
            return rest(place + 1, word) or (word < len(words) and rest(place, word + 1))
        is_match = word < len(words) and pattern[place] in ("*", words[word])
        return is_match and rest(place + 1, word + 1)

    return rest(0, 0)


def _check_topic(name: str, kind: str) -> None:
    words = name.split(".") if isinstance(name, str) else []
    allowed = ("*", "**") if kind == "pattern" else ()
    if not words or not all(w in allowed or (w and "*" not in w) for w in words) or len(words) > 64:
        wild = "; in a pattern * matches one word, ** any number" if kind == "pattern" else ""
        problem = f"takes at most 64 words separated by dots, as in 'a.b'{wild}"
        raise InvalidConfigurationError(kind, name, problem)


class Barrier:
    """Releases ``parties`` actors when all of them have arrived, and starts the next round.

    It breaks when one of them stops waiting, or a member ends; then all waiters and later arrivals
    get :class:`BarrierBroken`, until :meth:`reset`. It belongs to the event loop of its first use.
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
        """Return the number of waiters."""
        return self._arrived

    @property
    def is_broken(self) -> bool:
        """Return whether it is broken."""
        return bool(self._broken)

    async def wait(self, timeout: float | None = None, member: str = "") -> int:
        """Wait for the others; return how many had arrived before.

        Args:
            timeout: seconds; None for no limit.
            member: an actor whose end breaks the barrier.

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
            self._round += 1
            self._arrived = 0
            self._waiters.wake_all()
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
        """Break it: all waiters get :class:`BarrierBroken`."""
        self._check_loop("break")
        self._broken = reason
        self._arrived = 0
        self._aborted = self._round
        self._waiters.wake_all()

    def reset(self) -> None:
        """Make it usable again; current waiters get :class:`BarrierBroken`."""
        self._check_loop("reset")
        if self._arrived:
            self.abort("it was reset")
        self._round += 1
        self._broken = ""
        self._members.clear()

    def leave(self, member: str) -> None:
        """Break it if a member ends."""
        if member in self._members and not self._broken:
            self.abort(f"actor {member!r} ended")

    def _check_loop(self, operation: str) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:  # None in this thread.
            running = None
        self._loop = self._loop or running
        if self._loop is not running:
            raise WrongLoop("", f"{operation} the barrier {self.name!r}")

"""How messages find actors that are not named: broadcast, topics, connections, barriers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Iterable
from typing import Any

from tikgen.ring.actors.actor import RingKernel
from tikgen.ring.barriers import Barrier
from tikgen.ring.errors import InvalidConfigurationError, KernelNotFoundError


class Routing:
    """The part of a runtime that knows which actor gets what."""

    def __init__(self) -> None:
        self._actors: dict[str, RingKernel] = {}
        self._topics = Topics()
        self._barriers: dict[str, Barrier] = {}

    @property
    def is_active(self) -> bool:
        """Tell whether the runtime was started and not shut down."""
        raise NotImplementedError

    def _check_active(self, kernel_id: str, operation: str) -> None:
        """Raise unless the runtime is active, and of the event loop that runs."""
        raise NotImplementedError

    def _check_loop(self, kernel_id: str, operation: str) -> None:
        """Raise unless the runtime is of the event loop that runs, and has not ended."""
        raise NotImplementedError

    async def send(self, kernel_id: str, message: Any) -> bool:
        """Put a message into an actor's queue."""
        raise NotImplementedError

    async def broadcast(self, message: Any, kernel_ids: Iterable[str] | None = None) -> int:
        """Send a message to several actors; return how many took it.

        Args:
            message: of the input type of each.
            kernel_ids: which; None for all that take messages.

        Raises:
            RingError: what :meth:`send` raises for the first actor that does not take it, once all
                were tried; ``taken`` says how many took it.
        """
        self._check_loop("", "broadcast a message")
        if isinstance(kernel_ids, str) or not isinstance(kernel_ids, Iterable | None):
            raise InvalidConfigurationError("kernel_ids", kernel_ids, "takes several names")
        if kernel_ids is None:
            kernel_ids = [name for name, actor in self._actors.items() if actor.status.is_taking]
        names = list(kernel_ids)
        # An actor that sends to itself does so in its own task, where it is seen that it does.
        own = [name for name in names if self._is_current(name)]
        others = [name for name in names if name not in own]
        results = [await _result_of(self.send(name, message)) for name in own]
        sending = (self.send(name, message) for name in others)
        results += await asyncio.gather(*sending, return_exceptions=True)
        taken = sum(result for result in results if isinstance(result, bool))
        for result in results:
            if isinstance(result, BaseException):
                result.taken = taken  # type: ignore[attr-defined]
                raise result
        return taken

    def connect(self, source: str, target: str | None) -> None:
        """Have every reply of an actor that answers no request go on to another one.

        Args:
            source: the actor whose replies they are.
            target: the actor that gets them; None for the queue of replies again.

        Raises:
            KernelNotFoundError: if there is no such actor.
            InvalidConfigurationError: if they would go round in a circle.
        """
        self._check_loop(source, "connect it")
        actor, at = self._known(source), target
        while at is not None:
            if at == source:
                raise InvalidConfigurationError("target", target, "replies would go in a circle")
            at = self._known(at).mailbox.outlet
        actor.mailbox.outlet = target
        actor.mailbox.outbox.senders.wake_all()

    def subscribe(self, pattern: str, kernel_id: str) -> None:
        """Have an actor get the messages of topics: ``"sensors.*.wind"``, ``"log.**"``."""
        self._check_loop(kernel_id, "subscribe it")
        self._known(kernel_id)
        self._topics.subscribe(pattern, kernel_id)

    def unsubscribe(self, pattern: str, kernel_id: str) -> None:
        """Undo a subscription."""
        self._check_loop(kernel_id, "unsubscribe it")
        if not isinstance(pattern, str):
            raise InvalidConfigurationError("pattern", pattern, "takes what was subscribed to")
        self._topics.unsubscribe(pattern, kernel_id)

    async def publish(self, topic: str, message: Any) -> int:
        """Send a message to every subscriber that takes messages; return how many took it.

        Raises what :meth:`broadcast` raises.
        """
        self._check_loop("", f"publish under {topic!r}")
        subscribers = self._topics.subscribers(topic)
        return await self.broadcast(
            message, [n for n in subscribers if self._known(n).status.is_taking]
        )

    def barrier(self, name: str, parties: int) -> Barrier:
        """Return the barrier of a name, made if there is none.

        Raises:
            InvalidConfigurationError: if it waits for another number.
        """
        self._check_active("", f"wait at the barrier {name!r}")
        found = self._barriers.get(name)
        if found is None:
            found = self._barriers[name] = Barrier(name, parties)
        elif found.parties != parties:
            raise InvalidConfigurationError(
                "parties", parties, f"the barrier {name!r} waits for {found.parties}"
            )
        return found

    async def wait_at(self, name: str, parties: int, timeout: float | None, member: str) -> int:
        """Wait at a barrier, which breaks when the member ends; for actors."""
        return await self.barrier(name, parties).wait(timeout, member)

    def _is_current(self, kernel_id: str) -> bool:
        actor = self._actors.get(kernel_id) if isinstance(kernel_id, str) else None
        return actor is not None and actor.status.is_current()

    def _known(self, kernel_id: str) -> RingKernel:
        actor = self._actors.get(kernel_id) if isinstance(kernel_id, str) else None
        if actor is None:
            raise KernelNotFoundError(kernel_id, self._actors)
        return actor


async def _result_of(sending: Awaitable[bool]) -> bool | BaseException:
    try:
        return await sending
    except Exception as error:
        return error


def in_order(actors: Iterable[RingKernel]) -> list[list[RingKernel]]:
    """Return actors in groups, each actor behind all that send something to it.

    Those that send to each other in a circle are one group, with all that are behind them.
    """
    left = list(actors)
    groups = []
    while left:
        targets: set[str] = set().union(*(a.mailbox.targets for a in left if a.termination is None))
        behind = [actor for actor in left if actor.kernel_id in targets]
        if len(behind) == len(left):
            behind = []
        groups.append([a for a in left if not behind or a.kernel_id not in targets])
        left = behind
    return groups


class Topics:
    """Who subscribed to what.

    A topic is words with dots between them, such as ``sensors.roof.wind``. In a pattern ``*``
    stands for one word, and ``**`` for any number of them, none included.
    """

    def __init__(self) -> None:
        self._subscribers: dict[str, dict[str, None]] = {}
        self._found: dict[str, tuple[str, ...]] = {}

    def subscribe(self, pattern: str, kernel_id: str) -> None:
        """Have messages of all topics that match go to an actor, each of them once."""
        _check(pattern, "pattern")
        self._subscribers.setdefault(pattern, {})[kernel_id] = None
        self._found.clear()

    def unsubscribe(self, pattern: str | None, kernel_id: str) -> None:
        """Undo a subscription, or, without a pattern, all of an actor."""
        for name in [pattern] if pattern is not None else list(self._subscribers):
            subscribers = self._subscribers.get(name, {})
            subscribers.pop(kernel_id, None)
            if not subscribers:
                self._subscribers.pop(name, None)
        self._found.clear()

    def subscribers(self, topic: str) -> tuple[str, ...]:
        """Return the actors that get a message of a topic, in the order of subscription."""
        found = self._found.get(topic) if isinstance(topic, str) else None
        if found is None:
            _check(topic, "topic")
            words = tuple(topic.split("."))
            matching = [
                subscribers
                for pattern, subscribers in self._subscribers.items()
                if _matches(tuple(pattern.split(".")), words)
            ]
            found = tuple(dict.fromkeys(name for names in matching for name in names))
            if len(self._found) < 10_000:  # Topics may be made up without end.
                self._found[topic] = found
        return found


def _matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Tell whether words match a pattern.

    Each word is compared with each place of the pattern once at most, however many ``**`` it has.
    """

    @functools.cache
    def rest(place: int, word: int) -> bool:
        if place == len(pattern):
            return word == len(words)
        if pattern[place] == "**":
            return rest(place + 1, word) or (word < len(words) and rest(place, word + 1))
        is_match = word < len(words) and pattern[place] in ("*", words[word])
        return is_match and rest(place + 1, word + 1)

    return rest(0, 0)


def _check(name: str, kind: str) -> None:
    is_text = isinstance(name, str)
    words = name.split(".") if is_text else []
    allowed = ("*", "**") if kind == "pattern" else ()
    if not words or not all(w in allowed or (w and "*" not in w) for w in words) or len(words) > 64:
        wild = "; a word may be * for any one, ** for any number" if kind == "pattern" else ""
        raise InvalidConfigurationError(
            kind, name, f"takes at most 64 words with dots between them, as in 'a.b'{wild}"
        )

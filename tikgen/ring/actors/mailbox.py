"""The mailbox of an actor: how messages get in and replies out, and what full queues do."""

from __future__ import annotations

import asyncio
import functools
import math
import time
from typing import Any

from tikgen.ring.actors.admission import Duplicates, TypeRule
from tikgen.ring.actors.queues import EXPIRED, Envelope, Failure, Inbox, Outbox, raised, settle
from tikgen.ring.actors.status import Status, System
from tikgen.ring.actors.waiting import ActorStop, Clock, clock, left_of
from tikgen.ring.definition import Definition
from tikgen.ring.errors import (
    DeadlineExceeded,
    InvalidConfigurationError,
    MessageDropped,
    QueueFullError,
    QueueTimeoutError,
)

_MOST_CLOSED = 1024


class Mailbox:
    """The two queues of an actor, with their policies.

    Attributes:
        kernel_id: name of the actor.
        status: its state.
        system: the runtime to which it belongs.
        telemetry: its counters.
        inbox: messages that it is to handle.
        outbox: its replies that answer no request.
        outlet: the actor that gets its replies; None for the outbox.
        duplicates: the ids of its last messages; None if repeated messages are handled.
        dropped: messages that were discarded at its end.
        closed: the last requests that were answered or discarded; later replies to them go nowhere.
    """

    def __init__(self, definition: Definition, status: Status, system: System) -> None:
        config = definition.config
        self.kernel_id = config.kernel_id
        self.status = status
        self.system = system
        self._policy = config.backpressure
        self.inbox = inbox = Inbox(config.input_queue_size, config.ageing)
        self.outbox = Outbox(config.output_queue_size)
        self.outlet: str | None = None
        self.telemetry = system.collector.register_kernel(config.kernel_id, lambda: inbox.size)
        self.duplicates = Duplicates(config.deduplicate) if config.deduplicate else None
        self.dropped: list[Any] = []
        self.closed: dict[int, None] = {}
        self._targets: set[str] = set()
        taken = TypeRule(definition.input_type, status, "the input queue")
        self.input_checkers, self.check_message = taken.checkers, taken.check
        self.check_messages = taken.check_all
        sent = TypeRule(definition.output_type, status, "ctx.send")
        self.output_checkers, self.check_reply = sent.checkers, sent.check
        self.check_replies = sent.check_all

    # Messages.

    def envelope(
        self,
        message: Any,
        reply: asyncio.Future[Any] | None = None,
        deadline: float | None = None,
    ) -> Envelope:
        """Return the envelope of a message, checked."""
        self.status.check_taking()
        self.check_message(message)
        now = time.perf_counter_ns()
        priority = getattr(message, "priority", 128)
        return Envelope(message, priority, now, reply, expiry(deadline, now))

    async def put(self, envelope: Envelope, timeout: float | None = None) -> bool:
        """Put an envelope into the inbox, as the policy says; return whether it was put."""
        inbox, policy, telemetry = self.inbox, self._policy, self.telemetry
        telemetry.messages_received += 1
        if inbox.try_put(envelope):
            return True
        if policy == "drop_newest":
            self.discard(envelope, policy)
            await asyncio.sleep(0)
            return False
        if policy == "drop_oldest":
            self.discard(inbox.pop_oldest(), policy)
        else:
            await self._wait_for_room(envelope, clock(timeout))
            if envelope.reply is not None and envelope.reply.done():
                telemetry.messages_rejected += 1
                inbox.senders.wake()  # The room is for the next one.
                return False
        inbox.put(envelope)
        if policy == "drop_oldest":
            await asyncio.sleep(0)  # An endless sender must not starve the actor.
        return True

    async def put_block(self, envelope: Envelope, timeout: float | None = None) -> int:
        """Put a block into the inbox, as the policy says; return how many messages were put."""
        inbox, policy = self.inbox, self._policy
        taken = 0
        time_left = clock(timeout)
        self.telemetry.messages_received += envelope.count
        must_wait = policy == "block" and bool(inbox.senders.futures)
        while True:
            if policy == "drop_oldest":
                while inbox.size and inbox.room() < min(envelope.count, inbox.maxsize):
                    self.discard(inbox.pop_oldest(), policy)
            count = 0 if must_wait else min(inbox.room(), envelope.count)
            must_wait = False
            if count:
                inbox.put(envelope.first(count))
                envelope.skip(count)
                taken += count
            if not envelope.count:
                return taken
            if policy == "drop_newest":
                self.discard(envelope, policy)
                return taken
            if policy != "drop_oldest":
                try:
                    await self._wait_for_room(envelope, time_left)
                except BaseException as error:
                    error.taken = taken  # type: ignore[attr-defined]
                    raise

    def check_room(self) -> None:
        """Raise :class:`QueueFullError` if the actor would wait for room in its own queue."""
        if self._policy == "block" and (self.inbox.is_full or self.inbox.senders.futures):
            raise self._full(by_itself=True)

    def _full(self, by_itself: bool = False) -> QueueFullError:
        name = self.status.state.name
        return QueueFullError(self.kernel_id, self.inbox.maxsize, name, by_itself=by_itself)

    async def _wait_for_room(self, envelope: Envelope, time_left: Clock | None) -> None:
        """Wait for room under the policy ``block``; raise under ``reject``."""
        try:
            if self._policy == "reject":
                raise self._full()
            if self.status.is_current():
                raise self._full(by_itself=True)
            if not await self.inbox.wait_for_room(self.status.check_taking, time_left):
                raise self._late(time_left, "waiting for room in its input queue")
        except BaseException:
            self.telemetry.messages_rejected += envelope.count
            raise

    def _late(self, waited: Clock | None, operation: str) -> QueueTimeoutError:
        assert waited is not None
        name = self.status.state.name
        return QueueTimeoutError(self.kernel_id, waited.seconds, operation, name)

    def expire(self, envelope: Envelope) -> None:
        """Count a message as expired, and settle its reply."""
        self.telemetry.messages_expired += envelope.count
        self.allow_again(envelope)
        seconds = (envelope.deadline - envelope.sent) * 1e-9
        envelope.deadline = EXPIRED
        if envelope.reply is not None:
            what, state = "waiting to be handled", self.status.state.name
            settle(envelope.reply, DeadlineExceeded(self.kernel_id, seconds, what, state))

    def discard(self, envelope: Envelope, reason: str) -> None:
        """Count a message as dropped, and settle its reply."""
        if envelope.deadline == EXPIRED:  # It is counted.
            return
        self.telemetry.record_drop(reason, envelope.count)
        if envelope.reply is not None:
            settle(envelope.reply, MessageDropped(self.kernel_id, reason))
        self.allow_again(envelope)

    def discard_inbox(self, reason: str, error: Exception | None = None) -> None:
        """Discard every queued message; requests get an error."""
        for envelope in list(self.inbox.drain()):
            left = envelope.left()
            self.dropped += left if isinstance(left, list) else [left]
            if error is not None and envelope.reply is not None:
                settle(envelope.reply, error)
            self.discard(envelope, reason)

    def allow_again(self, envelope: Envelope) -> None:
        """Accept messages that were not handled once more, although repeated ones are refused."""
        if self.duplicates is not None:
            for message in envelope.left():
                self.duplicates.discard(message)

    # Replies.

    async def put_out(self, reply: Any, count: int = 0) -> None:
        """Put a reply, or a block of ``count``, into the outbox, or send it on."""
        keep = functools.partial(self.outbox.put_block, count=count) if count else self.outbox.put
        try:
            await self._wait_for_room_out()
            if self.outlet is None:
                keep(reply)  # A block may be larger than the queue.
            elif count:
                await self.system.send_many(self.outlet, reply)
            else:
                await self.system.send(self.outlet, reply)
        except asyncio.CancelledError as stop:
            if self.status.is_ending and not isinstance(stop, ActorStop):
                keep(reply)  # It is reported as not received.
            raise

    async def _wait_for_room_out(self) -> None:
        """Wait until a reply is received, unless the actor ends: then none may be."""
        outbox = self.outbox
        number = outbox.senders.number() if outbox.size >= outbox.maxsize else 0
        while self.outlet is None and outbox.size >= outbox.maxsize:
            if self.status.is_ending:
                await asyncio.sleep(0)
                if outbox.size < 2 * outbox.maxsize + self.inbox.maxsize:
                    return
                raise ActorStop  # The body sends without end.
            await outbox.senders.wait_at(number)

    async def next_reply(self, timeout: float | None) -> Any:
        """Take the next reply out of the outbox."""
        await self._wait_for_reply(timeout)
        return opened(self.outbox.take())

    async def next_replies(self, most: int, timeout: float | None) -> Any:
        """Take what is in the outbox: a list, or the columns of a block."""
        await self._wait_for_reply(timeout)
        block, _ = self.outbox.take_block(most)
        if isinstance(block, list) and Failure in set(map(type, block)):
            return [raised(m.error) if type(m) is Failure else m for m in block]
        return block

    async def _wait_for_reply(self, timeout: float | None) -> None:
        outbox = self.outbox
        time_left = clock(timeout)
        while not outbox.size:
            self.status.check_replying()
            if not await outbox.receivers.wait(left_of(time_left)) and not outbox.size:
                raise self._late(time_left, "waiting for a reply")

    # Other actors, and requests that are over.

    def note_target(self, kernel_id: str) -> None:
        """Record an actor to which the body sends messages: it is to end later."""
        if isinstance(kernel_id, str) and len(self._targets) < _MOST_CLOSED:
            self._targets.add(kernel_id)

    @property
    def targets(self) -> set[str]:
        """Return the actors to which this one sends messages."""
        return {*self._targets, self.outlet or self.kernel_id} - {self.kernel_id}

    def close_request(self, key: int) -> None:
        """Record that a request was answered or discarded."""
        closed = self.closed
        closed[key] = None
        if len(closed) > _MOST_CLOSED:
            del closed[next(iter(closed))]


def opened(message: Any) -> Any:
    """Return a reply from an outbox, or raise the error in its place."""
    if type(message) is Failure:
        raise raised(message.error)
    return message


def expiry(deadline: float | None, now: int) -> int:
    """Return when a deadline of so many seconds expires, in nanoseconds; 0 for never."""
    if deadline is None:
        return 0
    is_number = isinstance(deadline, int | float) and not isinstance(deadline, bool)
    if not is_number or math.isnan(deadline):
        raise InvalidConfigurationError("deadline", deadline, "takes seconds from now, or None")
    return now + round(max(deadline, 0.0) * 1e9) if deadline < 1e9 else 0

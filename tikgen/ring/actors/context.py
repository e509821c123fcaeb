"""What the body of an actor works with: its messages, its replies, and the other actors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, NoReturn

from tikgen.ring.actors.mailbox import Mailbox
from tikgen.ring.actors.open_requests import OpenRequests, key_of
from tikgen.ring.actors.queues import ClosedInbox, Envelope, Failure, Inbox, settle
from tikgen.ring.actors.waiting import ActorStop, Clock, clock, left_of
from tikgen.ring.errors import (
    InvalidConfigurationError,
    KernelError,
    QueueTimeoutError,
    ReplyError,
    RingError,
)

_now = time.perf_counter_ns
# How often a body may wait with a time-out after its end was requested.
_MOST_LEFT = 100


class KernelContext:
    """The context of one run of an actor's body.

    Attributes:
        kernel_id: name of the actor.
        telemetry: its counters.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self.kernel_id = mailbox.kernel_id
        self.telemetry = mailbox.telemetry
        self._mailbox = mailbox
        self._status = mailbox.status
        self._record = mailbox.telemetry.latencies.record
        self._inbox: Inbox = mailbox.inbox
        self.requests = OpenRequests(mailbox)
        self._open = self.requests.by_key
        # The message that was received last, and what an engine took and has not handled yet.
        self.in_hand: Envelope | None = None
        self.held: list[Envelope] = []
        self._is_over = False
        self._is_nudged = False
        # Whether the body asks for its end by itself, and how many more waits it has.
        self._looks_for_end = False
        self._times_left = _MOST_LEFT
        self.last_timeout: QueueTimeoutError | None = None

    @property
    def should_terminate(self) -> bool:
        """Return whether the body is to return: the actor ends, and no message is left for it."""
        is_so = (self._status.is_ending or self._is_over) and not self._inbox.size
        self._looks_for_end = not is_so
        return is_so

    @property
    def is_active(self) -> bool:
        """Return whether the actor is active, and not paused."""
        return not self._inbox.paused

    async def wait_active(self) -> None:
        """Wait until the actor is active."""
        while self._inbox.paused and not self._status.is_ending:
            await self._inbox.takers.wait()

    # Receiving.

    async def receive(self, timeout: float | None = None) -> Any:
        """Return the next message; the one before counts as handled.

        When the actor ends and no message is left, the body ends here. With a time-out, in a body
        that reads :attr:`should_terminate`, the time-out expires at once instead.

        Args:
            timeout: seconds; None for no limit.

        Raises:
            QueueTimeoutError: if none came in time. A body that does not catch it is restarted.
        """
        inbox, in_hand = self._inbox, self.in_hand
        time_left = None if timeout is None else clock(timeout)
        if in_hand is not None:
            self.in_hand = None
            if in_hand.reply is None:
                self.telemetry.messages_processed += 1
                self._record(_now() - in_hand.sent)
        while True:
            if inbox.size and not inbox.paused:
                if (only := inbox.only) is not None and only[0].block is None:
                    inbox.size -= 1  # As pop does, without the call: every message comes here.
                    envelope = only.popleft()
                else:
                    envelope = inbox.pop()
                if inbox.takers.futures or (inbox.senders.futures and not inbox.senders.is_due):
                    inbox.taken()
                if (envelope.reply is not None or envelope.deadline) and not self.requests.admit(
                    envelope
                ):
                    continue
                self.in_hand = envelope
                return envelope.message
            if timeout is not None or self._status.is_ending:
                await self._wait(time_left)
                continue
            future = inbox.takers.enter()
            try:
                await future
            except BaseException:
                inbox.takers.leave(future)
                raise

    def __aiter__(self) -> KernelContext:
        """Return an iterator over the messages: ``async for message in ctx:``."""
        return self

    async def __anext__(self) -> Any:
        """Return the next message; stop when the actor ends and none is left."""
        try:
            return await self.receive()
        except ActorStop:
            if self._is_over:  # A task that an earlier run of the body has left.
                raise
            raise StopAsyncIteration from None

    async def receive_many(self, most: int = 4096, timeout: float | None = None) -> list[Any]:
        """Return up to ``most`` messages that are queued; wait for the first one.

        Replies to requests among them have to name the request.

        Args:
            most: greatest number of messages.
            timeout: seconds to wait for the first one; None for no limit.

        Raises:
            QueueTimeoutError: if none came in time.
        """
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidConfigurationError("most", most, "takes a whole number from 1")
        found: list[Any] = []
        for envelope in await self._take(most, timeout):
            if envelope.block is None:
                found.append(envelope.message)
            else:
                found += envelope.left()
            self._finish(envelope)
        return found

    async def _take(self, most: int, timeout: float | None) -> list[Envelope]:
        """Take queued envelopes; wait for the first one, or for :meth:`nudge`."""
        time_left = clock(timeout)
        self.finish_in_hand()
        while True:
            found = self._take_now(most)
            if found or self._is_nudged:
                self._is_nudged = False
                return found
            await self._wait(time_left)

    def _take_now(self, most: int) -> list[Envelope]:
        inbox = self._inbox
        found: list[Envelope] = []
        count = 0
        while count < most and inbox.size and not inbox.paused:
            envelope = inbox.pop_block(most - count)
            if (envelope.reply is not None or envelope.deadline) and not self.requests.admit(
                envelope
            ):
                continue
            found.append(envelope)
            count += envelope.count
        inbox.taken()
        return found

    async def _wait(self, timeout: Clock | None) -> None:
        """Wait until there may be a message."""
        if self._status.is_ending and not self._inbox.size:
            await asyncio.sleep(0)  # A body that catches everything must not stop the loop.
            if timeout is not None and self._looks_for_end and self._times_left:
                self._times_left -= 1
                self._time_out(timeout)
            raise ActorStop
        if not await self._inbox.takers.wait(left_of(timeout)):
            assert timeout is not None
            if self._inbox.size and not self._inbox.paused:
                return
            self._time_out(timeout)

    def _time_out(self, timeout: Clock) -> NoReturn:
        what, state = "waiting for a message", self._status.state.name
        self.last_timeout = QueueTimeoutError(self.kernel_id, timeout.seconds, what, state)
        raise self.last_timeout

    def finish_in_hand(self) -> None:
        """Count the message in hand as handled: the body has returned, or asks for more."""
        envelope, self.in_hand = self.in_hand, None
        if envelope is not None:
            self._finish(envelope)

    def _finish(self, envelope: Envelope) -> None:
        """Count a message as handled; a request is counted when it is answered."""
        if envelope.reply is None:
            latency = _now() - envelope.sent
            if envelope.count == 1:
                self.telemetry.record_message(latency)
            else:
                self.telemetry.record_messages(latency, envelope.count)

    # Replying.

    async def send(self, message: Any, *, to: Any = None) -> None:
        """Send a reply to the caller of its request, or to the output queue.

        It answers the request that its ``correlation_id`` names, or the given one; without either,
        the only open request. An error raised in a task that the body has started is also given to
        the callers whose requests the reply may answer.

        Args:
            message: the reply.
            to: the message that it answers.

        Raises:
            ReplyError: if several requests are open and it names none of them.
            TypeValidationError: if it is not of the actor's output type.
        """
        mailbox = self._mailbox
        try:
            check = mailbox.output_checkers.get(message.__class__)
            if check is None or check(message) is not None:
                mailbox.check_reply(message)
            envelope = self.requests.match(message, to, self.in_hand) if self._open else None
        except RingError as error:
            if not self._status.is_current():
                self.requests.fail_named(message, to, error)
            raise
        in_hand = self.in_hand
        if envelope is not None:
            self.requests.answer(envelope, message)
            if in_hand is envelope:
                self.in_hand = None
            return
        if mailbox.closed and self.requests.is_late(message, to):
            self.telemetry.late_replies += 1
            return
        if in_hand is not None and (to is None or to is in_hand.message):
            self.in_hand = None
            if in_hand.reply is None:
                self.telemetry.messages_processed += 1
                self._record(_now() - in_hand.sent)
        outbox = mailbox.outbox
        if mailbox.outlet is None and outbox.size < outbox.maxsize:
            outbox.put(message)
        else:
            await mailbox.put_out(message)

    async def send_many(self, messages: Iterable[Any]) -> None:
        """Send replies that answer no request to the output queue, or to the connected actor.

        Args:
            messages: the replies.

        Raises:
            TypeValidationError: if one is not of the actor's output type.
        """
        block = list(messages)
        if block:
            self._mailbox.check_replies(block)
            await self._mailbox.put_out(block, len(block))

    def decline(self, message: Any) -> None:
        """Leave a request without a reply; its caller gets :class:`ReplyError`."""
        envelope = self.requests.pop(key_of(message))
        if envelope is not None and envelope.reply is not None:
            settle(envelope.reply, ReplyError(self.kernel_id, "did not answer the request"))
            self.telemetry.record_message(_now() - envelope.sent)

    def is_request(self, message: Any) -> bool:
        """Return whether a caller waits for the reply to a message."""
        return key_of(message) in self._open

    # Other actors.

    async def tell(self, kernel_id: str, message: Any, **options: Any) -> bool:
        """Send a message to another actor; takes and returns what ``runtime.send`` does.

        Raises:
            QueueFullError: if an actor tells itself and has no room: it would wait forever.
        """
        if kernel_id == self.kernel_id:
            self._mailbox.check_room()
        self._mailbox.note_target(kernel_id)
        return await self._mailbox.system.send(kernel_id, message, **options)

    async def ask(self, kernel_id: str, message: Any, **options: Any) -> Any:
        """Return another actor's reply; takes what ``runtime.send_and_receive`` does.

        Raises:
            ReplyError: if an actor asks itself: it would wait forever.
        """
        if kernel_id == self.kernel_id:
            raise ReplyError(kernel_id, "asks itself, and would wait forever")
        self._mailbox.note_target(kernel_id)
        return await self._mailbox.system.send_and_receive(kernel_id, message, **options)

    async def publish(self, topic: str, message: Any) -> int:
        """Send a message to every subscriber of a topic; return how many took it."""
        return await self._mailbox.system.publish(topic, message)

    async def barrier(self, name: str, parties: int, timeout: float | None = None) -> int:
        """Wait at a barrier of the runtime; return how many actors had arrived before.

        Args:
            name: of the barrier.
            parties: how many actors have to arrive.
            timeout: seconds; None for no limit.

        Raises:
            BarrierBroken: if another actor stopped waiting or ended.
        """
        return await self._mailbox.system.wait_at(name, parties, timeout, self.kernel_id)

    # For engines, which take many messages and answer them together.

    async def hold(self, most: int, timeout: float | None = None) -> list[Envelope]:
        """Take queued messages into :attr:`held`; wait for the first one, or for :meth:`nudge`."""
        found = await self._take(most, timeout)
        self.held += found
        return found

    def hold_now(self, most: int) -> list[Envelope]:
        """Take queued messages into :attr:`held`, without waiting."""
        found = self._take_now(most)
        self.held += found
        return found

    def nudge(self) -> None:
        """Have :meth:`hold` return, whether there is a message or not."""
        self._is_nudged = True
        self._inbox.takers.wake_all()

    def hold_too(self, envelope: Envelope, parts: list[Envelope]) -> None:
        """Hold the messages of a held envelope one by one."""
        place = self.held.index(envelope)
        self.held[place : place + (0 if envelope.count else 1)] = parts

    def let_go(self, envelope: Envelope) -> None:
        """Release a held envelope; a request is answered already."""
        place = next(n for n, held in enumerate(self.held) if held is envelope)
        del self.held[place]
        self._finish(envelope)

    def release(self, count: int) -> None:
        """Release the first held envelopes; requests are answered already."""
        for envelope in self.held[:count]:
            self._finish(envelope)
        del self.held[:count]

    def answer_held(self, envelope: Envelope, message: Any) -> None:
        """Answer a held request."""
        self.requests.remove(envelope)
        self.requests.answer(envelope, message)

    async def put_out_block(self, block: Any, count: int) -> None:
        """Put replies into the output queue, or send them to the connected actor."""
        await self._mailbox.put_out(block, count)

    # Its end.

    @property
    def is_idle(self) -> bool:
        """Return whether no message is in hand, and no request open."""
        return self.in_hand is None and not self._open

    def discard(self, error: KernelError, reason: str) -> list[Any]:
        """Count every message of this run as dropped, settle its reply, and return them."""
        mailbox = self._mailbox
        plain = [e for e in (self.in_hand, *self.held) if e is not None and e.reply is None]
        for _ in plain:
            if mailbox.outlet is None and mailbox.outbox.size < mailbox.outbox.maxsize:
                mailbox.outbox.put(Failure(error))
        lost: list[Any] = []
        for envelope in [*plain, *self.requests.discard_all(error)]:
            self.telemetry.record_drop(reason, envelope.count)
            mailbox.allow_again(envelope)
            left = envelope.left()
            lost += left if isinstance(left, list) else [left]
        self.held.clear()
        self.in_hand = None
        return lost

    def retire(self) -> None:
        """End the tasks that the body left behind: they would take messages of the next run."""
        takers = self._inbox.takers
        self._inbox, self._is_over = ClosedInbox(), True
        takers.cancel_all()

    def __repr__(self) -> str:
        return f"<KernelContext of {self.kernel_id!r}, {self._status.state.name}>"

"""The two queues of an actor: how messages get in and out, and what is done when they are full."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from typing import Any

from tikgen.ring.actors.channels import Inbox, Outbox
from tikgen.ring.actors.duplicates import Duplicates
from tikgen.ring.actors.engine import NOT_NOW, Engine
from tikgen.ring.actors.envelope import EXPIRED, Envelope, Failure, raised, settle
from tikgen.ring.actors.states import REPLYING, KernelState, Termination
from tikgen.ring.actors.system import System
from tikgen.ring.actors.typing_rules import TypeRule
from tikgen.ring.actors.waiting import ActorStop, Clock, clock, left_of
from tikgen.ring.definition import Definition
from tikgen.ring.errors import (
    DeadlineExceeded,
    InvalidConfigurationError,
    KernelFailed,
    KernelStateError,
    KernelTerminated,
    MessageDropped,
    QueueFullError,
    QueueTimeoutError,
)

_MOST_CLOSED = 1024


class Queues:
    """What an actor has of queues; :class:`RingKernel` adds its life.

    Attributes:
        kernel_id: name of the actor.
        config: its settings.
        engine: what makes it work.
        system: the runtime to which it belongs.
        telemetry: what was measured of it.
        outlet: the actor that gets its replies; None for its own output queue.
        error: what ended it, if something did.
        termination: how it ended; None as long as it has not.
        is_taking: whether it takes messages.
        is_ending: whether its body is to return once nothing is left to handle.
    """

    def __init__(self, definition: Definition, engine: Engine, system: System) -> None:
        config = definition.config
        self.definition = definition
        self.config = config
        self.kernel_id = config.kernel_id
        self.engine = engine
        self.system = system
        self.inbox = Inbox(config.input_queue_size, config.ageing)
        self.outbox = Outbox(config.output_queue_size)
        self.outlet: str | None = None
        self._told: set[str] = set()  # Actors to which its body sent something.
        self.telemetry = system.collector.register_kernel(config.kernel_id, lambda: self.inbox.size)
        self.error: KernelFailed | None = None
        self.termination: Termination | None = None
        self.is_taking = False
        self.is_ending = False
        self._state = KernelState.CREATED
        taken = TypeRule(definition.input_type, self, "the input queue")
        self.input_checkers, self.check_message = taken.checkers, taken.check
        self.check_messages = taken.check_all
        sent = TypeRule(definition.output_type, self, "ctx.send")
        self.output_checkers, self.check_reply = sent.checkers, sent.check
        self.check_replies = sent.check_all
        self.duplicates = Duplicates(config.deduplicate) if config.deduplicate else None
        self._dropped: list[Any] = []
        # The requests that were answered or given up last: replies to them go nowhere.
        self.closed: dict[int, None] = {}

    @property
    def state(self) -> KernelState:
        """Return the state that it is in."""
        return self._state

    def envelope(
        self,
        message: Any,
        reply: asyncio.Future[Any] | None = None,
        deadline: float | None = None,
    ) -> Envelope:
        """Return a message as what travels, checked.

        Raises:
            KernelStateError: if the actor takes no messages in its state.
            KernelTerminated: if it has ended.
            TypeValidationError: if the message is of another type than it takes.
        """
        if not self.is_taking:
            self.refuse("take a message")
        self.check_message(message)
        now = time.perf_counter_ns()
        priority = getattr(message, "priority", 128)
        if deadline is None:
            return Envelope(message, priority, now, reply)
        return Envelope(message, priority, now, reply, _end_of(deadline, now))

    def answer_now(self, message: Any) -> Any:
        """Return the reply to a request without queueing it, or a future of it, or ``NOT_NOW``.

        Raises what :meth:`envelope` raises, and ``ColumnError`` if the message does not fit.
        """
        is_quiet = self._state is KernelState.ACTIVE and not self.inbox.size
        if not is_quiet or self.duplicates is not None:
            return NOT_NOW
        self.check_message(message)
        telemetry = self.telemetry
        began = time.perf_counter_ns()
        reply = self.engine.answer_now(message)
        if reply is NOT_NOW:
            return reply
        telemetry.messages_received += 1
        if isinstance(reply, asyncio.Future):

            def count(done: asyncio.Future[Any]) -> None:
                if done.cancelled() or done.exception() is not None:
                    telemetry.record_drop("given up" if done.cancelled() else "failed")
                else:
                    telemetry.record_message(time.perf_counter_ns() - began)

            reply.add_done_callback(count)
        else:
            telemetry.record_message(time.perf_counter_ns() - began)
        return reply

    def blocks(self, messages: Any, deadline: float | None = None) -> list[Envelope]:
        """Return several messages as blocks of one priority each, checked.

        Raises what :meth:`envelope` raises.
        """
        if not self.is_taking:
            self.refuse("take messages")
        block, count = self.engine.block(messages)
        now = time.perf_counter_ns()
        end = 0 if deadline is None else _end_of(deadline, now)
        if not isinstance(block, list):
            return [Envelope(None, 128, now, None, end, block, count)] if count else []
        self.check_messages(block)
        priorities = {getattr(message, "priority", 128) for message in block}
        if len(priorities) == 1:
            return [Envelope(None, priorities.pop(), now, None, end, block, count)]
        made = []
        for priority, group in itertools.groupby(block, lambda m: getattr(m, "priority", 128)):
            part = list(group)
            made.append(Envelope(None, priority, now, None, end, part, len(part)))
        return made

    async def put(self, envelope: Envelope, timeout: float | None = None) -> bool:
        """Put an envelope into the input queue, as the policy says; tell whether it is there.

        Raises:
            QueueFullError: if there is no room, and the policy is to reject; or it is to block, and
                the actor itself would wait.
            QueueTimeoutError: if there was no room in time.
        """
        inbox, policy, telemetry = self.inbox, self.config.backpressure, self.telemetry
        telemetry.messages_received += 1
        if inbox.try_put(envelope):
            return True
        if policy == "block":
            try:
                self._check_other()
                await self._wait_for_room(clock(timeout))
            except BaseException:
                telemetry.messages_rejected += 1
                raise
            if envelope.reply is not None and envelope.reply.done():
                telemetry.messages_rejected += 1
                inbox.senders.wake()  # The room is for the next one.
                return False
        elif policy == "reject":
            telemetry.messages_rejected += 1
            raise QueueFullError(self.kernel_id, inbox.maxsize, self._state.name)
        elif policy == "drop_newest":
            self._drop(envelope, "drop_newest")
            await asyncio.sleep(0)
            return False
        else:
            self._drop(inbox.pop_oldest(), "drop_oldest")
        inbox.put(envelope)
        if not inbox.paused:
            inbox.takers.wake()
        if policy == "drop_oldest":
            await asyncio.sleep(0)  # Who sends without end shall not starve the actor.
        return True

    async def put_block(self, envelope: Envelope, timeout: float | None = None) -> int:
        """Put a block into the input queue, as the policy says; return how many were taken.

        Raises:
            QueueFullError: if there is no room for all, and the policy is to reject; or it is to
                block, and the actor itself would wait. ``taken`` says how many were taken.
            QueueTimeoutError: if there was no room in time; ``taken`` likewise.
        """
        inbox, policy, telemetry = self.inbox, self.config.backpressure, self.telemetry
        taken = 0
        time_left = clock(timeout)
        telemetry.messages_received += envelope.count
        must_wait = policy == "block" and bool(inbox.senders.futures)
        while True:
            room = 0 if must_wait else inbox.room()
            must_wait = False
            if policy == "drop_oldest":
                while inbox.size and inbox.room() < min(envelope.count, inbox.maxsize):
                    self._drop(inbox.pop_oldest(), "drop_oldest")
                room = inbox.room()
            count = min(room, envelope.count)
            if count:
                block: Any = envelope.block[envelope.start : envelope.start + count]
                part = Envelope(
                    None, envelope.priority, envelope.sent, None, envelope.deadline, block, count
                )
                inbox.put(part)
                if not inbox.paused:
                    inbox.takers.wake()
                envelope.start += count
                envelope.count -= count
                taken += count
            if not envelope.count:
                return taken
            if policy == "drop_newest":
                self._drop(envelope, "drop_newest")
                return taken
            if policy in ("reject", "block"):
                try:
                    if policy == "reject":
                        raise QueueFullError(self.kernel_id, inbox.maxsize, self._state.name)
                    self._check_other()
                    await self._wait_for_room(time_left)
                except BaseException as error:
                    telemetry.messages_rejected += envelope.count
                    error.taken = taken  # type: ignore[attr-defined]
                    raise

    def is_current(self) -> bool:
        """Tell whether it is the body of this actor that is running."""
        raise NotImplementedError

    def check_room(self) -> None:
        """Raise :class:`QueueFullError` if the actor would wait for room in its own queue."""
        inbox = self.inbox
        if self.config.backpressure == "block" and (inbox.is_full or inbox.senders.futures):
            raise QueueFullError(self.kernel_id, inbox.maxsize, self._state.name, by_itself=True)

    def _check_other(self) -> None:
        """Raise if it is the actor itself that is about to wait for room in its queue."""
        if self.is_current():
            raise QueueFullError(
                self.kernel_id, self.inbox.maxsize, self._state.name, by_itself=True
            )

    async def _wait_for_room(self, time_left: Clock | None) -> None:
        if not await self.inbox.wait_for_room(self._check_taking, time_left):
            assert time_left is not None
            what = "waiting for room in its input queue"
            raise QueueTimeoutError(self.kernel_id, time_left.seconds, what, self._state.name)

    async def put_out(self, message: Any) -> None:
        """Put a reply into the output queue, or send it on to the actor that is connected."""
        try:
            await self._wait_for_room_out()
            if self.outlet is not None:
                await self.system.send(self.outlet, message)
            else:
                self.outbox.put(message)
        except asyncio.CancelledError as stop:
            if self.is_ending and not isinstance(stop, ActorStop):
                self.outbox.put(message)  # Nobody will receive it; its end tells of it.
            raise

    async def put_out_block(self, block: Any, count: int) -> None:
        """Put a block of replies into the output queue, or send it on."""
        try:
            await self._wait_for_room_out()
            if self.outlet is not None:
                await self.system.send_many(self.outlet, block)
            else:
                self.outbox.put_block(block, count)  # It may be larger than the queue.
        except asyncio.CancelledError as stop:
            if self.is_ending and not isinstance(stop, ActorStop):
                self.outbox.put_block(block, count)
            raise

    async def _wait_for_room_out(self) -> None:
        """Wait until somebody receives a reply, unless the actor is to end: then nobody may."""
        outbox = self.outbox
        number = outbox.senders.number() if outbox.size >= outbox.maxsize else 0
        while self.outlet is None and outbox.size >= outbox.maxsize:
            if self.is_ending:
                await asyncio.sleep(0)
                if outbox.size < 2 * outbox.maxsize + self.inbox.maxsize:
                    return
                raise ActorStop  # A body without end.
            await outbox.senders.wait_at(number)

    async def next_reply(self, timeout: float | None) -> Any:
        """Take the next reply out of the output queue.

        Raises:
            KernelFailed: in the place of a reply, if the actor raised over its message.
            KernelTerminated: if the actor has ended and there is no reply left.
            QueueTimeoutError: if there was none in time.
        """
        await self._wait_for_reply(timeout)
        return self.opened(self.outbox.take())

    async def _wait_for_reply(self, timeout: float | None) -> None:
        outbox = self.outbox
        time_left = clock(timeout)
        while not outbox.size:
            self.check_replying()
            if not await outbox.receivers.wait(left_of(time_left)):
                self._check_in_time(timeout)

    def opened(self, message: Any) -> Any:
        """Return what was taken out of the output queue, or raise what stands for a reply."""
        if type(message) is Failure:
            raise raised(message.error)
        return message

    async def next_replies(self, most: int, timeout: float | None) -> Any:
        """Take what is in the output queue: a list, or the columns of a block."""
        await self._wait_for_reply(timeout)
        block, _ = self.outbox.take_block(most)
        if isinstance(block, list) and Failure in set(map(type, block)):
            return [raised(m.error) if type(m) is Failure else m for m in block]
        return block

    def check_replying(self) -> None:
        """Raise unless replies may still come."""
        if self.termination is not None or self._state not in REPLYING:
            self.refuse("receive a reply")

    def _check_in_time(self, timeout: float | None) -> None:
        if not self.outbox.size:
            assert timeout is not None
            raise QueueTimeoutError(
                self.kernel_id, timeout, "waiting for a reply", self._state.name
            )

    async def wait_at(self, name: str, parties: int, timeout: float | None) -> int:
        """Wait at a barrier of the runtime, which breaks if this actor ends meanwhile."""
        return await self.system.barrier(name, parties).wait(timeout, self.kernel_id)

    def note_target(self, kernel_id: str) -> None:
        """Note to whom its body sends something: who is to end after it."""
        if isinstance(kernel_id, str) and len(self._told) < _MOST_CLOSED:
            self._told.add(kernel_id)

    @property
    def targets(self) -> set[str]:
        """Return the actors that get something from it."""
        return {*self._told, self.outlet or self.kernel_id} - {self.kernel_id}

    def close_request(self, key: int) -> None:
        """Note that a request was answered or given up."""
        closed = self.closed
        closed[key] = None
        if len(closed) > _MOST_CLOSED:
            del closed[next(iter(closed))]

    def expire(self, envelope: Envelope) -> None:
        """Count a message whose deadline is over, and tell whoever waits for the reply."""
        self.telemetry.messages_expired += envelope.count
        self._forget(envelope)
        seconds = (envelope.deadline - envelope.sent) * 1e-9
        envelope.deadline = EXPIRED
        if envelope.reply is not None:
            settle(
                envelope.reply,
                DeadlineExceeded(
                    self.kernel_id, seconds, "waiting to be handled", self._state.name
                ),
            )

    def refuse(self, operation: str) -> None:
        """Raise: the state that the actor is in does not allow an operation."""
        if self.termination is not None:
            if self.error is not None:
                raise raised(self.error)
            raise KernelTerminated(
                self.kernel_id, f"cannot {operation}: {self.termination.reason}", "TERMINATED"
            )
        hint = "activate it first" if self._state is KernelState.LAUNCHED else ""
        raise KernelStateError(self.kernel_id, self._state.name, operation, hint)

    def _check_taking(self) -> None:
        if not self.is_taking:
            self.refuse("take a message")

    def _drop(self, envelope: Envelope, reason: str) -> None:
        if envelope.deadline == EXPIRED:  # It is counted.
            return
        self.telemetry.record_drop(reason, envelope.count)
        if envelope.reply is not None:
            settle(envelope.reply, MessageDropped(self.kernel_id, reason))
        self._forget(envelope)

    def _forget(self, envelope: Envelope) -> None:
        """Let messages that were not handled come again, although repeated ones are refused."""
        if self.duplicates is not None:
            for message in envelope.left():
                self.duplicates.forget(message)

    def _drop_inbox(self, reason: str) -> None:
        for envelope in list(self.inbox.drain()):
            left = envelope.left()
            self._dropped += left if isinstance(left, list) else [left]
            self._drop(envelope, reason)


def _end_of(deadline: float, now: int) -> int:
    """Return when a deadline is over, in nanoseconds, 0 for never."""
    is_number = isinstance(deadline, int | float) and not isinstance(deadline, bool)
    if not is_number or math.isnan(deadline):
        raise InvalidConfigurationError("deadline", deadline, "takes seconds from now, or None")
    return now + round(max(deadline, 0.0) * 1e9) if deadline < 1e9 else 0

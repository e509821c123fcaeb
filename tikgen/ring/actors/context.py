"""What the body of an actor works with: its messages, its replies, and the other actors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from tikgen.ring.actors.channels import Inbox, NoInbox
from tikgen.ring.actors.engine import unanswered
from tikgen.ring.actors.envelope import Envelope, settle
from tikgen.ring.actors.handling import Handling, key_of
from tikgen.ring.actors.waiting import ActorStop, Clock, clock, left_of
from tikgen.ring.errors import (
    InvalidConfigurationError,
    QueueTimeoutError,
    ReplyError,
    RingError,
)

if TYPE_CHECKING:
    from tikgen.ring.actors.actor import RingKernel

_now = time.perf_counter_ns
# So often a body whose time to wait is cut short may come back for more before it is ended.
_MOST_LEFT = 100


class KernelContext(Handling):
    """The context of one run of an actor's body.

    Attributes:
        kernel_id: name of the actor.
        telemetry: what is measured of it.
    """

    def __init__(self, actor: RingKernel) -> None:
        super().__init__(actor)
        self._inbox: Inbox = actor.inbox
        self._is_over = False
        self._is_nudged = False
        # Whether the body looks for its end by itself, and how often that was left to it.
        self._looks_for_end = False
        self._times_left = _MOST_LEFT
        self.last_timeout: QueueTimeoutError | None = None

    async def put_out_block(self, block: Any, count: int) -> None:
        """Put replies into the output queue, or send them on; for engines."""
        await self._actor.put_out_block(block, count)

    @property
    def should_terminate(self) -> bool:
        """Tell whether the body is to return: the actor ends, and no message is left for it."""
        is_so = (self._actor.is_ending or self._is_over) and not self._inbox.size
        self._looks_for_end = not is_so  # Whoever was told does not look again.
        return is_so

    @property
    def is_active(self) -> bool:
        """Tell whether the actor is active, and not paused."""
        return not self._inbox.paused

    async def wait_active(self) -> None:
        """Wait until the actor is active."""
        while self._inbox.paused and not self._actor.is_ending:
            await self._inbox.takers.wait()

    async def receive(self, timeout: float | None = None) -> Any:
        """Return the next message; the one before counts as handled.

        When the actor ends, and no message is left, the body ends here. Where there is a time-out,
        and the body looks at :attr:`should_terminate`, time is up at once instead.

        Args:
            timeout: seconds; None for as long as it takes.

        Raises:
            QueueTimeoutError: if none came in time. Where the body lets it pass, it is begun anew.
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
                if inbox.takers.futures or (
                    inbox.senders.futures and not inbox.waiting_room.is_due
                ):
                    inbox.taken()
                if (envelope.reply is not None or envelope.deadline) and not self._is_wanted(
                    envelope
                ):
                    continue
                self.in_hand = envelope
                return envelope.message
            if timeout is not None or self._actor.is_ending:
                await self._wait(time_left)
                continue
            future = inbox.takers.enter()
            try:
                await future
            except BaseException:
                inbox.takers.leave(future)
                raise

    def __aiter__(self) -> KernelContext:
        """Return what gives every message in turn: ``async for message in ctx:``."""
        return self

    async def __anext__(self) -> Any:
        """Return the next message; the loop is over when the actor ends and none is left."""
        try:
            return await self.receive()
        except ActorStop:
            if self._is_over:  # It is a task that an earlier run of the body has left.
                raise
            raise StopAsyncIteration from None

    async def receive_many(self, most: int = 4096, timeout: float | None = None) -> list[Any]:
        """Return the messages that are there, ``most`` at most; wait for the first one.

        Requests among them need replies that say which one they answer.

        Args:
            most: how many.
            timeout: seconds to wait for the first one; None for as long as it takes.

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
            if envelope.reply is None:
                self._finish(envelope)
        return found

    async def _take(self, most: int, timeout: float | None) -> list[Envelope]:
        """Take what is there as envelopes; wait for the first one, or for a nudge."""
        time_left = clock(timeout)
        if self.in_hand is not None:
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
            if (envelope.reply is not None or envelope.deadline) and not self._is_wanted(envelope):
                continue
            found.append(envelope)
            count += envelope.count
        inbox.taken()
        return found

    async def send(self, message: Any, *, to: Any = None) -> None:
        """Send a reply: to whoever waits for it, else to the queue of replies.

        It goes to the request that it names by its ``correlation_id``, or that is given; without
        either to the only request that is without a reply.

        Args:
            message: the reply.
            to: the message that it answers.

        What it raises in a task that the body has begun also goes to those whose requests it may
        have answered: nobody else might hear of it.

        Raises:
            ReplyError: if several requests are without a reply and it names none of them.
            TypeValidationError: if it is no message of the actor's output type.
        """
        actor = self._actor
        try:
            check = actor.output_checkers.get(message.__class__)
            if check is None or check(message) is not None:
                actor.check_reply(message)
            envelope = self._request_of(message, to) if self.open else None
        except RingError as error:
            if not actor.is_current():
                self._fail_requests(message, to, error)
            raise
        if envelope is not None:
            self.answer(envelope, message)
            return
        if actor.closed and self._is_late(message, to):
            self.telemetry.late_replies += 1
            return
        in_hand = self.in_hand
        if in_hand is not None and (to is None or to is in_hand.message):
            self.in_hand = None
            if in_hand.reply is None:
                self.telemetry.messages_processed += 1
                self._record(_now() - in_hand.sent)
        outbox = actor.outbox
        if actor.outlet is None and outbox.size < outbox.maxsize:
            outbox.put(message)
        else:
            await actor.put_out(message)

    async def send_many(self, messages: Iterable[Any]) -> None:
        """Send replies to the queue of replies, or on to the actor that is connected.

        Args:
            messages: replies that answer no request.

        Raises:
            TypeValidationError: if one is no message of the actor's output type.
        """
        block = list(messages)
        if block:
            self._actor.check_replies(block)
            await self._actor.put_out_block(block, len(block))

    def decline(self, message: Any) -> None:
        """Leave a request without a reply; whoever waits for it gets :class:`ReplyError`."""
        envelope = self._pop(key_of(message))
        if envelope is not None and envelope.reply is not None:
            settle(envelope.reply, unanswered(self.kernel_id))
            self._finish(envelope)

    def is_request(self, message: Any) -> bool:
        """Tell whether somebody waits for a reply to a message."""
        return key_of(message) in self.open

    async def tell(self, kernel_id: str, message: Any, **options: Any) -> bool:
        """Send a message to another actor; takes and returns what ``runtime.send`` does.

        Raises:
            QueueFullError: if an actor tells itself and has no room: it would wait for ever.
        """
        if kernel_id == self.kernel_id:
            self._actor.check_room()
        self._actor.note_target(kernel_id)
        return await self._actor.system.send(kernel_id, message, **options)

    async def ask(self, kernel_id: str, message: Any, **options: Any) -> Any:
        """Return another actor's reply; takes what ``runtime.send_and_receive`` does.

        Raises:
            ReplyError: if an actor asks itself, which would wait for ever.
        """
        if kernel_id == self.kernel_id:
            raise ReplyError(kernel_id, "asks itself, and would wait for ever")
        self._actor.note_target(kernel_id)
        return await self._actor.system.send_and_receive(kernel_id, message, **options)

    async def publish(self, topic: str, message: Any) -> int:
        """Send a message to every subscriber of a topic; return how many took it."""
        return await self._actor.system.publish(topic, message)

    async def barrier(self, name: str, parties: int, timeout: float | None = None) -> int:
        """Wait at a barrier of the runtime; return how many had come before.

        Args:
            name: of the barrier.
            parties: how many have to come.
            timeout: seconds; None for as long as it takes.

        Raises:
            BarrierBroken: if another one gave up or ended.
        """
        return await self._actor.wait_at(name, parties, timeout)

    # For engines, which take many messages and answer them together.

    async def hold(self, most: int, timeout: float | None = None) -> list[Envelope]:
        """Take what is there into :attr:`held`; wait for the first one, or for a nudge."""
        found = await self._take(most, timeout)
        self.held += found
        return found

    def hold_now(self, most: int) -> list[Envelope]:
        """Take what is there into :attr:`held`, without waiting."""
        found = self._take_now(most)
        self.held += found
        return found

    def nudge(self) -> None:
        """Have :meth:`hold` return, whether there is a message or not."""
        self._is_nudged = True
        self._inbox.takers.wake_all()

    def hold_too(self, envelope: Envelope, parts: list[Envelope]) -> None:
        """Hold the messages of an envelope that is held one by one."""
        place = self.held.index(envelope)
        self.held[place : place + (0 if envelope.count else 1)] = parts

    def let_go(self, envelope: Envelope) -> None:
        """Be done with an envelope that is held; a request is answered already."""
        place = next(n for n, held in enumerate(self.held) if held is envelope)
        del self.held[place]
        if envelope.reply is None:
            self._finish(envelope)

    def release(self, count: int) -> None:
        """Be done with the first envelopes that are held; requests are answered already."""
        for envelope in self.held[:count]:
            if envelope.reply is None:
                self._finish(envelope)
        del self.held[:count]

    def answer_held(self, envelope: Envelope, message: Any) -> None:
        """Answer a request that is held."""
        self._forget(envelope)
        self.answer(envelope, message)

    def retire(self) -> None:
        """End the tasks that its body has left behind: they would take messages of the next run."""
        takers = self._inbox.takers
        self._inbox, self._is_over = NoInbox(), True
        takers.cancel_all()

    async def _wait(self, timeout: Clock | None) -> None:
        """Wait until there may be a message."""
        if self._actor.is_ending and not self._inbox.size:
            await asyncio.sleep(0)  # A body that catches everything shall not stop the loop.
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
        state = self._actor.state.name
        self.last_timeout = QueueTimeoutError(
            self.kernel_id, timeout.seconds, "waiting for a message", state
        )
        raise self.last_timeout

    def __repr__(self) -> str:
        return f"<context of {self._actor!r}>"

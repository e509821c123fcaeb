"""The runtime: carries messages to actors and replies back."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from typing import Any

from tikgen.ring.actors.engine import NOT_NOW
from tikgen.ring.actors.envelope import Envelope, Failure
from tikgen.ring.actors.mailbox import opened
from tikgen.ring.actors.waiting import clock, left_of, seconds_of
from tikgen.ring.errors import (
    InvalidConfigurationError,
    TypeValidationError,
)
from tikgen.ring.launching import Life
from tikgen.ring.requests import ask_once, queue_request, send_once, within


class RingKernelRuntime(Life):
    """Runs actors on the event loop in which it was started.

    Use it in ``async with``: at the end every actor handles what is queued, within 10 seconds in
    all, and ends. Whoever waits for something is then told.

    Args:
        enable_telemetry: whether :meth:`get_telemetry` and its like tell what was measured.

    Attributes:
        loop: the event loop; None before it is started.
        failure: what an actor raised whose supervision is to escalate; ``async with`` raises it.
        terminations: how the last actors ended, the latest at the end.
    """

    async def send(
        self,
        kernel_id: str,
        message: Any,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> bool:
        """Put a message into an actor's queue; tell whether it is there.

        Args:
            kernel_id: the actor.
            message: of its input type.
            timeout: seconds to wait for room, where its policy is to block.
            deadline: seconds after which it is not to be handled any more.

        Returns:
            False if its policy dropped the message, or if it came before.

        Raises:
            KernelNotFoundError: if there is no such actor.
            KernelStateError: if the actor takes no messages in its state.
            KernelTerminated: if it has ended.
            QueueFullError: if there is no room, and its policy is to reject.
            QueueTimeoutError: if there was no room in time.
            TypeValidationError: if it takes messages of another type.
            WrongLoop: if the runtime belongs to another event loop.
        """
        if timeout is not None:
            seconds_of(timeout)
        actor = self._actors.get(kernel_id) if isinstance(kernel_id, str) else None
        if actor is None or get_running_loop() is not self.loop:
            self._refuse(kernel_id, "send a message")
        mailbox = actor.mailbox
        if deadline is not None or mailbox.duplicates is not None or not actor.status.is_taking:
            if mailbox.duplicates is not None:
                return await send_once(mailbox, message, timeout, deadline)
            envelope = mailbox.envelope(message, None, deadline)
        else:
            check = mailbox.input_checkers.get(message.__class__)
            if check is None or check(message) is not None:
                mailbox.check_message(message)
            envelope = Envelope(message, getattr(message, "priority", 128), perf_counter_ns())
        if mailbox.inbox.try_put(envelope):
            mailbox.telemetry.messages_received += 1
            return True
        return await mailbox.put(envelope, timeout)

    async def receive(self, kernel_id: str, *, timeout: float | None = None) -> Any:
        """Return the next reply of an actor that answers no ``send_and_receive``.

        Args:
            kernel_id: the actor.
            timeout: seconds; None for as long as it takes.

        Raises:
            KernelFailed: in the place of a reply, if the actor raised over its message.
            KernelTerminated: if it ended, and no reply is left.
            QueueTimeoutError: if there was none in time.
        """
        actor = self._actors.get(kernel_id) if isinstance(kernel_id, str) else None
        if actor is None or get_running_loop() is not self.loop:
            self._refuse(kernel_id, "receive a reply")
        if timeout is not None:
            return await actor.mailbox.next_reply(timeout)
        outbox = actor.mailbox.outbox
        while not outbox.size:
            actor.status.check_replying()
            future = outbox.receivers.enter()
            try:
                await future
            except BaseException:
                outbox.receivers.leave(future)
                raise
        message = outbox.take()
        return opened(message) if message.__class__ is Failure else message

    async def send_and_receive(
        self,
        kernel_id: str,
        message: Any,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> Any:
        """Send a request and return the very reply to it.

        A reply that comes too late is counted and goes nowhere.

        Args:
            kernel_id: the actor.
            message: of its input type.
            timeout: seconds for all of it; None for as long as it takes.
            deadline: seconds after which it is not to be handled any more.

        Raises:
            DeadlineExceeded: if its turn came after the deadline.
            KernelFailed: if the actor raised over it.
            KernelTerminated: if the actor ended before it answered.
            MessageDropped: if the policy of a full queue dropped it.
            QueueTimeoutError: if there was no reply in time.
            ReplyError: if the actor declined to answer.
        """
        actor = self._actors.get(kernel_id) if isinstance(kernel_id, str) else None
        if actor is None or get_running_loop() is not self.loop:
            self._refuse(kernel_id, "send a request")
        assert self.loop is not None
        time_left = None if timeout is None else clock(timeout)
        mailbox = actor.mailbox
        if mailbox.duplicates is not None:
            return await ask_once(mailbox, message, time_left, deadline)
        if actor.engine.is_direct and deadline is None:
            now = actor.answer_now(message)
            if isinstance(now, asyncio.Future):
                return await within(now, mailbox, time_left)
            if now is not NOT_NOW:
                return now
        reply: asyncio.Future[Any] = self.loop.create_future()
        check = mailbox.input_checkers.get(message.__class__)
        if deadline is not None or not actor.status.is_taking or check is None or check(message):
            envelope = mailbox.envelope(message, reply, deadline)
        else:
            priority = getattr(message, "priority", 128)
            envelope = Envelope(message, priority, perf_counter_ns(), reply)
        if mailbox.inbox.try_put(envelope):
            mailbox.telemetry.messages_received += 1
        else:
            await queue_request(mailbox, envelope, time_left)
        if time_left is None and deadline is None:
            return await reply
        return await within(reply, mailbox, time_left, envelope)

    async def send_many(
        self,
        kernel_id: str,
        messages: Iterable[Any] | Mapping[str, Any],
        *,
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> int:
        """Put messages into an actor's queue in one go; return how many are there.

        Args:
            kernel_id: the actor.
            messages: messages of one priority; for engines of kernels also a dict of columns.
            timeout: seconds to wait for room, where its policy is to block.
            deadline: seconds after which they are not to be handled any more.

        Raises:
            QueueFullError: if there was no room for all of them, and its policy is to reject;
                ``taken`` says for how many there was.
            QueueTimeoutError: if there was no room for all of them in time; ``taken`` likewise.
                Otherwise as :meth:`send`.
        """
        time_left = clock(timeout)
        actor = self._actor(kernel_id, "send messages")
        if isinstance(messages, str | bytes) or not isinstance(messages, Iterable):
            raise TypeValidationError(
                "a list of messages, or a dict of columns",
                type(messages).__name__,
                "send_many",
                kernel_id,
            )
        taken, mailbox = 0, actor.mailbox
        try:
            if mailbox.duplicates is not None and not isinstance(messages, Mapping):
                for message in messages:
                    left = left_of(time_left)
                    taken += await self.send(kernel_id, message, timeout=left, deadline=deadline)
                return taken
            for envelope in actor.blocks(messages, deadline):
                if mailbox.inbox.try_put(envelope):
                    mailbox.telemetry.messages_received += envelope.count
                    taken += envelope.count
                else:
                    taken += await mailbox.put_block(envelope, left_of(time_left))
        except BaseException as error:
            error.taken = taken + getattr(error, "taken", 0)  # type: ignore[attr-defined]
            raise
        return taken

    async def receive_many(
        self, kernel_id: str, most: int = 4096, *, timeout: float | None = None
    ) -> Any:
        """Return the replies that are there, ``most`` at most; wait for the first one.

        Args:
            kernel_id: the actor.
            most: how many.
            timeout: seconds to wait for the first one.

        Returns:
            A list; or a dict of columns, where columns were sent. A
            :class:`~tikgen.ring.errors.KernelFailed` stands in it for each message, or each block
            of messages, over which the actor raised.

        Raises:
            QueueTimeoutError: if there was none in time. Otherwise as :meth:`receive`.
        """
        actor = self._actor(kernel_id, "receive replies")
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidConfigurationError("most", most, "takes a whole number from 1")
        return await actor.mailbox.next_replies(most, timeout)

    def __repr__(self) -> str:
        state = "shut down" if self._is_over else "active" if self.loop else "not started"
        return f"<RingKernelRuntime {state}, {len(self._actors)} actors>"

"""The runtime: carries messages to actors and replies back."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import perf_counter_ns
from typing import Any

from tikgen.ring.actors.engine import NOT_NOW
from tikgen.ring.actors.mailbox import opened
from tikgen.ring.actors.queues import Envelope, Failure
from tikgen.ring.actors.waiting import clock, left_of, seconds_of
from tikgen.ring.errors import InvalidConfigurationError, RuntimeClosed, TypeValidationError
from tikgen.ring.launching import Lifecycle
from tikgen.ring.requests import ask_once, queue_request, send_once, within
from tikgen.ring.telemetry.gpu_monitor import GPUMonitor
from tikgen.ring.telemetry.kernel_telemetry import RingKernelTelemetry
from tikgen.ring.telemetry.snapshot import KernelRow, Snapshot


class RingKernelRuntime(Lifecycle):
    """Runs actors on the event loop in which it was started.

    Use it in ``async with``: at the end every actor handles its queued messages and ends, within 10
    seconds in all, and all waiters are woken.

    Args:
        enable_telemetry: whether :meth:`get_telemetry` and :meth:`get_all_telemetry` return
            figures.

    Attributes:
        loop: the event loop; None before the start.
        collector: the telemetry of every actor.
        failure: the failure of an actor whose policy is ``escalate``; ``async with`` raises it.
        terminations: how the last actors ended, the latest at the end.
    """

    def __init__(self, *, enable_telemetry: bool = True) -> None:
        super().__init__()
        self._has_telemetry = enable_telemetry

    # Messages.

    async def send(
        self,
        kernel_id: str,
        message: Any,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> bool:
        """Put a message into an actor's queue; return whether it was queued.

        Args:
            kernel_id: the actor.
            message: of its input type.
            timeout: seconds to wait for room, under the policy ``block``.
            deadline: seconds after which it is not handled.

        Returns:
            False if its policy dropped the message, or it was sent before.

        Raises:
            KernelNotFoundError: if there is no such actor.
            KernelStateError: if the actor takes no messages in its state.
            KernelTerminated: if it has ended.
            QueueFullError: if there is no room, under the policy ``reject``.
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
        """Return the next reply of an actor that answers no request.

        Args:
            kernel_id: the actor.
            timeout: seconds; None for no limit.

        Raises:
            KernelFailed: in place of a reply, if the actor raised over its message.
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
        """Send a request and return its reply.

        Args:
            kernel_id: the actor.
            message: of its input type.
            timeout: seconds until the reply; None for no limit.
            deadline: seconds after which it is not handled.

        Raises:
            DeadlineExceeded: if it was not handled before the deadline.
            KernelFailed: if the actor raised.
            KernelTerminated: if the actor ended before it answered.
            MessageDropped: if a full queue dropped it.
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
        """Put messages into an actor's queue at once; return how many were queued.

        Args:
            kernel_id: the actor.
            messages: messages; for engines of kernels also a dict of columns.
            timeout: seconds to wait for room, where its policy is to block.
            deadline: seconds after which they are not handled.

        Raises:
            QueueFullError: if there was no room for all of them, under the policy ``reject``;
                ``taken`` is the number that was queued.
            QueueTimeoutError: if there was no room for all of them in time; ``taken`` likewise.
                Otherwise as :meth:`send`.
        """
        time_left = clock(timeout)
        actor = self._actor(kernel_id, "send messages")
        if isinstance(messages, str | bytes) or not isinstance(messages, Iterable):
            wanted, given = "a list of messages, or a dict of columns", type(messages).__name__
            raise TypeValidationError(wanted, given, "send_many", kernel_id)
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
        """Return up to ``most`` available replies; wait for the first one.

        Args:
            kernel_id: the actor.
            most: greatest number of replies.
            timeout: seconds to wait for the first one.

        Returns:
            A list, with a :class:`~tikgen.ring.errors.KernelFailed` for each message or block over
            which the actor raised; or a dict of columns, if columns were sent.

        Raises:
            QueueTimeoutError: if there was none in time. Otherwise as :meth:`receive`.
        """
        actor = self._actor(kernel_id, "receive replies")
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InvalidConfigurationError("most", most, "takes a whole number from 1")
        return await actor.mailbox.next_replies(most, timeout)

    async def broadcast(self, message: Any, kernel_ids: Iterable[str] | None = None) -> int:
        """Send a message to several actors; return how many took it.

        Args:
            message: of the input type of each.
            kernel_ids: the actors; None for all that take messages.

        Raises:
            RingError: the error of :meth:`send` for the first actor that did not take it, after all
                were tried; ``taken`` is the number of actors that took it.
        """
        self._check_loop("", "broadcast a message")
        if isinstance(kernel_ids, str) or not isinstance(kernel_ids, Iterable | None):
            raise InvalidConfigurationError("kernel_ids", kernel_ids, "takes several names")
        if kernel_ids is None:
            kernel_ids = [n for n, actor in self._actors.items() if actor.status.is_taking]
        # An actor sends to itself in its own task, where a full queue is detected.
        own: list[str] = []
        others: list[str] = []
        for name in kernel_ids:
            actor = self._actors.get(name) if isinstance(name, str) else None
            (own if actor is not None and actor.status.is_current() else others).append(name)
        results = [await _result_of(self.send(name, message)) for name in own]
        sending = (self.send(name, message) for name in others)
        results += await asyncio.gather(*sending, return_exceptions=True)
        taken = sum(result for result in results if isinstance(result, bool))
        for result in results:
            if isinstance(result, BaseException):
                result.taken = taken  # type: ignore[attr-defined]
                raise result
        return taken

    async def publish(self, topic: str, message: Any) -> int:
        """Send a message to every subscriber that takes messages; return how many took it.

        Raises as :meth:`broadcast`.
        """
        self._check_loop("", f"publish under {topic!r}")
        actors = map(self._known, self._topics.subscribers(topic))
        return await self.broadcast(message, [a.kernel_id for a in actors if a.status.is_taking])

    # Telemetry.

    def get_telemetry(self, kernel_id: str) -> RingKernelTelemetry | None:
        """Return the telemetry of an actor, None if it is disabled."""
        return self._known(kernel_id).telemetry if self._has_telemetry else None

    def get_all_telemetry(self) -> dict[str, RingKernelTelemetry]:
        """Return the telemetry of each actor by name."""
        return self.collector.get_all_telemetry() if self._has_telemetry else {}

    def get_summary(self) -> dict[str, object]:
        """Return sums over all actors, including those that have ended."""
        return self.collector.get_summary()

    def snapshot(self) -> Snapshot:
        """Return the current state of every actor."""
        rows = tuple(
            KernelRow.of(actor.telemetry, actor.engine.name, actor.state.name.lower())
            for actor in list(self._actors.values())
        )
        return Snapshot(rows, self._monitor().get_all_gpu_info(), self.collector.uptime_seconds)

    def prometheus(self) -> str:
        """Return the telemetry in the text format of Prometheus."""
        from tikgen.ring.telemetry.prometheus import prometheus_text

        states = {name: actor.state.name.lower() for name, actor in self._actors.items()}
        return prometheus_text(self.collector, states, self._monitor().get_all_gpu_info())

    async def dashboard(
        self, refresh: float = 0.5, *, until: Callable[[], bool] | None = None
    ) -> None:
        """Show the state of every actor live in a terminal, until the runtime ends.

        Args:
            refresh: seconds between two views.
            until: returns whether to stop earlier.

        Raises:
            RuntimeClosed: if the runtime is not active.
        """
        from tikgen.ring.telemetry.live_view import show

        if not self.is_active:
            raise RuntimeClosed("show a dashboard", True)

        def is_over() -> bool:
            return not self.is_active or (until is not None and until())

        await show(self.snapshot, refresh, is_over)

    def _monitor(self) -> GPUMonitor:
        """Return the monitor of GPUs, made at its first use."""
        if self.collector.gpu_monitor is None:
            self.collector.gpu_monitor = GPUMonitor()
        return self.collector.gpu_monitor

    def __repr__(self) -> str:
        state = "shut down" if self._is_over else "active" if self.loop else "not started"
        return f"<RingKernelRuntime {state}, {len(self._actors)} actors>"


async def _result_of(sending: Awaitable[bool]) -> bool | BaseException:
    try:
        return await sending
    except Exception as error:
        return error

"""An actor: its phases from launch to end, and the task that runs its body."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from dataclasses import replace
from typing import Any

from tikgen.ring.actors.context import KernelContext
from tikgen.ring.actors.engine import NOT_NOW, Engine
from tikgen.ring.actors.mailbox import Mailbox, expiry
from tikgen.ring.actors.queues import Envelope, Failure
from tikgen.ring.actors.status import REPLYING, KernelState, Status, System, Termination
from tikgen.ring.actors.supervision import Restarts
from tikgen.ring.actors.waiting import Waiters, clock, left_of
from tikgen.ring.definition import Definition
from tikgen.ring.errors import (
    KernelFailed,
    KernelStateError,
    KernelTerminated,
    QueueTimeoutError,
    WrongLoop,
)
from tikgen.ring.telemetry import spans
from tikgen.ring.telemetry.kernel_telemetry import text_of

log = logging.getLogger("tikgen.ring")
# Seconds that a cancelled body has to clean up.
_GRACE = 1.0


class RingKernel:
    """An actor of a runtime, made by :meth:`RingKernelRuntime.launch`.

    Attributes:
        kernel_id: its name.
        definition: what was launched.
        config: its settings.
        engine: what runs its body.
        status: its state, shared by its parts.
        mailbox: its queues.
        telemetry: its counters.
    """

    def __init__(self, definition: Definition, engine: Engine, system: System) -> None:
        self.definition = definition
        self.config = definition.config
        self.kernel_id = definition.config.kernel_id
        self.engine = engine
        self.status = Status(self.kernel_id)
        self.mailbox = Mailbox(definition, self.status, system)
        self.telemetry = self.mailbox.telemetry
        self._system = system
        self._restarts = Restarts(self.config.supervision)
        self._context: KernelContext | None = None
        self._reason = "its body returned"
        self._resting = Waiters()  # Waits before the next restart.
        self._loop = asyncio.get_running_loop()

    @property
    def state(self) -> KernelState:
        """Return its state."""
        return self.status.state

    @property
    def termination(self) -> Termination | None:
        """Return how it ended; None before that."""
        return self.status.termination

    def _enter(self, state: KernelState, started: float | None = None) -> None:
        self.status.enter(state)
        if spans.is_on():
            now = time.perf_counter()
            since = now if started is None else started
            spans.note(self.kernel_id, state.name.lower(), since, now - since)

    # Phases.

    async def launch(self) -> None:
        """Allocate what the actor needs, without handling messages yet.

        Raises:
            KernelStateError: if it was launched before.
            KernelTerminated: if it was ended meanwhile.
        """
        self._require("be launched", KernelState.CREATED)
        started = time.perf_counter()
        await self.engine.prepare()
        if self.termination is not None:
            self.status.refuse("be launched")
        self._enter(KernelState.LAUNCHED, started)

    async def activate(self) -> None:
        """Begin to handle messages.

        Raises:
            KernelStateError: if it is not LAUNCHED.
        """
        self._require("be activated", KernelState.LAUNCHED, "launch it first, and activate it once")
        self.mailbox.inbox.paused = False
        self._enter(KernelState.ACTIVE)
        name = f"ring_kernel_{self.kernel_id}"
        self.status.task = asyncio.get_running_loop().create_task(self._run(), name=name)

    async def deactivate(self) -> None:
        """Pause: messages are queued, and none is handled.

        Raises:
            KernelStateError: if it is not ACTIVE.
        """
        self._require("be deactivated", KernelState.ACTIVE)
        self.mailbox.inbox.paused = True
        self.engine.pause()
        self._enter(KernelState.DEACTIVATED)

    async def reactivate(self) -> None:
        """Resume after a pause.

        Raises:
            KernelStateError: if it is not DEACTIVATED.
        """
        self._require("be reactivated", KernelState.DEACTIVATED)
        self._resume()
        self._enter(KernelState.ACTIVE)

    def _resume(self) -> None:
        self.mailbox.inbox.paused = False
        self.engine.resume()
        self.mailbox.inbox.takers.wake_all()

    async def terminate(self, timeout: float = 5.0, *, drain: bool = True) -> Termination:
        """End it, within a bounded time.

        Args:
            timeout: seconds to handle what is queued; then its body is cancelled, and has one more
                second to clean up.
            drain: whether to handle what is queued; else it is dropped at once.

        Returns:
            How it ended, with every message that was dropped.
        """
        time_left = clock(timeout)
        status, mailbox = self.status, self.mailbox
        self._check_loop("be terminated")
        if status.termination is not None:
            return self.discard_replies()
        if status.is_current():
            hint = "a body ends by returning"
            raise KernelStateError(self.kernel_id, self.state.name, "terminate itself", hint)
        was_active = self.state in REPLYING
        self._reason = "terminated"
        self._enter(KernelState.TERMINATING)
        mailbox.inbox.senders.wake_all()
        if not drain or not was_active:
            mailbox.discard_inbox("terminated without being drained")
        status.is_ending = True
        self._resume()
        mailbox.outbox.senders.wake_all()
        self._resting.wake_all()
        task = status.task
        try:
            if task is not None:
                await asyncio.wait({task}, timeout=left_of(time_left))
                if not task.done():
                    self._reason = f"terminated; not done within {timeout:g} s"
                    mailbox.discard_inbox(self._reason)
                    task.cancel()
                    await asyncio.wait({task}, timeout=_GRACE)
        finally:  # Waiters are woken also where this is cancelled.
            if self.termination is None:
                if self._reason == "terminated" and task is not None and not task.done():
                    self._reason = "terminated; cut short"
                    task.cancel()
                self._end()
        if task is None or not task.done():
            await self._close_engine(is_over=task is None)
        return self._ended()

    def _ended(self) -> Termination:
        assert self.status.termination is not None
        return self.status.termination

    def _amend(self, **changes: Any) -> None:
        """Change the record of its end."""
        before = self._ended()
        self.status.termination = replace(before, **changes)
        self._system.ended(self._ended(), before)

    def discard_replies(self) -> Termination:
        """Record the replies of an ended actor that can no longer be received."""
        if found := self._unreceived():
            self._amend(unreceived=self._ended().unreceived + found)
        return self._ended()

    def _unreceived(self) -> tuple[Any, ...]:
        return tuple(m for m in self.mailbox.outbox.drain() if type(m) is not Failure)

    def _check_loop(self, operation: str) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoop(self.kernel_id, operation)

    def _require(self, operation: str, state: KernelState, hint: str = "") -> None:
        self._check_loop(operation)
        if self.state is not state:
            raise KernelStateError(self.kernel_id, self.state.name, operation, hint)

    # Messages that its engine takes in a form of its own.

    def answer_now(self, message: Any) -> Any:
        """Return the reply to a request without queueing it, or a future of it, or ``NOT_NOW``."""
        is_quiet = self.state is KernelState.ACTIVE and not self.mailbox.inbox.size
        if not is_quiet or self.mailbox.duplicates is not None:
            return NOT_NOW
        self.mailbox.check_message(message)
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
        """Return several messages as checked blocks of one priority each.

        Raises what :meth:`Mailbox.envelope` raises.
        """
        self.status.check_taking("take messages")
        block, count = self.engine.block(messages)
        now = time.perf_counter_ns()
        end = expiry(deadline, now)
        if not isinstance(block, list):
            return [Envelope(None, 128, now, None, end, block, count)] if count else []
        self.mailbox.check_messages(block)
        priorities = {getattr(message, "priority", 128) for message in block}
        if len(priorities) == 1:
            return [Envelope(None, priorities.pop(), now, None, end, block, count)]
        made = []
        for priority, group in itertools.groupby(block, lambda m: getattr(m, "priority", 128)):
            part = list(group)
            made.append(Envelope(None, priority, now, None, end, part, len(part)))
        return made

    # The body.

    async def _run(self) -> None:
        try:
            while await self._run_once():
                pass
        finally:
            self._end()
            await self._close_engine()

    async def _close_engine(self, is_over: bool = True) -> None:
        """Close the engine, and record whether the actor has stopped: its body may still run."""
        try:
            await self.engine.close()
        except Exception as error:
            log.error("Actor %r: its engine cannot be closed: %s", self.kernel_id, text_of(error))
        finally:
            if self.termination is not None and is_over and self.engine.is_stopped:
                self._amend(stopped=True)

    async def _run_once(self) -> bool:
        """Run the body to its end; return whether to restart it."""
        ctx = self._context = KernelContext(self.mailbox)
        try:
            await self.engine.run(ctx)
            ctx.finish_in_hand()
            self._discard(ctx, self._without_answer(), "unanswered")
            return False
        except asyncio.CancelledError as error:
            if not self.status.is_ending:
                if not _is_cancelled():
                    return await self._after(error, ctx)
                self._reason = "it was cancelled"
            self._discard(ctx, self._without_answer(), "cancelled")
            return False
        except QueueTimeoutError as error:
            if error is ctx.last_timeout and self.status.is_ending:
                self._discard(ctx, self._without_answer(), "unanswered")
                return True
            if error is ctx.last_timeout and ctx.is_idle:
                await asyncio.sleep(0)  # No message for a while is no failure.
                return True
            return await self._after(error, ctx)
        except Exception as error:
            return await self._after(error, ctx)
        except BaseException as error:  # No reason to restart.
            if not _is_in_loop():
                self._reason = "its event loop ended"
                raise
            self._fail(self._reported(error, ctx))
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise  # They end the program.
            return False
        finally:
            ctx.retire()

    async def _after(self, error: BaseException, ctx: KernelContext) -> bool:
        """Report an error of the body, and return whether supervision restarts it."""
        failure = self._reported(error, ctx)
        delay = self._restarts.next_delay()
        if delay is None:
            self._fail(failure)
            return False
        if delay and not self.status.is_ending:
            try:
                await self._resting.wait(delay)
            except asyncio.CancelledError:
                self._reason = "it was cancelled"
                return False
        self.telemetry.restarts += 1
        if spans.is_on():
            spans.note(self.kernel_id, "restart", time.perf_counter(), 0.0, error=_raised(error))
        return True

    def _reported(self, error: BaseException, ctx: KernelContext) -> KernelFailed:
        failure = KernelFailed(self.kernel_id, _raised(error), self.state.name)
        failure.__cause__ = error
        self.telemetry.record_error(error)
        log.error("%s", failure, exc_info=error)
        self._discard(ctx, failure, "failed")
        return failure

    def _fail(self, failure: KernelFailed) -> None:
        assert failure.__cause__ is not None
        self.status.error = failure
        self._reason = f"it {_raised(failure.__cause__)}"
        if self.config.supervision.policy == "escalate":
            self._system.escalate(failure)

    def _without_answer(self) -> KernelTerminated:
        problem = f"ended without an answer: {self._reason}"
        return KernelTerminated(self.kernel_id, problem, KernelState.TERMINATING.name)

    def _discard(
        self, ctx: KernelContext, error: KernelFailed | KernelTerminated, reason: str
    ) -> None:
        """Discard the messages of a run that is over; at the end of the actor they are reported."""
        lost = ctx.discard(error, reason)
        if self.status.is_ending or reason != "failed":
            self.mailbox.dropped[:0] = lost  # They came before what is queued.

    def _end(self) -> None:
        """Record the end, and wake all waiters."""
        status, mailbox = self.status, self.mailbox
        if status.termination is not None:
            return
        status.is_ending = True
        status.enter(KernelState.TERMINATING)
        if self._context is not None:
            self._discard(self._context, status.error or self._without_answer(), "cancelled")
        reason = "failed" if status.error is not None else self._reason
        mailbox.discard_inbox(reason, status.error)
        dropped, mailbox.dropped = tuple(mailbox.dropped), []
        status.termination = Termination(
            self.kernel_id,
            self.telemetry.messages_processed,
            dropped,
            self._unreceived() if self._reason.startswith("terminated") else (),
            self._reason,
        )
        if dropped:
            count = sum(getattr(item, "count", 1) for item in dropped)
            noun = "message" if count == 1 else "messages"
            log.warning("Actor %r dropped %d %s: %s", self.kernel_id, count, noun, self._reason)
        self._enter(KernelState.TERMINATED)
        mailbox.inbox.senders.wake_all()
        mailbox.inbox.takers.wake_all()
        mailbox.outbox.receivers.wake_all()
        self._system.ended(status.termination)

    def __repr__(self) -> str:
        return f"<RingKernel {self.kernel_id!r} {self.state.name} on {self.engine.name}>"


def _raised(error: BaseException) -> str:
    return f"raised {type(error).__name__}: {text_of(error)}"


def _is_in_loop() -> bool:
    """Return whether an event loop runs: else a coroutine is closed because its own is over."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _is_cancelled() -> bool:
    """Return whether this task was cancelled itself, rather than one for which it waited."""
    # Python 3.10 has no count.
    cancelling = getattr(asyncio.current_task(), "cancelling", lambda: 1)
    return cancelling() > 0

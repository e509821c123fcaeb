"""An actor: its state, the task that runs its body, and what is done when that raises."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

from tikgen.ring.actors.context import KernelContext
from tikgen.ring.actors.engine import Engine
from tikgen.ring.actors.envelope import Failure, settle
from tikgen.ring.actors.queues import Queues
from tikgen.ring.actors.states import REPLYING, TAKING, KernelState, Termination
from tikgen.ring.actors.supervision import Restarts
from tikgen.ring.actors.system import System
from tikgen.ring.actors.waiting import Waiters, clock, left_of
from tikgen.ring.definition import Definition
from tikgen.ring.errors import (
    KernelError,
    KernelFailed,
    KernelStateError,
    KernelTerminated,
    QueueTimeoutError,
    WrongLoop,
)
from tikgen.ring.telemetry import spans
from tikgen.ring.telemetry.kernel_telemetry import text_of

log = logging.getLogger("tikgen.ring")
# What a cancelled body gets to clean up, in seconds.
_GRACE = 1.0


class RingKernel(Queues):
    """An actor of a runtime, made by :meth:`RingKernelRuntime.launch`."""

    def __init__(self, definition: Definition, engine: Engine, system: System) -> None:
        super().__init__(definition, engine, system)
        self._restarts = Restarts(self.config.supervision)
        self._task: asyncio.Task[None] | None = None
        self._context: KernelContext | None = None
        self._reason = "its body returned"
        self._resting = Waiters()  # For the next restart.
        self._loop = asyncio.get_running_loop()

    def _enter(self, state: KernelState, started: float | None = None) -> None:
        self._state = state
        self.is_taking = state in TAKING
        if spans.is_on():
            now = time.perf_counter()
            since = now if started is None else started
            spans.note(self.kernel_id, state.name.lower(), since, now - since)

    # Phases.

    async def launch(self) -> None:
        """Get what the actor needs, without handling messages yet.

        Raises:
            KernelStateError: if it was launched before.
            KernelTerminated: if it was ended meanwhile.
        """
        self._require("be launched", KernelState.CREATED)
        started = time.perf_counter()
        await self.engine.prepare()
        if self.termination is not None:
            self.refuse("be launched")
        self._enter(KernelState.LAUNCHED, started)

    async def activate(self) -> None:
        """Begin to handle messages.

        Raises:
            KernelStateError: if it is not LAUNCHED.
        """
        self._require("be activated", KernelState.LAUNCHED, "launch it first, and activate it once")
        self.inbox.paused = False
        self._enter(KernelState.ACTIVE)
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"ring_kernel_{self.kernel_id}"
        )

    async def deactivate(self) -> None:
        """Pause: messages are taken in, and none is handed to the body any more.

        Raises:
            KernelStateError: if it is not ACTIVE.
        """
        self._require("be deactivated", KernelState.ACTIVE)
        self.inbox.paused = True
        self.engine.pause()
        self._enter(KernelState.DEACTIVATED)

    async def reactivate(self) -> None:
        """Go on after a pause.

        Raises:
            KernelStateError: if it is not DEACTIVATED.
        """
        self._require("be reactivated", KernelState.DEACTIVATED)
        self._resume()
        self._enter(KernelState.ACTIVE)

    def _resume(self) -> None:
        self.inbox.paused = False
        self.engine.resume()
        self.inbox.takers.wake_all()

    async def terminate(self, timeout: float = 5.0, *, drain: bool = True) -> Termination:
        """End it, within a bounded time.

        Args:
            timeout: seconds to handle what is queued; then its body is cancelled, and gets one
                more second to clean up.
            drain: whether to handle what is queued; else it is dropped at once.

        Returns:
            How it ended, with every message that was dropped.
        """
        time_left = clock(timeout)
        self._check_loop("be terminated")
        if self.termination is not None:
            return self.forsake()
        if self.is_current():
            raise KernelStateError(
                self.kernel_id, self._state.name, "terminate itself", "a body ends by returning"
            )
        was_active = self._state in REPLYING
        self._reason = "terminated"
        self._enter(KernelState.TERMINATING)
        self.inbox.senders.wake_all()
        if not drain or not was_active:
            self._drop_inbox("terminated without being drained")
        self.is_ending = True
        self._resume()
        self.outbox.senders.wake_all()
        self._resting.wake_all()
        task = self._task
        try:
            if task is not None:
                await asyncio.wait({task}, timeout=left_of(time_left))
                if not task.done():
                    self._reason = f"terminated; not done within {timeout:g} s"
                    self._drop_inbox(self._reason)
                    task.cancel()
                    await asyncio.wait({task}, timeout=_GRACE)
        finally:  # Whoever waits is told, also where this is cancelled.
            if self.termination is None:
                if self._reason == "terminated" and task is not None and not task.done():
                    self._reason = "terminated; cut short"
                    task.cancel()
                self._end()
        if task is None or not task.done():
            await self._close_engine(is_over=task is None)
        assert self.termination is not None
        return self.termination

    def forsake(self) -> Termination:
        """Note which replies nobody has received of an actor that ended, as nobody can any more."""
        before = self.termination
        assert before is not None
        if found := self._unreceived():
            self.termination = replace(before, unreceived=before.unreceived + found)
            self.system.ended(self, before)
        return self.termination or before

    def _unreceived(self) -> tuple[Any, ...]:
        return tuple(m for m in self.outbox.drain() if type(m) is not Failure)

    def is_current(self) -> bool:
        """Tell whether it is the body of this actor that is running."""
        return self._task is not None and self._task is asyncio.current_task()

    def _check_loop(self, operation: str) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoop(self.kernel_id, operation)

    def _require(self, operation: str, state: KernelState, hint: str = "") -> None:
        self._check_loop(operation)
        if self._state is not state:
            raise KernelStateError(self.kernel_id, self._state.name, operation, hint)

    # The body.

    async def _run(self) -> None:
        try:
            while await self._run_once():
                pass
        finally:
            self._end()
            await self._close_engine()

    async def _close_engine(self, is_over: bool = True) -> None:
        """Close the engine, then note whether the actor has stopped; its body may not be over."""
        try:
            await self.engine.close()
        except Exception as error:
            log.error("Actor %r: its engine cannot be closed: %s", self.kernel_id, text_of(error))
        finally:
            before = self.termination
            if before is not None and is_over and self.engine.is_stopped:
                self.termination = replace(before, stopped=True)
                self.system.ended(self, before)

    async def _run_once(self) -> bool:
        """Run the body until it is over; tell whether it is to be begun anew."""
        ctx = self._context = KernelContext(self)
        try:
            await self.engine.run(ctx)
            ctx.finish_in_hand()
            self._give_up(ctx, self._without_answer(), "unanswered")
            return False
        except asyncio.CancelledError as error:
            if not self.is_ending:
                if not _is_cancelled():
                    return await self._after(error, ctx)
                self._reason = "it was cancelled"
            self._give_up(ctx, self._without_answer(), "cancelled")
            return False
        except QueueTimeoutError as error:
            if error is ctx.last_timeout and self.is_ending:
                self._give_up(ctx, self._without_answer(), "unanswered")
                return True
            if error is ctx.last_timeout and not ctx.open and ctx.in_hand is None:
                await asyncio.sleep(0)  # Nothing came for a while: that is no failure.
                return True
            return await self._after(error, ctx)
        except Exception as error:
            return await self._after(error, ctx)
        finally:
            ctx.retire()

    async def _after(self, error: BaseException, ctx: KernelContext) -> bool:
        """Tell everybody that the body raised, and do what supervision says."""
        what = f"raised {type(error).__name__}: {text_of(error)}"
        failure = KernelFailed(self.kernel_id, what, self._state.name)
        failure.__cause__ = error
        self.telemetry.record_error(error)
        log.error("%s", failure, exc_info=error)
        self._give_up(ctx, failure, "failed")
        delay = self._restarts.next_delay()
        if delay is None:
            self.error = failure
            self._reason = f"it {what}"
            if self.config.supervision.policy == "escalate":
                self.system.escalate(failure)
            return False
        if delay and not self.is_ending:
            try:
                await self._resting.wait(delay)
            except asyncio.CancelledError:
                self._reason = "it was cancelled"
                return False
        self.telemetry.restarts += 1
        if spans.is_on():
            spans.note(self.kernel_id, "restart", time.perf_counter(), 0.0, error=what)
        return True

    def _without_answer(self) -> KernelTerminated:
        state = KernelState.TERMINATING.name
        return KernelTerminated(self.kernel_id, f"ended without an answer: {self._reason}", state)

    def _give_up(self, ctx: KernelContext, error: KernelError, reason: str) -> None:
        """Count what the body has in hand as dropped, and give an error to whoever waits for it."""
        plain = [e for e in (ctx.in_hand, *ctx.held) if e is not None and e.reply is None]
        lost: list[Any] = []
        for envelope in plain:
            self.telemetry.record_drop(reason, envelope.count)
            self._forget(envelope)
            if self.outlet is None and self.outbox.size < self.outbox.maxsize:
                self.outbox.put(Failure(error))
            left = envelope.left()
            lost += left if isinstance(left, list) else [left]
        for key, found in list(ctx.open.items()):
            self.close_request(key)
            for envelope in found if isinstance(found, list) else [found]:
                assert envelope.reply is not None
                settle(envelope.reply, error)
                self._forget(envelope)
                self.telemetry.record_drop(reason, envelope.count)
                lost.append(envelope.message)
        if self.is_ending or reason != "failed":
            self._dropped[:0] = lost  # They came before what is queued.
        ctx.open.clear()
        ctx.held.clear()
        ctx.in_hand = None

    def _end(self) -> None:
        """Take note of the end, and tell everybody who waits."""
        if self.termination is not None:
            return
        self.is_ending = True
        self._state, self.is_taking = KernelState.TERMINATING, False
        if self._context is not None:
            self._give_up(self._context, self.error or self._without_answer(), "cancelled")
        for envelope in list(self.inbox.drain()):
            left = envelope.left()
            self._dropped += left if isinstance(left, list) else [left]
            if self.error is not None and envelope.reply is not None:
                settle(envelope.reply, self.error)
            self._drop(envelope, "failed" if self.error is not None else self._reason)
        was_asked = self._reason.startswith("terminated")
        unreceived = self._unreceived() if was_asked else ()
        self.termination = Termination(
            self.kernel_id,
            self.telemetry.messages_processed,
            tuple(self._dropped),
            unreceived,
            self._reason,
        )
        if self._dropped:
            count = sum(getattr(item, "count", 1) for item in self._dropped)
            noun = "message" if count == 1 else "messages"
            log.warning("Actor %r dropped %d %s: %s", self.kernel_id, count, noun, self._reason)
        self._dropped = []
        self._enter(KernelState.TERMINATED)
        self.inbox.senders.wake_all()
        self.inbox.takers.wake_all()
        self.outbox.receivers.wake_all()
        self.system.ended(self)

    def __repr__(self) -> str:
        return f"<RingKernel {self.kernel_id!r} {self._state.name} on {self.engine.name}>"


def _is_cancelled() -> bool:
    """Tell whether it is this task that was cancelled, and not one for which it waited."""
    # Python 3.10 does not tell.
    cancelling = getattr(asyncio.current_task(), "cancelling", lambda: 1)
    return cancelling() > 0

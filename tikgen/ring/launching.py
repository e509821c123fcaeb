"""The lifecycle of a runtime and its actors: start, launch, pause, end."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import get_running_loop
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from tikgen.ring.actors.actor import RingKernel
from tikgen.ring.actors.engine import Engine, HostEngine
from tikgen.ring.actors.queues import raised
from tikgen.ring.actors.status import KernelState, System, Termination
from tikgen.ring.actors.waiting import Clock, clock, left_of
from tikgen.ring.definition import Definition, RingKernelConfig, definition_of
from tikgen.ring.errors import (
    InvalidConfigurationError,
    KernelAlreadyExistsError,
    KernelFailed,
    KernelStateError,
    RuntimeClosed,
    WrongLoop,
)
from tikgen.ring.routing import Routing, in_order
from tikgen.ring.telemetry.kernel_telemetry import TelemetryCollector

_Runtime = TypeVar("_Runtime", bound="Lifecycle")


class Lifecycle(Routing):
    """The part of a runtime that starts and ends, itself and its actors.

    Attributes:
        collector: the telemetry of every actor.
        failure: the failure of an actor whose policy is ``escalate``; ``async with`` raises it.
        terminations: how the last actors ended, the latest at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.collector = TelemetryCollector()
        self.failure: KernelFailed | None = None
        self.terminations: list[Termination] = []
        self._collapse: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        # The task inside `async with`, and whether it was cancelled because of a failure.
        self._user: asyncio.Task[Any] | None = None
        self._is_cut_short = False

    async def __aenter__(self: _Runtime) -> _Runtime:
        await self.start()
        self._user = asyncio.current_task()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        user, self._user = self._user, None
        # After an error nothing more is handled.
        is_good = error is None and self.failure is None
        await self.shutdown(10.0 if is_good else 1.0, drain=is_good)
        if self._is_cut_short:
            # Any other cancellation takes precedence; Python 3.10 does not count them.
            is_ours = not getattr(user, "uncancel", lambda: 0)()
            if is_ours and isinstance(error, asyncio.CancelledError):
                error = None
        if self.failure is not None and (error is None or isinstance(error, Exception)):
            raise raised(self.failure) from (error or self.failure.__cause__)

    async def start(self) -> None:
        """Start it on the running event loop.

        Raises:
            RuntimeClosed: if it was shut down.
            WrongLoop: if it was started on another loop.
        """
        if self._is_over:
            raise RuntimeClosed("start it", True)
        loop = get_running_loop()
        if self.loop not in (None, loop):
            raise WrongLoop("", "start it")
        self.loop = loop

    async def shutdown(self, timeout: float = 10.0, *, drain: bool = True) -> None:
        """End the runtime and all its actors.

        Args:
            timeout: seconds for all of them to handle their queued messages.
            drain: whether to handle queued messages; else they are dropped.
        """
        time_left = clock(timeout)
        if self.loop is None:
            self._is_over = True
            return
        if get_running_loop() is not self.loop:
            raise WrongLoop("", "shut the runtime down")
        if self._closing is None:
            for actor in self._actors.values():
                if actor.status.is_current():
                    raise KernelStateError(
                        actor.kernel_id,
                        actor.state.name,
                        "shut the runtime down from its own body",
                        "let the body return, or raise under the policy 'escalate'",
                    )
            self._is_over = True
            self._closing = self.loop.create_task(self._close(left_of(time_left), drain))
        # It continues when this wait is cancelled.
        await asyncio.shield(self._closing)

    async def _close(self, timeout: float | None, drain: bool) -> None:
        for barrier in self._barriers.values():
            barrier.abort("the runtime was shut down")
        actors = list(self._actors.values())
        time_left = Clock(1e9 if timeout is None else timeout)
        try:
            for actor in actors:
                if drain and actor.state is KernelState.DEACTIVATED:
                    await actor.reactivate()  # Senders may wait for room in its queue.
            for group in in_order(actors) if drain else [actors]:
                left = time_left.left()
                await asyncio.gather(*(a.terminate(left, drain=drain) for a in group))
        finally:
            for actor in actors:
                self._actors.pop(actor.kernel_id, None)

    def escalate(self, failure: KernelFailed) -> None:
        """End every actor because of one that failed; for actors."""
        if self.failure is None and not self._is_over:
            self.failure = failure
            self._collapse = asyncio.ensure_future(self._end_all())

    async def _end_all(self) -> None:
        actors = [actor for actor in self._actors.values() if actor.termination is None]
        await asyncio.gather(*(a.terminate(1.0, drain=False) for a in actors))
        # All waiters of actors are woken. Anything else that `async with` awaits is cancelled.
        if self._user is not None and not self._is_over:
            self._is_cut_short = True
            self._user.cancel()

    def ended(self, end: Termination, before: Termination | None = None) -> None:
        """Record the end of an actor, or replace the record ``before``; for actors."""
        if before is not None:
            self.terminations = [end if old is before else old for old in self.terminations]
            return
        self._topics.unsubscribe(None, end.kernel_id)
        self.terminations.append(end)
        del self.terminations[:-1000]
        for barrier in self._barriers.values():
            barrier.leave(end.kernel_id)

    # Its actors.

    async def launch(
        self,
        kernel_id: str,
        kernel_func: Callable[..., Any] | Definition | None = None,
        *,
        config: RingKernelConfig | None = None,
        input_type: type | None = None,
        output_type: type | None = None,
        **settings: Any,
    ) -> RingKernel:
        """Launch an actor: allocate what it needs. It handles messages after :meth:`activate`.

        Args:
            kernel_id: its name.
            kernel_func: its body, or a definition; None for a registered actor.
            config: all settings at once.
            input_type: class of its messages.
            output_type: class of its replies.
            settings: single settings, as of ``ring_kernel``.

        Raises:
            KernelAlreadyExistsError: if the name is taken.
            KernelNotFoundError: if no actor of that name is registered.
            InvalidConfigurationError: if a setting is unknown or invalid.
            RuntimeClosed: if the runtime is not active.
        """
        self._check_active(kernel_id, "launch it")
        if not isinstance(kernel_id, str):
            raise InvalidConfigurationError("kernel_id", kernel_id, "takes a name")
        before = self._actors.get(kernel_id)
        if before is not None and before.termination is None:
            raise KernelAlreadyExistsError(kernel_id, before.state.name)
        definition = definition_of(kernel_id, kernel_func, config, settings)
        definition = definition.changed(config, input_type, output_type, **settings)
        if definition.config.kernel_id != kernel_id:
            definition = definition.changed(kernel_id=kernel_id)
        engine = _engine_of(definition)
        if before is not None:  # It has ended.
            before.discard_replies()
            self.collector.unregister_kernel(kernel_id)
        actor = RingKernel(definition, engine, cast("System", self))
        self._actors[kernel_id] = actor
        try:
            await actor.launch()
        except BaseException:
            if self._actors.get(kernel_id) is actor:
                del self._actors[kernel_id]
                self.collector.unregister_kernel(kernel_id)
            await actor.engine.close()
            raise
        return actor

    async def activate(self, kernel_id: str) -> None:
        """Have a launched actor handle messages."""
        await self._actor(kernel_id, "activate it").activate()

    async def deactivate(self, kernel_id: str) -> None:
        """Pause an active actor: messages are queued, and none is handled."""
        await self._actor(kernel_id, "deactivate it").deactivate()

    async def reactivate(self, kernel_id: str) -> None:
        """Resume a paused actor."""
        await self._actor(kernel_id, "reactivate it").reactivate()

    async def terminate(
        self, kernel_id: str, timeout: float = 5.0, *, drain: bool = True
    ) -> Termination:
        """End an actor and remove it.

        Args:
            kernel_id: its name.
            timeout: seconds to handle queued messages; then its body is cancelled.
            drain: whether to handle queued messages; else they are dropped.

        Returns:
            How it ended, with the messages that it did not handle.
        """
        actor = self._actor(kernel_id, "terminate it")
        try:
            return await actor.terminate(timeout, drain=drain)
        finally:
            if actor.termination is not None and self._actors.get(kernel_id) is actor:
                del self._actors[kernel_id]
                self.collector.unregister_kernel(kernel_id)

    @contextlib.asynccontextmanager
    async def kernel_scope(
        self, kernel_id: str, kernel_func: Callable[..., Any] | None = None, **settings: Any
    ) -> AsyncIterator[RingKernel]:
        """Launch and activate an actor for a block; takes the arguments of :meth:`launch`."""
        actor = await self.launch(kernel_id, kernel_func, **settings)
        try:
            await self.activate(kernel_id)
            yield actor
        finally:
            if self._actors.get(kernel_id) is actor:
                await self.terminate(kernel_id)

    def get_kernel_state(self, kernel_id: str) -> KernelState:
        """Return the state of an actor; one that has ended by itself is TERMINATED."""
        return self._known(kernel_id).state


def _engine_of(definition: Definition) -> Engine:
    """Return the engine of an actor; those of kernels are imported when needed."""
    config = definition.config
    if config.engine == "batch":
        from tikgen.ring.batch.engine import BatchEngine

        return BatchEngine(definition)
    if config.engine == "persistent":
        from tikgen.ring.persistent.engine import PersistentEngine

        return PersistentEngine(definition)
    assert definition.function is not None
    return HostEngine(config.kernel_id, definition.function)

"""The engine of actors whose kernel stays on the device."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from tikgen.ring.actors.context import KernelContext
from tikgen.ring.actors.engine import NOT_NOW, Engine
from tikgen.ring.actors.queues import Envelope, Failure
from tikgen.ring.definition import Definition
from tikgen.ring.errors import (
    BackendNotAvailableError,
    ColumnError,
    InvalidConfigurationError,
    KernelError,
    KernelFailed,
    KernelTerminated,
    QueueTimeoutError,
    RingError,
)
from tikgen.ring.messages.checks import resolved_annotations
from tikgen.ring.messages.columns import Columns, columns_of, own_columns, pack
from tikgen.ring.persistent.flights import Flight, Flights
from tikgen.ring.persistent.ring import PersistentRing
from tikgen.ring.telemetry.kernel_telemetry import text_of

# Waiting for replies: the first polls only yield to the event loop, later ones sleep longer.
_QUICK_LOOKS = 50
_STEP, _MOST_SECONDS = 2e-5, 0.002
# Seconds for which the event loop waits for a kernel to pause, which may be busy.
_PAUSE_SECONDS = 0.001
# A kernel that is busy for longer ends by itself later.
_CLOSE_SECONDS = 0.5


class PersistentEngine(Engine):
    """Moves queued messages into a ring, and distributes the replies.

    A request that finds the ring empty bypasses the queue: its reply is usually there before
    another task runs.
    """

    name = "persistent"
    is_direct = True

    def __init__(self, definition: Definition) -> None:
        config = definition.config
        self._kernel_id = config.kernel_id
        self._input_type, self._output_type = definition.message_types()
        if definition.function is not None or "handler" not in config.options:
            raise InvalidConfigurationError(
                "handler",
                definition.function,
                "engine='persistent' takes handler='y = 2*x', or a RingBody, and no function",
            )
        self._inputs = columns_of(self._input_type)
        self._outputs = columns_of(self._output_type)
        if not self._inputs or not self._outputs:
            raise InvalidConfigurationError(
                "output_type" if self._inputs else "input_type",
                self._output_type if self._inputs else self._input_type,
                "takes a message with a number in it",
            )
        names = tuple(column.name for column in self._outputs)
        annotations = resolved_annotations(self._output_type)
        self._flags = {name for name in names if annotations[name] is bool}
        in_order = getattr(self._output_type, "__match_args__", ())[: len(names)]
        self._is_plain = names == in_order and not self._flags
        self._options = dict(config.options)
        self._ring = self._new_ring()
        self._value_of = attrgetter(*(column.name for column in self._inputs))
        self._packed = {c.name: np.zeros(self._ring.capacity, c.dtype.numpy) for c in self._inputs}
        self._flights = Flights(self._outputs, self._output_type)
        # Envelopes that are held and not in the ring yet, and how many of their messages are.
        self._todo: deque[tuple[Envelope, int]] = deque()
        self._ctx: KernelContext | None = None
        self._is_closed = False

    @property
    def ring(self) -> PersistentRing:
        """Return the ring, for its state."""
        return self._ring

    @property
    def is_stopped(self) -> bool:
        """Return whether the kernel has ended."""
        return self._ring.is_over

    def _new_ring(self) -> PersistentRing:
        return PersistentRing(self._kernel_id, self._inputs, self._outputs, **self._options)

    async def prepare(self) -> None:
        """Compile, prove and start the kernel, which takes a while the first time."""
        await asyncio.to_thread(self._start, self._ring)

    def _start(self, ring: PersistentRing) -> None:
        ring.start()
        if self._is_closed:  # Closed meanwhile.
            _stop(ring)

    def block(self, messages: Any) -> tuple[Any, int]:
        """Return columns, or a list of messages."""
        if not isinstance(messages, Mapping):
            return super().block(messages)
        made = own_columns(messages, self._inputs, self._input_type, self._kernel_id)
        return made, made.count

    def pause(self) -> None:
        """Have the kernel take no further message."""
        with contextlib.suppress(RingError):  # It is busy, or has ended.
            self._ring.pause(_PAUSE_SECONDS)

    def resume(self) -> None:
        """Have the kernel take messages again."""
        with contextlib.suppress(RingError):
            self._ring.resume(_PAUSE_SECONDS)

    async def close(self) -> None:
        """End the kernel."""
        self._is_closed = True
        await asyncio.to_thread(_stop, self._ring)

    def answer_now(self, message: Any) -> Any:
        """Return the reply to a message, or a future of it; ``NOT_NOW`` if it has to be queued."""
        ctx = self._ctx
        if self._flights or ctx is None or ctx.held:
            return NOT_NOW
        try:
            found = self._ring.try_call(*self._values(message))
        except (KernelTerminated, BackendNotAvailableError):
            return NOT_NOW  # The body will raise it, for supervision.
        if found is None:
            return NOT_NOW
        is_there, values = found
        if is_there:
            return self._reply(values, message)
        # The handler takes longer: the reply is collected later.
        reply = asyncio.get_running_loop().create_future()
        envelope = Envelope(message, 128, time.perf_counter_ns(), reply)
        self._flights.add(Flight(envelope, 1, [message], ctx=ctx, is_direct=True))
        ctx.nudge()
        return reply

    def _values(self, message: Any) -> tuple[Any, ...]:
        found = self._value_of(message)
        return (found,) if len(self._inputs) == 1 else found

    def _reply(self, values: Any, message: Any) -> Any:
        if not self._is_plain:
            row = values if len(self._outputs) > 1 else (values,)
            fields = {c.name: value for c, value in zip(self._outputs, row, strict=True)}
            fields.update({name: bool(fields[name]) for name in self._flags})
            return self._output_type(**fields, correlation_id=message.message_id)
        if len(self._outputs) == 1:
            return self._output_type(values, correlation_id=message.message_id)
        return self._output_type(*values, correlation_id=message.message_id)

    async def run(self, ctx: KernelContext) -> None:
        """Feed the ring and distribute replies until the actor ends."""
        await self._begin()
        self._ctx = ctx
        looks = 0
        try:
            while True:
                if self._flights or self._todo:
                    found = ctx.hold_now(self._ring.capacity)
                else:
                    found = await ctx.hold(self._ring.capacity)
                self._todo += [(envelope, 0) for envelope in found]
                self._push(ctx)
                landed = await self._collect(ctx)
                looks = 0 if landed else looks + 1
                if self._ring.status == "paused" and not ctx.is_active:
                    await ctx.wait_active()
                elif self._flights or self._todo:
                    is_quick = looks < _QUICK_LOOKS
                    await asyncio.sleep(0 if is_quick else min(looks * _STEP, _MOST_SECONDS))
        except BaseException as error:
            self._flights.abandon(self._failure(error))
            raise
        finally:
            self._ctx = None

    def _failure(self, error: BaseException) -> KernelError:
        """Return the error of requests in the ring that bypassed the queue."""
        if not isinstance(error, Exception):
            return KernelTerminated(self._kernel_id, "ended without an answer", "TERMINATING")
        made = KernelFailed(self._kernel_id, f"raised {type(error).__name__}: {text_of(error)}")
        made.__cause__ = error
        return made

    async def _begin(self) -> None:
        """Discard what an earlier run has left; start another kernel if its kernel has ended."""
        self._todo.clear()
        if not self._ring.is_alive:
            self._flights.clear()
            await asyncio.to_thread(_stop, self._ring)
            self._ring = self._new_ring()
            await self.prepare()

    def _push(self, ctx: KernelContext) -> None:
        """Put held messages into the ring while there is room."""
        ring = self._ring
        while self._todo and (room := ring.free):
            envelope, done = self._todo.popleft()
            count = min(room, envelope.count - done)
            start = envelope.start + done
            if isinstance(envelope.block, Columns):
                messages = None
                ring.push_columns(envelope.block.part(start, start + count))
            else:
                messages = self._messages(envelope, start, count)
                try:
                    if count == 1:
                        ring.push(*self._values(messages[0]))
                    else:
                        pack(messages, self._inputs, self._packed)
                        ring.push_columns({name: a[:count] for name, a in self._packed.items()})
                except ColumnError as error:
                    self._split(envelope, done, error, ctx)
                    continue
            is_last = done + count == envelope.count
            self._flights.add(Flight(envelope, count, messages, is_last, ctx))
            if not is_last:
                self._todo.appendleft((envelope, done + count))

    @staticmethod
    def _messages(envelope: Envelope, start: int, count: int) -> list[Any]:
        if envelope.block is None:
            return [envelope.message]
        return list(envelope.block[start : start + count])

    def _split(self, envelope: Envelope, done: int, error: ColumnError, ctx: KernelContext) -> None:
        """Push messages one by one, of which one does not fit its column; fail that one."""
        if envelope.count == 1:
            error = error.of(self._kernel_id)
            ctx.telemetry.record_error(error)
            if envelope.reply is not None:
                ctx.requests.fail(envelope, error)
                ctx.let_go(envelope)
                return
            failure = KernelFailed(self._kernel_id, f"could not take a message: {error}")
            failure.__cause__ = error
            # In order: after the replies to earlier messages.
            self._flights.add(Flight(envelope, 0, None, ctx=ctx, failure=Failure(failure)))
            return
        left = envelope.block[envelope.start + done : envelope.start + envelope.count]
        parts = [Envelope(m, envelope.priority, envelope.sent) for m in left]
        envelope.count = done
        ctx.hold_too(envelope, parts)
        self._todo.extendleft((part, 0) for part in reversed(parts))

    async def _collect(self, ctx: KernelContext) -> bool:
        """Distribute available replies; return whether there were any."""
        count = self._ring.ready
        columns = {}
        if count:
            columns = self._ring.take(count)
            ctx.telemetry.batch_sizes.record(count)
        elif not self._ring.is_alive:
            self._ring.take()  # Raises the reason.
        elif not self._flights.has_failure_first:
            return False
        for block, size in self._flights.land(columns, count):
            await ctx.put_out_block(block, size)
        return True


def _stop(ring: PersistentRing) -> None:
    """End a kernel; one that is busy ends later, in a thread."""
    try:
        ring.stop(_CLOSE_SECONDS)
    except QueueTimeoutError:
        threading.Thread(target=ring.stop, args=(None,), daemon=True).start()

"""The engine of actors whose body is a kernel that handles queued messages in one launch."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen.ring.actors.context import KernelContext
from tikgen.ring.actors.engine import Engine
from tikgen.ring.actors.queues import Envelope, Failure
from tikgen.ring.actors.waiting import ActorStop
from tikgen.ring.batch.runner import BatchRunner
from tikgen.ring.definition import Definition
from tikgen.ring.errors import InvalidConfigurationError, KernelFailed, QueueTimeoutError
from tikgen.ring.messages.columns import Columns, own_columns
from tikgen.ring.telemetry import spans
from tikgen.ring.telemetry.kernel_telemetry import text_of

MAX_BATCH = 4096
# Seconds that the first message of a batch waits for more.
MAX_DELAY = 0.001


class BatchEngine(Engine):
    """Gathers up to ``max_batch`` messages, or for ``max_delay`` seconds, and launches.

    A block of columns is one batch, however many messages it holds.
    """

    name = "batch"

    def __init__(self, definition: Definition) -> None:
        config = definition.config
        options = config.options
        self._kernel_id = config.kernel_id
        input_type, output_type = definition.message_types()
        self._max_delay = options.get("max_delay", MAX_DELAY)
        delay = self._max_delay
        if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay < 1e6:
            raise InvalidConfigurationError("max_delay", delay, "takes seconds that are not < 0")
        self._constants = dict(options.get("constants") or {})
        self._runner = BatchRunner(
            config.kernel_id,
            _body(definition),
            input_type,
            output_type,
            max_batch=options.get("max_batch", MAX_BATCH),
            constants=self._constants,
        )

    async def prepare(self) -> None:
        """Compile the kernel, to report its errors before messages come."""
        if self._runner.is_function or any(map(np.ndim, self._constants.values())):
            return  # It may keep state, which zeros would change.
        columns = self._runner.input_columns
        self._runner.run_columns({c.name: np.zeros(c.shape(1), c.dtype.numpy) for c in columns})
        self._runner.device_seconds = 0.0

    def block(self, messages: Any) -> tuple[Any, int]:
        """Return columns, or a list of messages."""
        if not isinstance(messages, Mapping):
            return super().block(messages)
        runner = self._runner
        made = own_columns(messages, runner.input_columns, runner.input_type, self._kernel_id)
        return made, made.count

    async def run(self, ctx: KernelContext) -> None:
        """Gather and launch until the actor ends."""
        most = self._runner.max_batch
        while True:
            await self._gather(ctx, most)
            await ctx.wait_active()
            while ctx.held:
                first = ctx.held[0]
                if isinstance(first.block, Columns):
                    await self._answer_columns(ctx, first)
                else:
                    await self._answer_messages(ctx)
            await asyncio.sleep(0)  # Other tasks run between launches.

    async def _gather(self, ctx: KernelContext, most: int) -> None:
        """Take queued messages, and wait for more while their deadlines allow it."""
        found = await ctx.hold(most)
        if not self._max_delay:
            return
        now = asyncio.get_running_loop().time
        end, count = now() + self._max_delay, 0
        while True:
            for envelope in found:
                count += envelope.count
                if envelope.deadline:
                    left = (envelope.deadline - time.perf_counter_ns()) * 1e-9
                    end = min(end, now() + left)
            left = end - now()
            if count >= most or left <= 0 or isinstance(ctx.held[-1].block, Columns):
                return
            try:
                found = await ctx.hold(most - count, left)
            except (QueueTimeoutError, ActorStop):
                return

    async def _answer_columns(self, ctx: KernelContext, envelope: Envelope) -> None:
        arrays = self._timed(envelope.count, ctx, lambda: self._runner.run_columns(envelope.left()))
        runner = self._runner
        block = Columns(arrays, runner.output_columns, runner.output_type, envelope.count)
        ctx.release(1)
        await ctx.put_out_block(block, envelope.count)

    async def _answer_messages(self, ctx: KernelContext) -> None:
        """Answer the held messages before the first columns."""
        taken = list(itertools.takewhile(lambda e: not isinstance(e.block, Columns), ctx.held))
        messages = [m for e in taken for m in ((e.message,) if e.block is None else e.left())]
        replies = self._timed(len(messages), ctx, lambda: self._runner.run(messages))
        answers = iter(replies)
        out: list[Any] = []
        for envelope in taken:
            for answer in itertools.islice(answers, envelope.count):
                is_error = isinstance(answer, Exception)
                if envelope.reply is None:
                    out.append(self._failure(ctx, answer) if is_error else answer)
                elif is_error:
                    ctx.requests.fail(envelope, answer)
                else:
                    ctx.answer_held(envelope, answer)
        ctx.release(len(taken))
        if out:
            await ctx.put_out_block(out, len(out))

    def _failure(self, ctx: KernelContext, error: Exception) -> Failure:
        made = KernelFailed(self._kernel_id, f"could not take a message: {error}")
        made.__cause__ = error
        ctx.telemetry.record_error(error)
        return Failure(made)

    def _timed(self, count: int, ctx: KernelContext, launch: Any) -> Any:
        start, before = time.perf_counter(), self._runner.device_seconds
        details: dict[str, Any] = {"messages": count}
        try:
            result = launch()
            details["device_seconds"] = self._runner.device_seconds - before
            ctx.telemetry.record_batch(count, details["device_seconds"])
            return result
        except Exception as error:
            details["error"] = f"{type(error).__name__}: {text_of(error)}"
            raise
        finally:
            if spans.is_on():
                seconds = time.perf_counter() - start
                spans.note(self._kernel_id, "batch", start, seconds, **details)


def _body(definition: Definition) -> Any:
    """Return the kernel or function that is the body of an actor."""
    options = definition.config.options
    body, params = options.get("body"), options.get("params")
    if definition.function is not None:
        if body is not None:
            raise InvalidConfigurationError("body", body, "there is a function already")
        return definition.function
    if body is None:
        raise InvalidConfigurationError(
            "body", None, "engine='batch' takes a kernel, the name of a template, or a function"
        )
    if isinstance(body, str):
        from tikgen.pipeline.builder import build

        return build(body, **(params or {}))
    if params is not None:
        raise InvalidConfigurationError("params", params, "is for a body that names a template")
    return body

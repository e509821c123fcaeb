"""The end of actors: cleanup, escalation, tasks of a body, messages to itself."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from ring_samples import Note, check_sums, echo, error_of, fail, play, started, turns, until
from tikgen.ring import KernelContext, RingKernelRuntime, ring_kernel
from tikgen.ring.errors import (
    InvalidConfigurationError,
    KernelFailed,
    KernelTerminated,
    QueueFullError,
    QueueTimeoutError,
    ReplyError,
    TypeValidationError,
)

# Cleanup.


async def _catches(ctx: KernelContext, told: list[str]) -> None:
    while not ctx.should_terminate:
        try:
            note = await ctx.receive(timeout=60)
            await ctx.send(note)
        except Exception:
            continue
    told.append("cleaned up")


async def _passes_on(ctx: KernelContext, told: list[str]) -> None:
    while not ctx.should_terminate:
        await ctx.send(await ctx.receive(timeout=60))
    told.append("cleaned up")


async def _takes_many(ctx: KernelContext, told: list[str]) -> None:
    while not ctx.should_terminate:
        with contextlib.suppress(QueueTimeoutError):
            await ctx.send_many(await ctx.receive_many(3, timeout=60))
    told.append("cleaned up")


async def _iterates(ctx: KernelContext, told: list[str]) -> None:
    async for note in ctx:
        await ctx.send(note)
    told.append("cleaned up")


async def _at_last(ctx: KernelContext, told: list[str]) -> None:
    try:
        while not ctx.should_terminate:
            await ctx.send(await ctx.receive())
    finally:
        told.append("cleaned up")


@pytest.mark.parametrize("body", [_catches, _passes_on, _takes_many, _iterates, _at_last])
@pytest.mark.parametrize("state", ["waiting", "queued", "paused"])
def test_code_after_the_loop_of_a_body_runs_once_at_the_end(body: Any, state: str) -> None:
    told: list[str] = []

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", lambda ctx: body(ctx, told))
            await runtime.send("a", Note(1))
            assert (await runtime.receive("a")).n == 1
            if state == "paused":
                await runtime.deactivate("a")
            if state != "waiting":
                await runtime.send_many("a", [Note(2), Note(3)])
            ending = asyncio.ensure_future(runtime.terminate("a", timeout=1000))
            end = await asyncio.wait_for(ending, 15)
            assert told == ["cleaned up"]
            assert end.reason == "terminated" and end.stopped and not end.dropped
            assert [note.n for note in end.unreceived] == ([] if state == "waiting" else [2, 3])
            assert actor.telemetry.error_count == 0
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("looks", [True, False])
def test_a_body_with_an_endless_loop_is_ended(looks: bool) -> None:
    rounds = 0

    async def body(ctx: KernelContext) -> None:
        nonlocal rounds
        while not (looks and ctx.should_terminate) or rounds < 10**6:
            try:
                await ctx.receive(timeout=60)
            except Exception:
                rounds += 1

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", body)
            await turns()
            end = await asyncio.wait_for(runtime.terminate("a", timeout=1000), 15)
            assert end.stopped and rounds <= 200

    play(main)


def test_open_requests_get_an_error_when_the_body_ends() -> None:
    told: list[str] = []

    async def body(ctx: KernelContext) -> None:
        while not ctx.should_terminate:
            await ctx.receive(timeout=60)
        told.append("cleaned up")

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            asked = asyncio.ensure_future(runtime.send_and_receive("a", Note()))
            await turns()
            await runtime.terminate("a")
            assert "ended without an answer" in str(await error_of(asked))
            assert told == ["cleaned up"] and actor.telemetry.restarts == 0
            check_sums(actor)

    play(main)


# Escalation.


@pytest.mark.parametrize("waits_for", ["an event", "a sleep", "another actor"])
def test_escalation_ends_the_block_that_waits(waits_for: str) -> None:
    async def wait(runtime: RingKernelRuntime) -> None:
        if waits_for == "an event":
            await asyncio.Event().wait()
        elif waits_for == "a sleep":
            await asyncio.sleep(1000)
        else:
            await runtime.receive("b")

    async def main() -> None:
        task = asyncio.current_task()
        with pytest.raises(KernelFailed, match="bad 7") as caught:
            async with RingKernelRuntime() as runtime:
                await started(runtime, "a", fail, supervision="escalate")
                await started(runtime, "b", echo)
                await runtime.send("a", Note(7))
                await wait(runtime)
        assert isinstance(caught.value.__cause__, ValueError | KernelTerminated)
        assert task is not None and not getattr(task, "cancelling", lambda: 0)()
        await asyncio.sleep(0)  # It continues.

    play(main)


def test_a_cancellation_takes_precedence_over_an_escalation() -> None:
    async def main() -> None:
        async def block() -> None:
            async with RingKernelRuntime() as runtime:
                await started(runtime, "a", fail, supervision="escalate")
                await runtime.send("a", Note(7))
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    if hasattr(task, "cancelling"):
                        task.cancel()
                    raise

        task = asyncio.ensure_future(block())
        await asyncio.wait({task}, timeout=15)
        assert task.done()
        if hasattr(task, "cancelling"):
            assert task.cancelled()
        else:
            assert isinstance(task.exception(), KernelFailed)

    play(main)


def test_an_escalation_after_the_block_has_no_effect() -> None:
    async def main() -> None:
        with pytest.raises(KernelFailed, match="bad 7"):
            async with RingKernelRuntime() as runtime:
                actor = await started(runtime, "a", fail, supervision="escalate")
                await runtime.send("a", Note(7))
                await until(lambda: actor.status.error)
        await turns()

    play(main)


# Tasks that a body has started.


@pytest.mark.parametrize("what", ["ambiguous", "of another type", "of another type, to one"])
def test_an_invalid_reply_of_a_task_fails_its_callers(what: str) -> None:
    errors: list[Any] = []

    async def reply(ctx: KernelContext, to: Any) -> None:
        named = {"to": to} if what.endswith("one") else {}
        await ctx.send(Note() if what == "ambiguous" else "no note", **named)

    async def body(ctx: KernelContext) -> None:
        first = await ctx.receive()
        await ctx.receive()
        task = asyncio.ensure_future(reply(ctx, first))
        errors.append(await error_of(task))
        async for note in ctx:
            await ctx.send(note, to=note)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body, output_type=Note)
            asked = [asyncio.ensure_future(runtime.send_and_receive("a", Note(n))) for n in (1, 2)]
            expected = ReplyError if what == "ambiguous" else TypeValidationError
            assert isinstance(await error_of(asyncio.wait_for(asked[0], 5)), expected)
            assert isinstance(errors[0], expected)
            if what.endswith("one"):
                assert not asked[1].done()
            else:
                assert isinstance(await error_of(asyncio.wait_for(asked[1], 5)), expected)
            assert (await runtime.send_and_receive("a", Note(3))).n == 3
            await runtime.terminate("a")
            await error_of(asked[1])
            check_sums(actor)

    play(main)


def test_a_body_may_catch_an_ambiguous_reply() -> None:
    async def body(ctx: KernelContext) -> None:
        notes = [await ctx.receive(), await ctx.receive()]
        with pytest.raises(ReplyError):
            await ctx.send(Note())
        for note in notes:
            await ctx.send(Note(-note.n), to=note)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", body)
            asked = [runtime.send_and_receive("a", Note(n)) for n in (1, 2)]
            assert [note.n for note in await asyncio.gather(*asked)] == [-1, -2]

    play(main)


# An actor that sends to itself.


@pytest.mark.parametrize(
    "how", ["tell", "send", "send_many", "publish", "broadcast", "tell in a task"]
)
def test_an_actor_cannot_wait_for_room_in_its_own_queue(how: str) -> None:
    errors: list[Any] = []
    runtime = RingKernelRuntime()

    def sending(ctx: KernelContext) -> Any:
        if how == "publish":
            return ctx.publish("me", Note(9))
        if how == "broadcast":
            return runtime.broadcast(Note(9), ["a"])
        if how == "send_many":
            return runtime.send_many("a", [Note(9)])
        return runtime.send("a", Note(9)) if how == "send" else ctx.tell("a", Note(9))

    async def body(ctx: KernelContext, note: Note) -> None:
        if note.n == 1:
            await until(lambda: ctx._inbox.is_full)
            made = sending(ctx)
            errors.append(await error_of(asyncio.create_task(made) if "task" in how else made))

    async def main() -> None:
        async with runtime:
            actor = await started(runtime, "a", body, input_queue_size=2)
            runtime.subscribe("me", "a")
            await runtime.deactivate("a")
            waiting = [asyncio.ensure_future(runtime.send("a", Note(n))) for n in (1, 2, 3)]
            await turns()
            await runtime.reactivate("a")
            await asyncio.wait_for(asyncio.gather(*waiting), 5)
            await until(lambda: errors)
            assert isinstance(errors[0], QueueFullError), errors
            assert "sends to itself, and would wait forever" in str(errors[0])
            await until(lambda: not actor.mailbox.inbox.size)
            check_sums(actor)

    play(main)


def test_an_actor_may_send_to_itself_if_there_is_room() -> None:
    async def body(ctx: KernelContext, note: Note) -> Note | None:
        if note.n:
            assert await ctx.tell("a", Note(note.n - 1))
            return None
        return note

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", body, input_queue_size=1)
            await runtime.send("a", Note(5))
            assert (await runtime.receive("a", timeout=5)).n == 0

    play(main)


# Bodies that would never run.


def test_bodies_with_yield_are_refused() -> None:
    async def asynchronous(ctx: KernelContext) -> Any:
        yield await ctx.receive()

    def plain(ctx: KernelContext) -> Any:
        yield 1

    class Called:
        __name__ = "called"

        async def __call__(self, ctx: KernelContext, note: Note) -> Any:
            yield note

    for body in (asynchronous, plain, Called()):
        with pytest.raises(InvalidConfigurationError, match="contains `yield`"):
            ring_kernel(kernel_id="never", auto_register=False)(body)
    with pytest.raises(InvalidConfigurationError, match="contains `yield`"):
        ring_kernel(engine="batch", input_type=Note, output_type=Note, auto_register=False)(plain)

"""Requests: each gets its own reply or an error; deadlines and repeated ids."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np
import pytest

from ring_samples import (
    Note,
    check_sums,
    echo,
    error_of,
    fail,
    play,
    started,
    swallow,
    turns,
    until,
)
from tikgen.ring import KernelContext, RingKernelRuntime
from tikgen.ring.errors import (
    DeadlineExceeded,
    KernelFailed,
    KernelTerminated,
    MessageDropped,
    QueueFullError,
    QueueTimeoutError,
    ReplyError,
    RingError,
)


def test_a_request_without_a_reply_raises() -> None:
    async def forgetful(ctx: KernelContext) -> None:
        await ctx.receive()

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            declined = await started(runtime, "declines", swallow)
            error = await error_of(runtime.send_and_receive("declines", Note()))
            assert isinstance(error, ReplyError) and error.kernel_id == "declines"
            check_sums(declined)
            forgets = await started(runtime, "forgets", forgetful)
            error = await error_of(runtime.send_and_receive("forgets", Note()))
            assert isinstance(error, KernelTerminated) and "without an answer" in str(error)
            check_sums(forgets)

    play(main)


def test_an_ambiguous_reply_is_refused() -> None:
    async def careless(ctx: KernelContext) -> None:
        first, second = await ctx.receive(), await ctx.receive()
        await ctx.send(Note(first.n + second.n))

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", careless)
            both = await asyncio.gather(
                *(runtime.send_and_receive("a", Note(n)) for n in range(2)), return_exceptions=True
            )
            assert [type(error) for error in both] == [KernelFailed] * 2
            assert isinstance(both[0].__cause__, ReplyError) and "to=" in str(both[0])
            check_sums(actor)

    play(main)


def test_a_reply_to_a_message_that_was_asked_twice_goes_to_the_first() -> None:
    async def body(ctx: KernelContext) -> None:
        note, again, third = [await ctx.receive() for _ in range(3)]
        assert note is again is third
        for n in (1, 2, 3):
            await ctx.send(Note(n), to=note)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            note = Note()
            found = await asyncio.gather(*(runtime.send_and_receive("a", note) for _ in range(3)))
            assert [reply.n for reply in found] == [1, 2, 3]
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("how", ["twice", "after it failed", "after it was forgotten"])
def test_a_late_reply_does_not_reach_receive(how: str) -> None:
    tasks: list[Any] = []

    async def body(ctx: KernelContext) -> None:
        request = await ctx.receive()
        if how == "twice":
            await ctx.send(Note(1), to=request)
            await ctx.send(Note(2), to=request)
        elif how == "after it failed":
            if not tasks:

                async def later() -> None:
                    await asyncio.sleep(0.02)
                    await ctx.send(Note(2), to=request)

                tasks.append(asyncio.ensure_future(later()))
                raise ValueError("first")
        else:
            held = [request] + [await ctx.receive() for _ in range(1299)]
            for old in held:
                await ctx.send(Note(2), to=old)
        await ctx.receive()

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            count = 1300 if how == "after it was forgotten" else 1
            timeout = 0.05 if count > 1 else None
            await asyncio.gather(
                *(runtime.send_and_receive("a", Note(), timeout=timeout) for _ in range(count)),
                return_exceptions=True,
            )
            await asyncio.gather(*tasks)
            await turns()
            assert actor.mailbox.outbox.size == 0
            assert isinstance(await error_of(runtime.receive("a", timeout=0.01)), QueueTimeoutError)

    play(main)


def test_receive_many_counts_each_request_once() -> None:
    async def body(ctx: KernelContext) -> None:
        while not ctx.should_terminate:
            for note in await ctx.receive_many():
                await ctx.send(note.reply(n=note.n), to=note)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            replies = await asyncio.gather(
                *(runtime.send_and_receive("a", Note(n)) for n in range(17)),
            )
            assert [reply.n for reply in replies] == list(range(17))
            assert actor.telemetry.messages_processed == 17
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "9"])
def test_an_invalid_number_of_messages_is_refused(most: Any) -> None:
    async def body(ctx: KernelContext) -> None:
        await ctx.receive_many(most)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", body, supervision="stop")
            error = await error_of(runtime.send_and_receive("a", Note(), timeout=5))
            assert isinstance(error, RingError) and "most=" in str(error)

    play(main)


def test_receive_many_returns_failures_as_errors() -> None:
    async def odd(ctx: KernelContext, note: Note) -> Note:
        if note.n % 2:
            raise ValueError(str(note.n))
        return note

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", odd)
            await runtime.send_many("a", [Note(n) for n in range(4)])
            came: list[Any] = []
            while len(came) < 4:
                came += await runtime.receive_many("a", timeout=5)
            kinds = [type(found) for found in came]
            assert kinds == [Note, KernelFailed, Note, KernelFailed]

    play(main)


def test_expired_messages_are_not_handled(rng: np.random.Generator) -> None:
    seen: list[int] = []

    async def body(ctx: KernelContext, note: Note) -> Note:
        seen.append(note.n)
        return note

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            await runtime.deactivate("a")
            late = asyncio.ensure_future(runtime.send_and_receive("a", Note(1), deadline=0.001))
            good = asyncio.ensure_future(runtime.send_and_receive("a", Note(2), deadline=60.0))
            await turns()
            await runtime.send("a", Note(3), deadline=-math.inf)
            await runtime.send_many("a", [Note(4), Note(5)], deadline=0.001)
            await asyncio.sleep(0.01)
            await runtime.reactivate("a")
            error = await error_of(late)
            assert isinstance(error, DeadlineExceeded) and error.kernel_id == "a"
            assert (await good).n == 2 and seen == [2]
            assert actor.telemetry.messages_expired == 4
            check_sums(actor)

    play(main)


def test_ageing_prevents_the_starvation_of_low_priorities() -> None:
    async def main() -> None:
        for ageing, is_starved in ((1e-6, False), (None, True)):
            seen: list[int] = []

            async def body(ctx: KernelContext, note: Note, seen: list[int] = seen) -> None:
                seen.append(note.n)
                if note.n > 0 and note.n < 1000:
                    await ctx.tell(ctx.kernel_id, Note(note.n + 1, priority=255))

            async with RingKernelRuntime() as runtime:
                actor = await started(runtime, "a", body, ageing=ageing)
                await runtime.deactivate("a")
                await runtime.send("a", Note(1, priority=255))
                await runtime.send("a", Note(0, priority=0))
                await asyncio.sleep(0.001)
                await runtime.reactivate("a")
                await until(lambda actor=actor: actor.telemetry.messages_processed == 1001)
            assert (seen.index(0) == 1000) is is_starved

    play(main)


def test_a_repeated_message_is_handled_once_and_answered_each_time() -> None:
    seen: list[int] = []

    async def body(ctx: KernelContext, note: Note) -> Note:
        seen.append(note.n)
        await asyncio.sleep(0.01)
        return Note(note.n + 1)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body, deduplicate=3)
            note = Note(1)
            replies = await asyncio.gather(
                *(runtime.send_and_receive("a", note) for _ in range(3)),
            )
            replies.append(await runtime.send_and_receive("a", note))
            assert [reply.n for reply in replies] == [2] * 4 and seen == [1]
            assert await runtime.send("a", note) is False
            assert await runtime.send_many("a", [note, note]) == 0
            await asyncio.gather(*(runtime.send("a", Note(n)) for n in (2, 3, 4)))
            assert await runtime.send("a", note) is True  # Three others were sent since.
            await until(lambda: len(seen) == 5)
            await turns(50)
            assert actor.telemetry.messages_duplicate == 6
            plain = Note(7)
            await runtime.send("a", plain)
            error = await error_of(runtime.send_and_receive("a", plain))
            assert isinstance(error, MessageDropped)
            await until(lambda: len(seen) == 6)
            await asyncio.sleep(0.02)
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_retry_after_a_time_out_gets_the_reply(how: str) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        seen: list[int] = []

        async def body(ctx: KernelContext, note: Note) -> Note:
            seen.append(note.n)
            await gate.wait()
            return Note(note.n + 1)

        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body, deduplicate=8)
            note = Note(1)
            timeout = 0.01 if how == "timeout" else None
            first = asyncio.ensure_future(runtime.send_and_receive("a", note, timeout=timeout))
            await turns()
            second = asyncio.ensure_future(runtime.send_and_receive("a", note, timeout=5))
            await turns()
            if how == "cancel":
                first.cancel()
            await asyncio.wait({first})
            await turns()
            third = asyncio.ensure_future(runtime.send_and_receive("a", note, timeout=5))
            await turns()
            gate.set()
            assert [(await second).n, (await third).n] == [2, 2]
            assert seen == [1]
            await error_of(first)
            await turns()
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("how", ["full", "expired", "drop_newest", "no room in time", "given up"])
def test_a_message_that_was_not_handled_may_be_sent_again(how: str) -> None:
    seen: list[int] = []

    async def body(ctx: KernelContext, note: Note) -> Note:
        seen.append(note.n)
        return note

    async def main() -> None:
        policy = {"full": "reject", "drop_newest": "drop_newest"}.get(how, "block")
        async with RingKernelRuntime() as runtime:
            settings = {"deduplicate": 9, "input_queue_size": 1, "backpressure": policy}
            actor = await started(runtime, "a", body, **settings)
            await runtime.deactivate("a")
            note = Note(7)
            if how not in ("expired", "given up"):
                await runtime.send("a", Note(0))
            if how == "full":
                assert isinstance(await error_of(runtime.send("a", note)), QueueFullError)
            elif how == "drop_newest":
                assert await runtime.send("a", note) is False
            elif how == "no room in time":
                assert isinstance(await error_of(runtime.send("a", note, timeout=0)), TimeoutError)
            elif how == "expired":
                await runtime.send("a", note, deadline=0.0)
            else:
                assert await error_of(runtime.send_and_receive("a", note, timeout=0.01))
            await runtime.reactivate("a")
            await turns()
            if 7 not in seen:  # A cancelled request may have been handled.
                assert await runtime.send("a", note) is True
            await until(lambda: 7 in seen)
            await turns()
            assert seen.count(7) == 1
            check_sums(actor)

    play(main)


def test_cancelled_requests_leave_nothing_behind(rng: np.random.Generator) -> None:
    async def slow(ctx: KernelContext, note: Note) -> Note:
        await turns(int(rng.integers(3)))
        return note.reply(n=note.n)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", slow, input_queue_size=2)
            for steps in range(40):
                asked = [
                    asyncio.ensure_future(
                        runtime.send_and_receive("a", Note(n), timeout=0 if n % 5 == 4 else None)
                    )
                    for n in range(7)
                ]
                await turns(steps % 20)
                for task in asked[:: 1 + steps % 3]:
                    task.cancel()
                for n, task in enumerate(asked):
                    error = await error_of(task)
                    if error is None:
                        assert task.result().n == n
                    else:
                        assert isinstance(error, (asyncio.CancelledError, QueueTimeoutError))
                assert (await runtime.send_and_receive("a", Note(99), timeout=5)).n == 99
            await turns()
            assert actor.mailbox.inbox.size == 0 and actor.mailbox.outbox.size == 0
            assert not actor.mailbox.inbox.senders.futures
            assert actor._context is not None and not actor._context.requests.by_key
            check_sums(actor)

    play(main)


def test_an_answered_request_keeps_no_message_alive() -> None:
    import gc
    import weakref

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", echo)
            note = Note(1)
            found = weakref.ref(note)
            await runtime.send_and_receive("a", note)
            del note
            await runtime.send_and_receive("a", Note(2))
            await turns()
            gc.collect()
            assert found() is None

    play(main)


@pytest.mark.parametrize("deduplicate", [0, 8])
def test_a_request_that_fails_fails_for_each_caller(deduplicate: int) -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            settings = {"deduplicate": deduplicate, "supervision": "restart"}
            actor = await started(runtime, "a", fail, **settings)
            note = Note(1)
            asked = (error_of(runtime.send_and_receive("a", note)) for _ in range(2))
            errors = await asyncio.gather(*asked)
            assert [type(error) for error in errors] == [KernelFailed] * 2
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("policy", ["drop_newest", "reject"])
def test_a_request_that_finds_no_room_may_be_sent_again(policy: str) -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            settings = {"input_queue_size": 1, "backpressure": policy, "deduplicate": 8}
            await started(runtime, "a", echo, **settings)
            await runtime.deactivate("a")
            await runtime.send("a", Note(0))
            note = Note(7)
            error = await error_of(runtime.send_and_receive("a", note))
            assert isinstance(error, (MessageDropped, QueueFullError))
            await runtime.reactivate("a")
            await turns(50)
            assert (await runtime.send_and_receive("a", note)).n == 7

    play(main)


def test_blocks_of_several_priorities_come_in_their_order() -> None:
    seen: list[int] = []

    async def body(ctx: KernelContext, note: Note) -> None:
        seen.append(note.n)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body, input_queue_size=64)
            await runtime.deactivate("a")
            notes = [Note(n, priority=priority) for n, priority in enumerate((9, 9, 200, 9))]
            assert await runtime.send_many("a", notes) == 4
            await runtime.reactivate("a")
            await until(lambda: len(seen) == 4)
            assert seen == [2, 0, 1, 3]
            check_sums(actor)

    play(main)

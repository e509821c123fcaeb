"""Full queues: every lost message is counted, no one waits forever, and order is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from ring_samples import Note, check_sums, echo, error_of, play, started, swallow, turns, until
from tikgen.ring import KernelContext, RingKernelRuntime, message
from tikgen.ring.actors.queues import Envelope
from tikgen.ring.errors import QueueFullError, QueueTimeoutError


@message
class Row:
    """A message of one number."""

    n: int = 0


POLICIES = ("block", "reject", "drop_oldest", "drop_newest")
MANY = 200_000


@pytest.mark.some
@pytest.mark.parametrize("policy", POLICIES)
def test_200_000_messages_against_a_slow_consumer(policy: str, rng: np.random.Generator) -> None:
    handled: list[int] = []

    async def slow(ctx: KernelContext) -> None:
        while not ctx.should_terminate:
            handled.extend(note.n for note in await ctx.receive_many(1 + int(rng.integers(900))))
            await asyncio.sleep(0)
            if rng.random() < 0.02:
                await asyncio.sleep(0.001)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", slow, input_queue_size=997, backpressure=policy)
            sent = refused = 0
            while sent < MANY:
                count = min(int(rng.integers(1, 700)), MANY - sent)
                notes = [Note(n) for n in range(sent, sent + count)]
                sent += count
                if rng.random() < 0.8:
                    try:
                        refused += count - await runtime.send_many("a", notes)
                    except QueueFullError as error:
                        assert policy == "reject"
                        refused += count - error.taken  # type: ignore[attr-defined]
                else:
                    for note in notes:
                        error = await error_of(runtime.send("a", note))
                        refused += error is not None
                if rng.random() < 0.7:
                    await asyncio.sleep(0)
            end = await runtime.terminate("a", timeout=15)
            told = actor.telemetry
            check_sums(actor)
            assert end.dropped == () and told.messages_received == MANY
            lost = told.messages_dropped + told.messages_rejected
            assert len(handled) == told.messages_processed == MANY - lost
            # Each arrived once, and in order.
            assert bool((np.diff(handled) > 0).all())
            if policy == "block":
                assert lost == 0 and refused == 0
            elif policy == "reject":
                assert told.messages_rejected == refused > 0 and told.messages_dropped == 0
            else:
                assert told.dropped == {policy: lost} and lost > 0

    play(main, 30)


def test_a_receiver_that_waits_is_woken_by_a_blocked_sender() -> None:
    async def main() -> None:
        for size in (1, 2, 4, 7):
            sent_all = asyncio.Event()

            async def body(ctx: KernelContext, done: asyncio.Event = sent_all) -> None:
                await ctx.receive()
                await done.wait()
                while not ctx.should_terminate:
                    await ctx.receive()

            async with RingKernelRuntime() as runtime:
                await started(runtime, "a", body, input_queue_size=size)
                for n in range(size + 1):  # The last one has room after one was taken.
                    await runtime.send("a", Note(n), timeout=5)
                sent_all.set()

    play(main)


def test_a_body_that_waits_for_room_for_a_reply_continues_at_once() -> None:
    async def main() -> None:
        for size in (1, 4, 7):
            async with RingKernelRuntime() as runtime:
                await started(runtime, "a", echo, output_queue_size=size)
                for n in range(size + 1):
                    await runtime.send("a", Note(n))
                await turns()
                assert (await runtime.receive("a")).n == 0
                reply = await runtime.send_and_receive("a", Note(99), timeout=5)
                assert reply.n == 99
                assert [(await runtime.receive("a")).n for _ in range(size)] == [
                    *range(1, size + 1)
                ]

    play(main)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("how", ["a list", "repeated ids", "columns"])
def test_send_many_follows_the_policy_of_a_full_queue(policy: str, how: str) -> None:
    """A queue of two, and five messages, single or in a block: two fit."""

    def same(columns: Any) -> Any:
        return columns

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            settings: dict[str, Any] = {"input_queue_size": 2, "backpressure": policy}
            if how == "repeated ids":
                settings["deduplicate"] = 100
            if how == "columns":
                settings |= {"engine": "batch", "input_type": Row, "output_type": Row}
            actor = await started(runtime, "a", same if how == "columns" else echo, **settings)
            await runtime.deactivate("a")
            many: Any = {"n": list(range(5))} if how == "columns" else [Note(n) for n in range(5)]
            sending = runtime.send_many("a", many, timeout=0.05 if policy == "block" else None)
            found: Any = await error_of(sending)
            told = actor.telemetry
            if policy == "block":
                assert isinstance(found, QueueTimeoutError) and found.taken == 2
            elif policy == "reject":
                assert isinstance(found, QueueFullError) and found.taken == 2
                assert (found.kernel_id, found.queue_size) == ("a", 2)
            else:
                assert found is None and told.dropped == {policy: 3}
            assert actor.mailbox.inbox.size == 2
            if how != "repeated ids":  # There the first refusal ends the sending.
                assert told.messages_rejected == (3 if policy in ("block", "reject") else 0)
            await runtime.terminate("a", drain=False)
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("how", ["single", "block"])
def test_several_receivers_share_a_block(how: str) -> None:
    async def body(ctx: KernelContext) -> None:
        while True:
            note = await ctx.receive()
            if how == "block":
                await ctx.send_many([Note(n) for n in range(note.n)])
            else:
                for n in range(note.n):
                    await ctx.send(Note(n))

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", body)
            waiting = [asyncio.ensure_future(runtime.receive("a")) for _ in range(5)]
            await turns()
            waiting.pop(2).cancel()
            await runtime.send("a", Note(4))
            came = await asyncio.wait_for(asyncio.gather(*waiting), 5)
            assert [note.n for note in came] == [0, 1, 2, 3]

    play(main)


def test_several_tasks_of_a_body_share_a_block() -> None:
    async def body(ctx: KernelContext) -> None:
        together = [0]
        all_there = asyncio.Event()

        async def one() -> None:
            await ctx.receive()
            together[0] += 1
            if together[0] == 5:
                all_there.set()
            await all_there.wait()

        await asyncio.gather(*(one() for _ in range(5)))
        await ctx.send(Note(together[0]))

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", body)
            await turns()
            await runtime.send_many("a", [Note(n) for n in range(5)])
            assert (await runtime.receive("a", timeout=5)).n == 5

    play(main)


def test_blocked_senders_keep_their_order_when_others_take_the_room() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", swallow, input_queue_size=4)
            await runtime.deactivate("a")
            await runtime.send_many("a", [Note(-1) for _ in range(4)])
            blocked = [asyncio.ensure_future(runtime.send("a", Note(n))) for n in range(6)]
            await turns()
            came: list[int] = []
            while len(came) < 16:
                while actor.mailbox.inbox.size:
                    came.append(actor.mailbox.inbox.pop().message.n)
                    actor.mailbox.inbox.taken()
                if len(came) < 6:  # Take the room that the woken senders would get.
                    actor.mailbox.inbox.put(Envelope(Note(-1), 128, 0))
                    actor.mailbox.inbox.put(Envelope(None, 128, 0, None, 0, [Note(-1)] * 3, 3))
                await turns()
                if not actor.mailbox.inbox.size and all(task.done() for task in blocked):
                    break
            assert [n for n in came if n >= 0] == list(range(6))
            await asyncio.wait_for(asyncio.gather(*blocked), 5)

    play(main)


def test_a_time_out_covers_a_whole_block_and_reports_how_many_were_taken() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", swallow, input_queue_size=3)
            await runtime.deactivate("a")
            notes = [Note(n) for n in range(10)]
            error: Any = await error_of(runtime.send_many("a", notes, timeout=0.02))
            assert isinstance(error, QueueTimeoutError) and error.taken == 3
            check_sums(actor)
            assert actor.mailbox.inbox.size == 3 and actor.telemetry.messages_rejected == 7

            async def slow(ctx: KernelContext, note: Note) -> None:
                await asyncio.sleep(0.05)

            await started(runtime, "slow", slow, input_queue_size=1)
            error = await error_of(
                asyncio.wait_for(
                    runtime.send_many("slow", [Note(n) for n in range(1000)], timeout=0.2), 10
                )
            )
            assert isinstance(error, QueueTimeoutError) and 1 <= error.taken < 100
            await runtime.terminate("slow", 0.01, drain=False)

    play(main)


@pytest.mark.parametrize("how", ["terminate", "cancel", "raise"])
def test_blocked_senders_are_woken_when_the_actor_ends(how: str) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def body(ctx: KernelContext) -> None:
            await gate.wait()
            raise ValueError("no")

        runtime = RingKernelRuntime()
        await runtime.start()
        settings = {"input_queue_size": 1, "supervision": "stop"}
        actor = await started(runtime, "a", body, **settings)
        await runtime.send("a", Note())
        blocked = [asyncio.ensure_future(runtime.send("a", Note(n))) for n in range(3)]
        blocked.append(asyncio.ensure_future(runtime.send_and_receive("a", Note())))
        blocked.append(asyncio.ensure_future(runtime.send_many("a", [Note(), Note()])))
        await turns()
        if how == "terminate":
            await runtime.terminate("a", 0.01)
        elif how == "cancel":
            assert actor.status.task is not None
            actor.status.task.cancel()
        else:
            gate.set()
        errors = [await error_of(asyncio.wait_for(task, 5)) for task in blocked]
        names = {type(error).__name__ for error in errors}
        assert names <= {"KernelStateError", "KernelTerminated", "KernelFailed"}, errors
        check_sums(actor)
        await runtime.shutdown()

    play(main)


def test_cancelled_senders_lose_no_wake_up(rng: np.random.Generator) -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", swallow, input_queue_size=2)
            for steps in range(30):
                await runtime.deactivate("a")
                tasks = [asyncio.ensure_future(runtime.send("a", Note(n))) for n in range(9)]
                tasks.append(
                    asyncio.ensure_future(runtime.send_many("a", [Note(n) for n in range(5)]))
                )
                await turns(2)
                await runtime.reactivate("a")
                await turns(steps % 10)
                for place in rng.choice(len(tasks), 4, replace=False):
                    tasks[place].cancel()
                await asyncio.wait(tasks, timeout=10)
                assert all(task.done() for task in tasks)
                await until(lambda: not actor.mailbox.inbox.size)
                assert await runtime.send("a", Note(), timeout=5)
                await turns(3)
            check_sums(actor)
            assert not actor.mailbox.inbox.senders.futures

    play(main)


def test_repeated_waiting_leaves_no_futures() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", echo)
            for n in range(50):
                task = asyncio.ensure_future(runtime.receive("a", timeout=None if n % 2 else 60))
                await turns(2)
                task.cancel()
                await turns(2)
                await error_of(runtime.receive("a", timeout=0))
            assert not actor.mailbox.outbox.receivers.futures

    play(main)


def test_blocks_do_not_starve_a_blocked_sender() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", swallow, input_queue_size=4)
            await runtime.deactivate("a")
            await runtime.send_many("a", [Note(n) for n in range(4)])
            waiting = asyncio.ensure_future(runtime.send("a", Note(77)))
            await turns()
            blocks = []
            for _ in range(20):  # A block always waits when there is room for one message.
                actor.mailbox.inbox.pop()
                blocks.append(asyncio.ensure_future(runtime.send_many("a", [Note(1)])))
                actor.mailbox.inbox.taken()
                await turns()
            assert waiting.done()
            for task in (waiting, *blocks):
                task.cancel()

    play(main)


def test_dropping_messages_does_not_starve_the_actor() -> None:
    handled: list[int] = []

    async def body(ctx: KernelContext, note: Note) -> None:
        handled.append(note.n)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            for policy in ("drop_oldest", "drop_newest"):
                handled.clear()
                options = {"backpressure": policy, "input_queue_size": 2}
                actor = await started(runtime, policy, body, **options)
                for n in range(100_000):  # It never awaits anything else.
                    await runtime.send(policy, Note(n))
                    if len(handled) > 5:
                        break
                assert len(handled) > 5
                await runtime.deactivate(policy)
                await runtime.send_many(policy, [Note(), Note()])
                tasks = [asyncio.ensure_future(runtime.send(policy, Note())) for _ in range(3)]
                await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                check_sums(actor)

    play(main)

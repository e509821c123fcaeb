"""Actors, runtimes and shutdowns that are cancelled, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from ring_samples import (
    Note,
    check_sums,
    echo,
    error_of,
    play,
    started,
    turns,
    until,
)
from tikgen.ring import KernelContext, KernelState, RingKernelRuntime
from tikgen.ring.errors import (
    KernelFailed,
    KernelStateError,
    KernelTerminated,
    MessageDropped,
    RuntimeClosed,
)

CANCELLED = asyncio.CancelledError


def test_what_was_in_hand_of_a_cancelled_body_is_reported() -> None:
    async def body(ctx: KernelContext) -> None:
        await ctx.receive()
        await asyncio.sleep(1000)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            await runtime.send("a", Note(7))
            await turns()
            end = await runtime.terminate("a", 0.01)
            assert [note.n for note in end.dropped] == [7]
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("how", ["terminate", "shutdown", "launch"])
def test_replies_that_nobody_received_of_an_actor_that_ended_by_itself_are_told(how: str) -> None:
    async def body(ctx: KernelContext) -> None:
        await ctx.send_many([Note(n) for n in range(3)])

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            await until(lambda: actor.termination)
            assert (await runtime.receive("a")).n == 0
            if how == "terminate":
                end = await runtime.terminate("a")
                assert [note.n for note in end.unreceived] == [1, 2]
            elif how == "launch":
                await runtime.launch("a", echo)
        told = [[note.n for note in end.unreceived] for end in runtime.terminations]
        assert told == ([[1, 2], []] if how == "launch" else [[1, 2]])
        assert actor.termination is runtime.terminations[0]

    play(main)


def test_a_reply_that_waits_for_room_when_its_actor_is_cut_short_is_told() -> None:
    async def stuck(ctx: KernelContext, note: Note) -> None:
        await asyncio.sleep(1000)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", echo)
            await started(runtime, "b", stuck, input_queue_size=1)
            runtime.connect("a", "b")
            for n in range(4):  # One in hand of the next actor, one in its queue.
                await runtime.send("a", Note(n))
            await turns()
            end = await runtime.terminate("a", 0.01)
            assert [note.n for note in end.unreceived] == [2]
            assert [note.n for note in end.dropped] == [3]
            await runtime.terminate("b", 0, drain=False)

    play(main)


@pytest.mark.parametrize("how", ["raises", "waits in vain"])
def test_tasks_that_a_body_left_behind_take_no_messages_of_the_next_run(how: str) -> None:
    runs = 0
    late: list[Any] = []

    async def body(ctx: KernelContext) -> None:
        nonlocal runs
        runs += 1
        if runs > 1:
            while not ctx.should_terminate:
                await ctx.send(await ctx.receive())

        async def steal() -> None:
            while True:
                late.append(await ctx.receive())

        late.extend(asyncio.ensure_future(steal()) for _ in range(2))
        await asyncio.sleep(0)
        late.append(ctx)
        if how == "raises":
            raise ValueError("no")
        await ctx.receive(timeout=0.001)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            await until(lambda: runs == 2)
            found = [await runtime.send_and_receive("a", Note(n), timeout=60) for n in range(5)]
            assert [note.n for note in found] == list(range(5)) and len(late) == 3
            ctx = late.pop()
            assert ctx.should_terminate and not ctx.is_active
            for call in (ctx.receive(), ctx.receive(timeout=60), ctx.receive_many()):
                assert isinstance(await error_of(asyncio.ensure_future(call)), CANCELLED)
            await asyncio.wait(late, timeout=60)
            assert all(task.cancelled() for task in late)
            check_sums(actor)

    play(main)


def test_an_actor_cannot_end_itself_or_its_runtime_but_lives_on() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:

            async def body(ctx: KernelContext, note: Note) -> Note:
                ending = runtime.terminate("a") if note.n else runtime.shutdown()
                assert isinstance(await error_of(ending), KernelStateError)
                return note

            await started(runtime, "a", body)
            for n in range(2):
                assert (await runtime.send_and_receive("a", Note(n), timeout=60)).n == n
            assert runtime.is_active

    play(main)


def test_a_shutdown_that_is_cancelled_can_be_done_again() -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def body(ctx: KernelContext) -> None:
            await ctx.receive()
            await gate.wait()

        runtime = RingKernelRuntime()
        await runtime.start()
        actor = await started(runtime, "a", body)
        asked = asyncio.ensure_future(runtime.send_and_receive("a", Note()))
        await turns()
        first = await error_of(asyncio.wait_for(runtime.shutdown(0.1), 0.02))
        assert isinstance(first, asyncio.TimeoutError)
        await runtime.shutdown(0.1)
        assert actor.state is KernelState.TERMINATED
        assert isinstance(await error_of(asyncio.wait_for(asked, 60)), KernelTerminated)
        assert isinstance(await error_of(runtime.send("a", Note())), RuntimeClosed)

    play(main)


@pytest.mark.parametrize("steps", range(0, 16, 3))
def test_a_terminate_that_is_cancelled_at_any_moment_can_be_done_again(steps: int) -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:

            async def body(ctx: KernelContext, note: Note) -> Note:
                await asyncio.sleep(0)
                return note

            actor = await started(runtime, "a", body)
            asked = [
                asyncio.ensure_future(runtime.send_and_receive("a", Note(n))) for n in range(5)
            ]
            await turns(2)
            ending = asyncio.ensure_future(runtime.terminate("a"))
            await turns(steps)
            ending.cancel()
            await error_of(ending)
            if "a" in runtime.kernel_ids:
                await runtime.terminate("a")
            for n, task in enumerate(asked):
                error = await error_of(asyncio.wait_for(task, 60))
                if error is None:
                    assert task.result().n == n
                else:  # What is cancelled ends at once.
                    assert isinstance(error, (KernelTerminated, MessageDropped))
            assert actor.state is KernelState.TERMINATED
            check_sums(actor)

    play(main)


def test_a_body_of_which_an_awaited_task_was_cancelled_tells_its_callers() -> None:
    async def body(ctx: KernelContext, note: Note) -> Note:
        task = asyncio.ensure_future(asyncio.sleep(1000))
        if not note.n:
            task.cancel()
            await task
        task.cancel()
        return note

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            error = await error_of(runtime.send_and_receive("a", Note(), timeout=60))
            if sys.version_info < (3, 11):  # It is taken for an end of the actor.
                assert isinstance(error, KernelTerminated)
            else:
                assert isinstance(error, KernelFailed)
                assert isinstance(error.__cause__, CANCELLED)
                assert (await runtime.send_and_receive("a", Note(1), timeout=60)).n == 1
                assert actor.telemetry.restarts == 1
            check_sums(actor)

    play(main)


SCRIPT = """
import asyncio, sys
from tikgen.ring import RingKernelRuntime, Supervision, message

@message
class Note:
    n: int = 0

async def slow(ctx, note):
    if note.n == 1:
        raise ValueError("ordered")
    await asyncio.sleep(1000)

async def main():
    runtime = RingKernelRuntime()
    async def inner():
        backing_off = Supervision(backoff=1000.0, max_backoff=1000.0)
        for name in ("a", "b", "c"):
            await runtime.launch(name, slow, supervision=backing_off)
            await runtime.activate(name)
        for _ in range(3):
            await runtime.send("a", Note(0))
        await runtime.send("b", Note(1))
        await asyncio.sleep(0.05)
        print("ready", flush=True)
        if sys.argv[1] == "leave":
            return
        await runtime.send_and_receive("a", Note(0))
    if sys.argv[1] == "leave":
        await runtime.start()
        await inner()
    else:
        async with runtime:
            try:
                await inner()
            finally:
                print("seen", flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to a child")
@pytest.mark.parametrize("how", ["interrupt", "leave"])
def test_nothing_hangs_after_ctrl_c_or_when_a_runtime_is_left_running(how: str) -> None:
    script = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{SCRIPT}"
    running = subprocess.Popen(
        [sys.executable, "-u", "-c", script, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        if how == "interrupt":
            running.send_signal(signal.SIGINT)
        out, told = running.communicate(timeout=240)
    finally:
        running.kill()
    assert "never retrieved" not in told and "pending" not in told, told
    if how == "interrupt":
        assert out == "seen\n" and "KeyboardInterrupt" in told and running.returncode != 0
    else:
        assert running.returncode == 0, told

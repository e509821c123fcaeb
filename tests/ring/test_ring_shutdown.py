"""Actors and runtimes that end, or do not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from ring_samples import (
    Note,
    check_sums,
    echo,
    error_of,
    play,
    started,
    turns,
)
from tikgen.ring import KernelContext, KernelState, RingKernelRuntime
from tikgen.ring.errors import (
    KernelFailed,
    KernelStateError,
    KernelTerminated,
    MessageDropped,
    RuntimeClosed,
)


def test_an_actor_cannot_terminate_itself_or_its_runtime() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:

            async def body(ctx: KernelContext, note: Note) -> Note:
                ending = runtime.terminate("a") if note.n else runtime.shutdown()
                assert isinstance(await error_of(ending), KernelStateError)
                return note

            await started(runtime, "a", body)
            for n in range(2):
                assert (await runtime.send_and_receive("a", Note(n), timeout=5)).n == n
            assert runtime.is_active

    play(main)


def test_a_cancelled_shutdown_can_be_repeated() -> None:
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
        assert isinstance(await error_of(asyncio.wait_for(asked, 5)), KernelTerminated)
        assert isinstance(await error_of(runtime.send("a", Note())), RuntimeClosed)

    play(main)


@pytest.mark.parametrize("steps", range(0, 16, 3))
def test_a_cancelled_terminate_can_be_repeated(steps: int) -> None:
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
                error = await error_of(asyncio.wait_for(task, 5))
                if error is None:
                    assert task.result().n == n
                else:  # A cancelled body ends at once.
                    assert isinstance(error, (KernelTerminated, MessageDropped))
            assert actor.state is KernelState.TERMINATED
            check_sums(actor)

    play(main)


def test_callers_get_an_error_when_a_task_of_the_body_is_cancelled() -> None:
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
            error = await error_of(runtime.send_and_receive("a", Note(), timeout=5))
            if sys.version_info < (3, 11):  # It counts as an end of the actor.
                assert isinstance(error, KernelTerminated)
            else:
                assert isinstance(error, KernelFailed)
                assert isinstance(error.__cause__, asyncio.CancelledError)
                assert (await runtime.send_and_receive("a", Note(1), timeout=5)).n == 1
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


def test_a_thousand_actors_start_and_end() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            for n in range(1000):
                await started(runtime, str(n), echo)
            assert len(asyncio.all_tasks()) >= 1000
            replies = await asyncio.gather(
                *(runtime.send_and_receive(str(n), Note(n)) for n in range(1000))
            )
            assert [reply.n for reply in replies] == list(range(1000))
        assert len(runtime.terminations) == 1000 and not runtime.kernel_ids

    play(main)

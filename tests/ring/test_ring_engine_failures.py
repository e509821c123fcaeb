"""Kernels of actors that fail, end or are busy."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from engine_samples import (
    HELD,
    SECONDS,
    In,
    Out,
    answers,
    begin,
    let_go,
    run,
    stays,
    twice,
    until,
)
from engine_samples import _brief_proofs as _brief_proofs
from tikgen.ring.errors import (
    DeadlineExceeded,
    KernelFailed,
    KernelTerminated,
    QueueTimeoutError,
)
from tikgen.ring.persistent import heartbeat, words
from tikgen.ring.persistent import lifetime as life
from tikgen.ring.persistent.ring import PersistentRing
from tikgen.ring.runtime import RingKernelRuntime

pytest_plugins = ["one_compiler"]
pytestmark = pytest.mark.usefixtures("one_compiler")

# Supervision.


@pytest.mark.parametrize("policy", ["restart", "stop"])
def test_a_function_that_raises_is_supervised(policy: str) -> None:
    def half(columns: Any) -> Any:
        if 13 in columns["x"]:
            raise RuntimeError("the device has vanished")
        return {"y": columns["x"] // 2}

    async def main(runtime: RingKernelRuntime) -> None:
        settings = {"input_type": In, "output_type": Out, "supervision": policy, "max_delay": 0}
        actor = await begin(runtime, "half", half, engine="batch", **settings)
        with pytest.raises(KernelFailed, match="RuntimeError: the device has vanished") as caught:
            await runtime.send_and_receive("half", In(x=13))
        assert isinstance(caught.value.__cause__, RuntimeError)
        if policy == "stop":
            with pytest.raises(KernelFailed, match="vanished"):
                await runtime.send_and_receive("half", In(x=2))
            return
        await runtime.send_many("half", {"x": [1, 13]})
        found = await runtime.receive_many("half")
        assert len(found) == 1 and isinstance(found[0], KernelFailed)
        assert (await runtime.send_and_receive("half", In(x=6))).y == 3
        told = actor.telemetry
        assert (told.restarts, told.error_count, told.messages_processed) == (2, 2, 1)
        assert told.dropped == {"failed": 3}

    run(main)


@stays
@pytest.mark.parametrize("how", ["watchdog", "device"])
def test_a_kernel_that_has_ended_is_restarted(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        with monkeypatch.context() as patch:
            if how == "watchdog":
                patch.setattr(heartbeat.Heartbeat, "beat", lambda self: None)
            actor = await begin(runtime, "a", **twice("persistent", watchdog=SECONDS))
            first = actor.engine.ring
            assert (await runtime.send_and_receive("a", In(x=0))).y == 1
            if how == "watchdog":
                first._words[words.LIMIT] = 2  # The watchdog ends after so many polls.
            else:
                first._words[words.COMMAND] = words.END
            await until(lambda: not first.is_alive)
        problem = "no heartbeat" if how == "watchdog" else "was stopped"
        with pytest.raises(KernelFailed, match=problem):
            await runtime.send_and_receive("a", In(x=1))
        assert (await runtime.send_and_receive("a", In(x=2))).y == 5
        await runtime.send_many("a", {"x": [1, 2]})
        assert await answers(runtime, "a", 2) == [3, 5]
        assert actor.telemetry.restarts == 1
        assert actor.engine.ring is not first and not first._launch.close.alive

    run(main)


@stays
def test_replies_of_a_failed_body_are_discarded() -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        async def ignore(ctx: Any, reply: Out) -> None:
            pass

        actor = await begin(runtime, "a", **twice("persistent"))
        await begin(runtime, "b", ignore, input_type=Out)
        runtime.connect("a", "b")
        await runtime.deactivate("b")
        await runtime.terminate("b")
        push = actor.engine.ring.push

        def one_by_one(x: int) -> None:
            number = push(x)
            while x != HELD and actor.engine.ring.done <= number:
                time.sleep(0)

        actor.engine.ring.push = one_by_one  # So that the kernel takes them in two batches.
        await runtime.send("a", In(x=1))  # Its reply fails, which ends the body
        await runtime.send("a", In(x=HELD))  # while the kernel handles this one.
        await until(lambda: actor.telemetry.restarts == 1)
        runtime.connect("a", None)
        let_go(actor)
        asked = [runtime.send_and_receive("a", In(x=x)) for x in (5, 6)]
        assert [reply.y for reply in await asyncio.gather(*asked)] == [11, 13]
        assert (await runtime.send_and_receive("a", In(x=7))).y == 15
        with pytest.raises(QueueTimeoutError):
            await runtime.receive("a", timeout=0.01)
        assert actor.engine.ring.state == {"count": 5}

    run(main)


# Time-outs, and kernels that are busy.


def test_a_late_reply_of_a_batch_is_discarded(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("batch", max_delay=0.2))
        with pytest.raises(QueueTimeoutError):
            await runtime.send_and_receive("a", In(x=1), timeout=0.01)
        given_up = asyncio.ensure_future(runtime.send_and_receive("a", In(x=2)))
        await asyncio.sleep(0.01)
        given_up.cancel()
        assert (await runtime.send_and_receive("a", In(x=3))).y == 7
        assert actor.telemetry.late_replies == 2
        await runtime.deactivate("a")
        with pytest.raises(DeadlineExceeded):
            await runtime.send_and_receive("a", In(x=4), deadline=0.01)
        await runtime.reactivate("a")
        assert (await runtime.send_and_receive("a", In(x=5))).y == 11
        assert actor.telemetry.messages_expired == 1

    run(main)


@stays
def test_a_busy_kernel_blocks_no_other_actor_and_its_late_replies_are_discarded() -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("persistent"))
        with pytest.raises(QueueTimeoutError):
            await runtime.send_and_receive("a", In(x=HELD), timeout=0.01)
        given_up = asyncio.ensure_future(runtime.send_and_receive("a", In(x=HELD)))
        await asyncio.sleep(0.01)
        await runtime.deactivate("a")
        assert actor.engine.ring.done == 0  # It is still busy, and was not waited for.
        await runtime.reactivate("a")
        given_up.cancel()
        last = asyncio.ensure_future(runtime.send_and_receive("a", In(x=3)))
        await asyncio.sleep(0.01)
        assert not last.done()
        let_go(actor)
        assert (await last).y == 7
        told = actor.telemetry
        assert told.late_replies == 1 + (not told.dropped.get("given up"))
        assert told.messages_received == told.messages_processed + told.messages_dropped

    run(main)


@stays
def test_terminate_does_not_wait_for_a_busy_kernel() -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("persistent"))
        straight = asyncio.ensure_future(runtime.send_and_receive("a", In(x=HELD)))
        await asyncio.sleep(0)
        queued = asyncio.ensure_future(runtime.send_and_receive("a", In(x=1)))
        await asyncio.sleep(0.01)
        ended = await runtime.terminate("a", timeout=0.02)
        assert "not done within 0.02 s" in ended.reason
        for asked in (straight, queued):
            with pytest.raises(KernelTerminated, match="ended without an answer"):
                await asked
        assert not ended.stopped  # Its body has ended, and its kernel is still busy.
        let_go(actor)

    run(main)


@stays
def test_a_cancelled_launch_leaves_no_kernel(ti_arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    load = life.load_ring

    def slowly(*args: Any) -> Any:
        begun.set()
        assert go_on.wait(SECONDS)
        return load(*args)

    rings: list[PersistentRing] = []
    launched = PersistentRing._launched

    def note(self: PersistentRing, runtime: Any) -> Any:
        rings.append(self)
        return launched(self, runtime)

    monkeypatch.setattr(life, "load_ring", slowly)
    monkeypatch.setattr(PersistentRing, "_launched", note)

    async def main(runtime: RingKernelRuntime) -> None:
        task = asyncio.ensure_future(runtime.launch("a", **twice("persistent")))
        await until(begun.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert runtime.kernel_ids == []
        go_on.set()
        await until(lambda: bool(rings) and rings[0].status == "stopped")

    run(main)

"""Actors that are kernels: in batches, or persistent on the device."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.errors import UnsupportedOnArch
from tikgen.ring.definition import Definition, RingKernelConfig
from tikgen.ring.errors import (
    ColumnError,
    DeadlineExceeded,
    InvalidConfigurationError,
    KernelFailed,
    KernelStateError,
    KernelTerminated,
    MessageDropped,
    QueueTimeoutError,
    RuntimeClosed,
    TypeValidationError,
)
from tikgen.ring.messages.base import message
from tikgen.ring.persistent import heartbeat, making, words
from tikgen.ring.persistent import lifetime as life
from tikgen.ring.persistent.engine import PersistentEngine
from tikgen.ring.persistent.handler import RingBody
from tikgen.ring.persistent.ring import PersistentRing
from tikgen.ring.runtime import RingKernelRuntime

# A limit that is never reached, also on a busy machine.
SECONDS = 300.0
# A value that keeps the kernel of `TWICE` busy until an unused control word is not 0.
HELD = 77_777
GATE = words.COMMAND + 8

stays = pytest.mark.skipif(ARCH == "vulkan", reason="no kernel stays on vulkan")
both = pytest.mark.parametrize("engine", ["batch", pytest.param("persistent", marks=stays)])


@message
class In:
    x: int


@message
class Out:
    y: int


@message
class Text:
    text: str


@message
class Flagged:
    flag: bool
    y: int = 0


# One kernel for all tests, because making it takes some seconds.
TWICE = RingBody(
    """
    y = 2 * x + 1
    is_let_go = 0
    while x == {{ held }} and is_let_go == 0:
        #% if is_atomic
        is_let_go = ti.atomic_add(control[{{ gate }}], ring_zero)
        #% else
        ti.simt.grid.memfence()
        is_let_go = control[{{ gate }}]
        #% endif
    count = count + 1
    """,
    params={"held": HELD, "gate": GATE, "is_atomic": ARCH != "cuda"},
)


@pytest.fixture(autouse=True)
def _brief_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "PROOFS", 2)


def run(main: Callable[[RingKernelRuntime], Coroutine[Any, Any, None]]) -> None:
    """Run a test with a runtime, within bounded time, and check for leftovers."""

    async def limited() -> None:
        async with RingKernelRuntime() as runtime:
            try:
                await asyncio.wait_for(main(runtime), SECONDS)
            finally:
                for ring in [*life._rings]:
                    ring._words[GATE] = 1

    asyncio.run(limited())
    end = time.monotonic() + SECONDS
    while any(thread.name.startswith("tikgen-ring-") for thread in threading.enumerate()):
        assert time.monotonic() < end, "a kernel runs on"
        time.sleep(0.01)


def twice(engine: str, **settings: Any) -> dict[str, Any]:
    """Return the settings of an actor that answers y = 2*x + 1."""
    made: dict[str, Any] = {"engine": engine, "input_type": In, "output_type": Out}
    if engine == "persistent":
        made |= {"handler": TWICE, "state": {"count": 0}, "arch": ARCH, "capacity": 64}
    else:
        made |= {"body": tikgen.build("map", expr="y = 2*x + 1", dtype="i32")}
    return made | settings


async def begin(
    runtime: RingKernelRuntime, kernel_id: str, function: Any = None, **settings: Any
) -> Any:
    actor = await runtime.launch(kernel_id, function, **settings)
    await runtime.activate(kernel_id)
    return actor


def let_go(actor: Any) -> None:
    """Release the kernel that was sent ``HELD``."""
    actor.engine.ring._words[GATE] = 1


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)


async def answers(runtime: RingKernelRuntime, kernel_id: str, count: int) -> list[Any]:
    """Return the next replies: numbers, or errors in their place."""
    found: list[Any] = []
    while len(found) < count:
        replies = await runtime.receive_many(kernel_id)
        if isinstance(replies, dict):
            found += replies["y"].tolist()
        else:
            found += [r if isinstance(r, Exception) else r.y for r in replies]
    return found


# Replies.


@both
def test_each_request_gets_its_own_reply(ti_arch: str, engine: str, rng: Any) -> None:
    numbers = rng.integers(-1000, 1000, 257).tolist()

    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice(engine, queue_size=31))
        asked = [runtime.send_and_receive("a", In(x=x)) for x in numbers]
        assert [r.y for r in await asyncio.gather(*asked)] == [2 * x + 1 for x in numbers]
        one = In(x=5)
        reply = await runtime.send_and_receive("a", one)
        assert type(reply) is Out and (reply.y, reply.correlation_id) == (11, one.message_id)
        told = actor.telemetry
        assert told.messages_received == told.messages_processed == 258
        assert told.latencies.count == 258

    run(main)


@both
def test_messages_lists_and_columns_are_answered_in_order(
    ti_arch: str, engine: str, rng: Any
) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        await begin(runtime, "a", **twice(engine, queue_size=61))
        expected: list[int] = []

        async def send() -> None:
            for _ in range(40):
                x = rng.integers(-1000, 1000, rng.integers(1, 90))
                kind = rng.integers(3)
                expected.extend((2 * x + 1).tolist())
                if kind == 0:
                    assert await runtime.send_many("a", {"x": x.astype(np.int32)}) == x.size
                elif kind == 1:
                    assert await runtime.send_many("a", [In(x=n) for n in x.tolist()]) == x.size
                else:
                    for n in x.tolist():
                        assert await runtime.send("a", In(x=n))
            sent.set()

        sent = asyncio.Event()
        task = asyncio.ensure_future(send())
        found: list[int] = []
        while not sent.is_set() or len(found) < len(expected):
            found += await answers(runtime, "a", 1)
        await task
        assert found == expected

    run(main)


@both
def test_single_replies_can_be_received_from_columns(ti_arch: str, engine: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        await begin(runtime, "a", **twice(engine))
        x = np.arange(7, dtype=np.int32)
        await runtime.send_many("a", {"x": x})
        x += 100  # The actor has a copy.
        assert (await runtime.receive("a")).y == 1
        rest = await answers(runtime, "a", 6)
        assert rest == [3, 5, 7, 9, 11, 13]
        assert await runtime.send_many("a", {"x": x[:0]}) == 0

    run(main)


@both
def test_messages_that_do_not_fit_get_an_error_in_place_of_a_reply(
    ti_arch: str, engine: str
) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice(engine))
        await runtime.deactivate("a")
        numbers = [1, 2**40, 3, 4, -(2**40)]
        for x in numbers:
            await runtime.send("a", In(x=x))
        await runtime.send_many("a", [In(x=x) for x in numbers])
        bad = asyncio.ensure_future(runtime.send_and_receive("a", In(x=2**31)))
        good = asyncio.ensure_future(runtime.send_and_receive("a", In(x=9)))
        await asyncio.sleep(0)
        await runtime.reactivate("a")
        found = await answers(runtime, "a", 10)
        assert [f for f in found if isinstance(f, int)] == [3, 7, 9] * 2
        for place in (1, 4, 6, 9):
            assert isinstance(found[place], KernelFailed), found
            cause = found[place].__cause__
            assert isinstance(cause, ColumnError) and cause.kernel_id == "a"
            assert f"{2**40}" in str(cause)
        with pytest.raises(ColumnError, match="column 'x' takes"):
            await bad
        assert (await good).y == 19
        with pytest.raises(ColumnError, match=r"^Actor 'a': column 'x' takes"):
            await runtime.send_and_receive("a", In(x=2**31))
        assert actor.telemetry.restarts == 0

    run(main)


@both
def test_invalid_types_and_columns_are_refused(ti_arch: str, engine: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        await begin(runtime, "a", **twice(engine))
        for wrong in (Out(y=1), In(x=1.5), Text(text="a"), 3, None):  # type: ignore[arg-type]
            with pytest.raises(TypeValidationError):
                await runtime.send("a", wrong)
            with pytest.raises(TypeValidationError):
                await runtime.send_and_receive("a", wrong)
            with pytest.raises(TypeValidationError):
                await runtime.send_many("a", [In(x=1), wrong])
        for columns in ({}, {"y": [1]}, {"x": [1], "z": [1]}, {"x": [1.5]}, {"x": [[1]]}):
            with pytest.raises(ColumnError):
                await runtime.send_many("a", columns)
        assert (await runtime.send_and_receive("a", In(x=1))).y == 3
        for settings, problem in (
            ({"output_type": None}, "takes the class of a message"),
            ({"input_type": Text}, "text"),
        ):
            with pytest.raises((InvalidConfigurationError, ColumnError), match=problem):
                await runtime.launch("b", **twice(engine) | settings)
            assert runtime.kernel_ids == ["a"]

    run(main)


@both
def test_high_priorities_go_first(ti_arch: str, engine: str) -> None:
    one_by_one = {"max_batch": 1} if engine == "batch" else {"capacity": 1}

    async def main(runtime: RingKernelRuntime) -> None:
        await begin(runtime, "a", **twice(engine, ageing=None, **one_by_one))
        await runtime.deactivate("a")
        for x, priority in ((1, 0), (2, 255), (3, 128), (4, 255)):
            await runtime.send("a", In(x=x, priority=priority))
        await runtime.reactivate("a")
        assert await answers(runtime, "a", 4) == [5, 9, 7, 3]

    run(main)


def test_kernels_are_connected_to_other_actors(ti_arch: str, rng: Any) -> None:
    # On cuda no batch is launched while a persistent kernel runs in this process.
    engines = ["batch", "persistent" if ARCH == "cpu" else "batch"]
    x = rng.integers(-1000, 1000, 1009).astype(np.int32)

    async def main(runtime: RingKernelRuntime) -> None:
        found: list[int] = []

        async def collect(ctx: Any, reply: Out) -> None:
            found.append(reply.y)

        rename = tikgen.build("map", expr="x = 2*y + 1", dtype="i32")
        first = {"input_type": Out, "output_type": In, "body": rename}
        await begin(runtime, "first", **twice("batch") | first)
        await begin(runtime, "second", **twice(engines[1]))
        await begin(runtime, "host", collect, input_type=Out)
        runtime.connect("first", "second")
        runtime.connect("second", "host")
        await runtime.send_many("first", {"y": x[:500]})
        await runtime.send_many("first", [Out(y=n) for n in x[500:].tolist()])
        await until(lambda: len(found) == x.size)
        assert found == (2 * (2 * x + 1) + 1).tolist()

    run(main)


# Lifecycle.


@both
def test_a_pause_keeps_messages(ti_arch: str, engine: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice(engine))
        assert (await runtime.send_and_receive("a", In(x=1))).y == 3
        await runtime.deactivate("a")
        asked = asyncio.ensure_future(runtime.send_and_receive("a", In(x=2)))
        await runtime.send("a", In(x=3))
        await runtime.send_many("a", {"x": [4, 5]})
        await asyncio.sleep(0.05)
        assert not asked.done() and actor.mailbox.inbox.size == 4
        assert actor.telemetry.messages_processed == 1
        await runtime.reactivate("a")
        assert (await asked).y == 5
        assert await answers(runtime, "a", 3) == [7, 9, 11]

    run(main)


@both
@pytest.mark.parametrize("drain", [True, False])
def test_terminate_handles_queued_messages_or_reports_them(
    ti_arch: str, engine: str, drain: bool
) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        await begin(runtime, "a", **twice(engine, queue_size=8))
        await runtime.deactivate("a")
        asked = asyncio.ensure_future(runtime.send_and_receive("a", In(x=1)))
        await runtime.send("a", In(x=2))
        await runtime.send_many("a", [In(x=3), In(x=4)])
        await runtime.send_many("a", {"x": [5, 6]})
        await asyncio.sleep(0)
        ended = await runtime.terminate("a", SECONDS, drain=drain)
        dropped = [
            n for m in ended.dropped for n in (m["x"].tolist() if isinstance(m, dict) else [m.x])
        ]
        if drain:
            assert (await asked).y == 3
            assert (ended.processed, dropped) == (6, [])
            got = [
                n
                for m in ended.unreceived
                for n in (m["y"].tolist() if isinstance(m, dict) else [m.y])
            ]
            assert got == [5, 7, 9, 11, 13]
        else:
            with pytest.raises(MessageDropped):
                await asked
            assert (ended.processed, sorted(dropped)) == (0, [1, 2, 3, 4, 5, 6])
        assert ended.stopped

    run(main)


@both
def test_states_and_a_closed_runtime(ti_arch: str, engine: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        await runtime.launch("a", **twice(engine))
        with pytest.raises(KernelStateError, match="LAUNCHED"):
            await runtime.send_and_receive("a", In(x=1))
        with pytest.raises(KernelStateError, match="LAUNCHED"):
            await runtime.send_many("a", {"x": [1]})
        await runtime.activate("a")
        waiting = asyncio.ensure_future(runtime.receive("a"))
        await asyncio.sleep(0)
        await runtime.shutdown()
        with pytest.raises(KernelTerminated):
            await waiting
        for use in (
            runtime.send("a", In(x=1)),
            runtime.send_and_receive("a", In(x=1)),
            runtime.send_many("a", {"x": [1]}),
            runtime.receive_many("a"),
            runtime.launch("b", **twice(engine)),
        ):
            with pytest.raises(RuntimeClosed):
                await use

    run(main)


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
def test_a_cancelled_launch_leaves_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
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


# Batches.


def test_queued_messages_go_into_batches_of_max_batch(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("batch", max_batch=4))
        await runtime.deactivate("a")
        await runtime.send_many("a", [In(x=x) for x in range(10)])
        await runtime.send_many("a", {"x": np.arange(10, 30)})
        await runtime.reactivate("a")
        assert await answers(runtime, "a", 30) == [2 * x + 1 for x in range(30)]
        sizes = actor.telemetry.batch_sizes
        assert (sizes.count, sizes.total, sizes.min, sizes.max) == (4, 30, 2, 20)
        assert actor.telemetry.device_seconds > 0
        assert "device_seconds" in runtime.prometheus()

    run(main)


def test_the_first_message_waits_for_max_delay(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("batch", max_batch=3, max_delay=SECONDS))
        asked = [asyncio.ensure_future(runtime.send_and_receive("a", In(x=x))) for x in (1, 2)]
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in asked)
        assert (await runtime.send_and_receive("a", In(x=3))).y == 7
        assert [(await task).y for task in asked] == [3, 5]
        assert (actor.telemetry.batch_sizes.count, actor.telemetry.batch_sizes.max) == (1, 3)
        # A batch does not wait beyond a deadline, or when the actor ends.
        early = await runtime.send_and_receive("a", In(x=5), deadline=0.5)
        assert early.y == 11
        last = asyncio.ensure_future(runtime.send_and_receive("a", In(x=4)))
        await asyncio.sleep(0.01)
        await runtime.terminate("a", SECONDS / 2)
        assert (await last).y == 9

    run(main)


def test_a_batch_that_waits_is_paused_too(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("batch", max_delay=0.5))
        asked = asyncio.ensure_future(runtime.send_and_receive("a", In(x=1)))
        await until(lambda: actor._context is not None and bool(actor._context.held))
        await runtime.deactivate("a")
        await asyncio.sleep(0.6)
        assert not asked.done() and not actor.telemetry.batch_sizes.count
        await runtime.reactivate("a")
        assert (await asked).y == 3

    run(main)


def test_constants_and_template_names_are_taken(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        body: dict[str, Any] = {
            "body": "map",
            "params": {"expr": "y = 2*x + shift", "dtype": "i32", "scalars": ("shift",)},
        }
        await begin(runtime, "a", **twice("batch") | body, constants={"shift": 100})
        assert (await runtime.send_and_receive("a", In(x=3))).y == 106
        for wrong, problem in (
            ({}, "'shift' is neither a field nor one of the constants"),
            ({"constants": {"shift": 0.5}}, "takes i32; got 0.5"),
            ({"constants": {"shift": 1, "other": 2}}, "'other' is no argument"),
            ({"constants": {"shift": 1}, "max_delay": -1}, "takes seconds"),
            ({"constants": {"shift": 1}, "max_batch": 0}, "takes an integer from 1"),
        ):
            with pytest.raises(InvalidConfigurationError, match=problem):
                await runtime.launch("b", **twice("batch") | body | wrong)
        with pytest.raises(InvalidConfigurationError, match="takes a kernel, the name"):
            await runtime.launch("b", **twice("batch", body=None))

    run(main)


def test_batches_and_states_are_in_the_trace(ti_arch: str) -> None:
    def fail(columns: Any) -> Any:
        raise ValueError("no")

    async def main(runtime: RingKernelRuntime) -> None:
        await begin(runtime, "a", **twice("batch"))
        types = {"input_type": In, "output_type": Out}
        await begin(runtime, "b", fail, engine="batch", supervision="stop", **types)
        await runtime.send_many("a", {"x": [1, 2, 3]})
        await answers(runtime, "a", 3)
        with pytest.raises(KernelFailed):
            await runtime.send_and_receive("b", In(x=1))

    with tikgen.trace() as trace:
        run(main)
    stages = [event.stage for event in trace.events if event.subject.name == "a"]
    assert stages == ["launched", "active", "terminating", "terminated"]
    failed = [e for e in trace.events if e.subject.name == "b" and e.stage == "batch"]
    assert [e.details["error"] for e in failed] == ["ValueError: no"]
    batches = [tally for tally in trace.launches if tally.subject.name == "a"]
    assert [tally.messages for tally in batches] == [3]


# Unsupported places.


CHILD = """
import asyncio, signal
from tikgen.ring import RingBody, RingKernelRuntime, message
from tikgen.ring.persistent import launch, making

making.PROOFS = 2
launch._LAST_SECONDS = 0.2
signal.signal(signal.SIGINT, signal.default_int_handler)  # The shell may ignore it.

@message
class In:
    x: int

@message
class Out:
    y: int

async def main():
    async with RingKernelRuntime() as runtime:
        actor = await runtime.launch(
            "a", engine="persistent", handler=RingBody({text!r}, params={params!r}),
            state={{"count": 0}}, input_type=In, output_type=Out, arch={arch!r}, capacity=64,
        )
        await runtime.activate("a")
        assert (await runtime.send_and_receive("a", In(x=1))).y == 3
        asked = asyncio.ensure_future(runtime.send_and_receive("a", In(x={held})))
        while not actor.engine.ring.pending:
            await asyncio.sleep(0)
        print("busy", flush=True)
        if {is_interrupted}:
            await asked
        else:
            print(await runtime.terminate("a", timeout=0.01), flush=True)
            print(type(asked.exception()).__name__, flush=True)

asyncio.run(main())
"""


@stays
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("is_interrupted", [True, False])
def test_a_process_ends_while_its_kernel_is_busy(is_interrupted: bool) -> None:
    if ARCH != "cpu" and not is_interrupted:
        pytest.skip("the driver waits for what runs on a GPU")
    params = TWICE.params | ({} if ARCH == "cpu" else {"gate": words.COMMAND})
    text = CHILD.format(
        text=TWICE.text, params=params, arch=ARCH, held=HELD, is_interrupted=is_interrupted
    )
    child = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        while "busy" not in (line := child.stdout.readline()):
            assert line, "it ended by itself"
        if is_interrupted:
            child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=SECONDS)
    finally:
        child.kill()
    if is_interrupted:
        assert child.returncode != 0 and "KeyboardInterrupt" in errors, errors
    else:
        assert child.returncode == 0 and "not done within 0.01 s" in out, errors
        assert out.endswith("KernelTerminated\n")


def test_a_batch_without_ti_init_raises() -> None:
    text = """
import asyncio
import taichi as ti
from tikgen.ring import RingKernelRuntime, message

@message
class In:
    x: int

@message
class Out:
    y: int

@ti.kernel
def twice(x: ti.types.ndarray(dtype=ti.i32, ndim=1), y: ti.types.ndarray(dtype=ti.i32, ndim=1)):
    for i in x:
        y[i] = 2 * x[i]

async def main():
    async with RingKernelRuntime() as runtime:
        await runtime.launch("a", engine="batch", body=twice, input_type=In, output_type=Out)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert "TaichiNotInitialised" in done.stderr and "ti.init" in done.stderr


@pytest.mark.parametrize("arch", ["vulkan", "metal"])
def test_on_vulkan_the_error_recommends_the_batch_engine(arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        with pytest.raises(UnsupportedOnArch, match="engine='batch'"):
            await runtime.launch("a", **twice("persistent", arch=arch))
        assert runtime.kernel_ids == []

    run(main)


def test_invalid_persistent_settings_are_refused() -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        for wrong, error, problem in (
            ({"capacity": 1000}, InvalidConfigurationError, "power of two"),
            ({"watchdog": -1}, InvalidConfigurationError, "takes seconds"),
            ({"state": {"count": "a"}}, InvalidConfigurationError, "takes a number"),
            ({"max_batch": 3}, InvalidConfigurationError, "max_batch"),
        ):
            with pytest.raises(error, match=problem):
                await runtime.launch("a", **twice("persistent", **wrong))
        with pytest.raises(InvalidConfigurationError, match="and no function"):
            await runtime.launch("a", lambda ctx: None, **twice("persistent"))

    run(main)


def test_a_direct_reply_has_the_types_of_its_fields() -> None:
    config = RingKernelConfig("a", engine="persistent", options={"handler": "flag = x > 1; y = x"})
    engine = PersistentEngine(Definition(config, None, In, Flagged))
    reply = engine._reply((1, 5), In(x=1))
    assert reply.flag is True and reply.y == 5


def test_blocks_of_columns_are_sliced_and_indexed(rng: Any) -> None:
    from tikgen.ring.messages.columns import columns_of, own_columns

    x = rng.integers(0, 100, 7)
    block = own_columns({"x": x}, columns_of(In), In, "a")
    assert [block[n].x for n in range(-7, 7)] == [*x, *x]
    assert [m.x for m in block[2:5].messages()] == x[2:5].tolist()
    assert block[5:2].count == 0
    for wrong in (7, -8, slice(0, 7, 2)):
        with pytest.raises(IndexError):
            block[wrong]

"""Actors that are kernels: launched for batches of messages, or staying on the device."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from engine_samples import (
    SECONDS,
    In,
    Out,
    answers,
    begin,
    run,
    stays,
    twice,
    until,
)
from tikgen.ring.definition import Definition, RingKernelConfig
from tikgen.ring.errors import (
    ColumnError,
    InvalidConfigurationError,
    KernelFailed,
    KernelStateError,
    KernelTerminated,
    MessageDropped,
    RuntimeClosed,
    TypeValidationError,
)
from tikgen.ring.messages.base import message
from tikgen.ring.persistent import making
from tikgen.ring.persistent.engine import PersistentEngine
from tikgen.ring.runtime import RingKernelRuntime

both = pytest.mark.parametrize("engine", ["batch", pytest.param("persistent", marks=stays)])


@message
class Text:
    text: str


@message
class Flagged:
    flag: bool
    y: int = 0


@pytest.fixture(autouse=True)
def _brief_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "PROOFS", 2)


# What they answer.


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
        x += 100  # The actor has its own.
        assert (await runtime.receive("a")).y == 1
        rest = await answers(runtime, "a", 6)
        assert rest == [3, 5, 7, 9, 11, 13]
        assert await runtime.send_many("a", {"x": x[:0]}) == 0

    run(main)


@both
def test_what_does_not_fit_gets_an_error_in_its_place(ti_arch: str, engine: str) -> None:
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
def test_types_and_columns_of_no_use_are_refused(ti_arch: str, engine: str) -> None:
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
def test_priorities_go_first(ti_arch: str, engine: str) -> None:
    one_by_one = {"max_batch": 1} if engine == "batch" else {"capacity": 1}

    async def main(runtime: RingKernelRuntime) -> None:
        await begin(runtime, "a", **twice(engine, ageing=None, **one_by_one))
        await runtime.deactivate("a")
        for x, priority in ((1, 0), (2, 255), (3, 128), (4, 255)):
            await runtime.send("a", In(x=x, priority=priority))
        await runtime.reactivate("a")
        assert await answers(runtime, "a", 4) == [5, 9, 7, 3]

    run(main)


def test_kernels_are_connected_to_others_and_to_the_host(ti_arch: str, rng: Any) -> None:
    # On cuda no batch is launched while a kernel of the same process stays.
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


# How they are led.


@both
def test_a_pause_keeps_what_comes(ti_arch: str, engine: str) -> None:
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
def test_a_termination_handles_what_is_queued_or_tells_what_was_not(
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


# Batches.


def test_what_is_queued_goes_into_batches_of_max_batch(ti_arch: str) -> None:
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


def test_the_first_message_waits_for_others(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("batch", max_batch=3, max_delay=SECONDS))
        asked = [asyncio.ensure_future(runtime.send_and_receive("a", In(x=x))) for x in (1, 2)]
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in asked)
        assert (await runtime.send_and_receive("a", In(x=3))).y == 7
        assert [(await task).y for task in asked] == [3, 5]
        assert (actor.telemetry.batch_sizes.count, actor.telemetry.batch_sizes.max) == (1, 3)
        # Nobody waits beyond a deadline, nor when the actor is to end.
        early = await runtime.send_and_receive("a", In(x=5), deadline=0.5)
        assert early.y == 11
        last = asyncio.ensure_future(runtime.send_and_receive("a", In(x=4)))
        await asyncio.sleep(0.01)
        await runtime.terminate("a", SECONDS / 2)
        assert (await last).y == 9

    run(main)


def test_what_waits_for_others_is_paused_with_them(ti_arch: str) -> None:
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


def test_constants_and_templates_by_name(ti_arch: str) -> None:
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


def test_persistent_settings_of_no_use() -> None:
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


def test_a_straight_reply_has_the_types_of_its_fields() -> None:
    config = RingKernelConfig("a", engine="persistent", options={"handler": "flag = x > 1; y = x"})
    engine = PersistentEngine(Definition(config, None, In, Flagged))
    reply = engine._reply((1, 5), In(x=1))
    assert reply.flag is True and reply.y == 5


def test_blocks_of_columns_are_sliced_and_indexed(rng: Any) -> None:
    from tikgen.ring.messages.blocks import own_columns
    from tikgen.ring.messages.columns import columns_of

    x = rng.integers(0, 100, 7)
    block = own_columns({"x": x}, columns_of(In), In, "a")
    assert [block[n].x for n in range(-7, 7)] == [*x, *x]
    assert [m.x for m in block[2:5].messages()] == x[2:5].tolist()
    assert block[5:2].count == 0
    for wrong in (7, -8, slice(0, 7, 2)):
        with pytest.raises(IndexError):
            block[wrong]

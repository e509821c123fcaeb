"""Actors that are kernels: in batches, or persistent on the device."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from engine_samples import (
    SECONDS,
    Flagged,
    In,
    Out,
    Text,
    answers,
    begin,
    both,
    run,
    twice,
    until,
)
from engine_samples import _brief_proofs as _brief_proofs
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
from tikgen.ring.persistent.engine import PersistentEngine
from tikgen.ring.runtime import RingKernelRuntime

pytest_plugins = ["one_compiler"]
pytestmark = pytest.mark.usefixtures("one_compiler")

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


@message
class Empty:
    pass


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
            ({"input_type": Empty}, "a number in it|no field of its own"),
            ({"output_type": Empty}, "a number in it|no field of its own"),
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

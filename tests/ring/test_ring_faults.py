"""The faults measured in PyDotCompute 0.2.0 do not occur."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from ring_samples import Note, Other, check_sums, echo, error_of, fail, play, started, turns, until
from tikgen.ring import (
    KernelContext,
    KernelState,
    RingKernelRuntime,
    Supervision,
    deserialize_message,
    message,
)
from tikgen.ring.errors import (
    KernelFailed,
    KernelTerminated,
    MessageDropped,
    QueueFullError,
    QueueTimeoutError,
    TypeValidationError,
)


@pytest.mark.parametrize("policy", ["restart", "stop", "escalate"])
def test_the_error_of_an_actor_reaches_receivers_and_callers(policy: str) -> None:
    async def main() -> None:
        runtime = RingKernelRuntime()
        await runtime.start()
        for ask in (True, False):
            actor = await started(runtime, f"a{ask}", fail, supervision=Supervision(policy))
            if ask:
                error = await error_of(runtime.send_and_receive(actor.kernel_id, Note(7)))
            else:
                await runtime.send(actor.kernel_id, Note(7))
                error = await error_of(runtime.receive(actor.kernel_id))
            assert isinstance(error, KernelFailed)
            assert error.kernel_id == actor.kernel_id and error.state == "ACTIVE"
            assert isinstance(error.__cause__, ValueError) and "bad 7" in str(error)
            assert actor.telemetry.error_count == 1
            assert actor.telemetry.last_error == "ValueError: bad 7"
            check_sums(actor)
            if policy == "escalate":
                await until(lambda a=actor: a.state is KernelState.TERMINATED)
                runtime.failure = None
        await runtime.shutdown()

    play(main)


def test_a_late_reply_is_discarded(rng: np.random.Generator) -> None:
    async def main() -> None:
        gates = {n: asyncio.Event() for n in range(3)}

        async def slow(ctx: KernelContext, note: Note) -> Note:
            await gates[note.n].wait()
            return Note(note.n)

        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "slow", slow)
            late = await error_of(runtime.send_and_receive("slow", Note(0), timeout=0.01))
            assert isinstance(late, QueueTimeoutError)
            assert (late.kernel_id, late.timeout) == ("slow", 0.01)
            next_one = asyncio.ensure_future(runtime.send_and_receive("slow", Note(1)))
            await turns()
            for gate in gates.values():
                gate.set()
            assert (await next_one).n == 1
            assert actor.telemetry.late_replies == 1
            gates[0].clear()
            cancelled = asyncio.ensure_future(runtime.send_and_receive("slow", Note(0)))
            await turns()
            cancelled.cancel()
            assert isinstance(await error_of(cancelled), asyncio.CancelledError)
            after = asyncio.ensure_future(runtime.send_and_receive("slow", Note(2)))
            await turns()
            gates[0].set()
            assert (await after).n == 2
            assert actor.telemetry.late_replies == 2
            assert isinstance(await error_of(runtime.receive("slow", timeout=0.01)), TimeoutError)
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("by", ["to", "correlation"])
def test_replies_out_of_order_reach_their_callers(by: str, rng: np.random.Generator) -> None:
    order = rng.permutation(100)

    async def shuffling(ctx: KernelContext) -> None:
        while True:
            held = [await ctx.receive() for _ in order]
            for place in order:
                request = held[place]
                if by == "to":
                    await ctx.send(Note(request.n * 3), to=request)
                else:
                    await ctx.send(request.reply(n=request.n * 3))

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "shuffling", shuffling)
            replies = await asyncio.gather(
                *(runtime.send_and_receive("shuffling", Note(n)) for n in range(100))
            )
            assert [reply.n for reply in replies] == [3 * n for n in range(100)]
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("size", [1, 7, 101])
@pytest.mark.parametrize("is_paused", [False, True])
def test_terminate_drains_the_queue(size: int, is_paused: bool) -> None:
    done: list[int] = []

    async def slow(ctx: KernelContext, note: Note) -> None:
        await asyncio.sleep(0)
        done.append(note.n)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "slow", slow)
            if is_paused:
                await runtime.deactivate("slow")
            for n in range(size):
                await runtime.send("slow", Note(n))
            end = await runtime.terminate("slow")
            assert done == list(range(size))
            assert (end.processed, end.dropped, end.stopped) == (size, (), True)
            assert actor.state is KernelState.TERMINATED and "slow" not in runtime.kernel_ids
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("drain", [True, False])
def test_terminate_reports_dropped_and_unreceived_messages(drain: bool) -> None:
    async def stuck(ctx: KernelContext) -> None:
        await ctx.send(Note(100))
        await ctx.receive()
        await ctx.receive()
        await asyncio.sleep(1000)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "stuck", stuck)
            await runtime.send("stuck", Note(0))
            first = asyncio.ensure_future(runtime.send_and_receive("stuck", Note(1)))
            await turns()
            for n in range(2, 5):
                await runtime.send("stuck", Note(n))
            asked = asyncio.ensure_future(runtime.send_and_receive("stuck", Note(5)))
            await turns()
            end = await runtime.terminate("stuck", timeout=0.02, drain=drain)
            assert [note.n for note in end.dropped] == [1, 2, 3, 4, 5]
            assert [note.n for note in end.unreceived] == [100]
            assert end.processed == 1 and end.stopped
            assert isinstance(await error_of(first), KernelTerminated)
            assert isinstance(await error_of(asked), MessageDropped)
            check_sums(actor)

    play(main)


def test_an_idle_actor_ends_at_once() -> None:
    async def patient(ctx: KernelContext) -> None:
        while not ctx.should_terminate:
            await ctx.receive()

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            for n in range(100):
                await started(runtime, f"a{n}", patient)
            await turns()
            end = await runtime.terminate("a0", timeout=1000.0)
            assert end.reason == "terminated" and end.stopped
            await runtime.shutdown(timeout=1000.0)
            assert {e.reason for e in runtime.terminations} == {"terminated"}
            assert len(runtime.terminations) == 100

    play(main)


@pytest.mark.parametrize("how", ["terminate", "shutdown", "return", "raise", "cancel"])
def test_a_waiting_receive_is_woken_when_the_actor_ends(how: str) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def body(ctx: KernelContext) -> None:
            await gate.wait()
            if how == "raise":
                raise ValueError("no")

        runtime = RingKernelRuntime()
        await runtime.start()
        actor = await started(runtime, "a", body, supervision="stop")
        waiting = [asyncio.ensure_future(runtime.receive("a")) for _ in range(3)]
        waiting += [asyncio.ensure_future(runtime.receive_many("a")) for _ in range(2)]
        asking = asyncio.ensure_future(runtime.send_and_receive("a", Note()))
        await turns()
        if how == "terminate":
            await runtime.terminate("a", 0.01)
        elif how == "shutdown":
            await runtime.shutdown(0.01)
        elif how == "cancel":
            assert actor.status.task is not None
            actor.status.task.cancel()
        gate.set()
        errors = [await error_of(task) for task in waiting]
        expected = KernelFailed if how == "raise" else KernelTerminated
        assert [type(error) for error in errors] == [expected] * 5
        assert type(await error_of(asking)) in (KernelFailed, KernelTerminated, MessageDropped)
        await runtime.shutdown()

    play(main)


def test_deactivate_pauses(rng: np.random.Generator) -> None:
    size = int(rng.integers(2, 100))
    seen: list[int] = []

    async def body(ctx: KernelContext, note: Note) -> Note:
        seen.append(note.n)
        return note

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            await runtime.send_and_receive("a", Note(-1))
            await runtime.send("a", Note(0))  # Wakes it; it must check again before it takes one.
            await runtime.deactivate("a")
            for n in range(1, size):
                assert await runtime.send("a", Note(n))
            await turns(100)
            assert seen == [-1] and actor.mailbox.inbox.size == size
            assert actor.state is KernelState.DEACTIVATED
            await runtime.reactivate("a")
            for n in range(size):
                assert (await runtime.receive("a", timeout=5)).n == n
            assert seen == [-1, *range(size)]

    play(main)


@pytest.mark.parametrize("policy", ["block", "reject", "drop_oldest", "drop_newest"])
def test_a_full_queue_follows_its_policy_and_overwrites_nothing(policy: str) -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", echo, input_queue_size=3, backpressure=policy)
            await runtime.deactivate("a")
            for n in range(3):
                assert await runtime.send("a", Note(n)) is True
            fourth: Any = await error_of(runtime.send("a", Note(3), timeout=0.02))
            if policy == "block":
                assert isinstance(fourth, QueueTimeoutError)
                assert (fourth.kernel_id, fourth.timeout) == ("a", 0.02)
                assert fourth.state == "DEACTIVATED"
            elif policy == "reject":
                assert isinstance(fourth, QueueFullError)
                assert (fourth.kernel_id, fourth.queue_size) == ("a", 3)
            else:
                assert fourth is None
                assert await runtime.send("a", Note(4)) is (policy == "drop_oldest")
            check_sums(actor)
            await runtime.reactivate("a")
            expected = [2, 3, 4] if policy == "drop_oldest" else [0, 1, 2]
            assert [(await runtime.receive("a")).n for _ in range(3)] == expected
            lost = actor.telemetry.dropped if "drop" in policy else {}
            assert lost == ({policy: 2} if "drop" in policy else {})
            check_sums(actor)

    play(main)


def test_the_caller_of_a_dropped_request_gets_an_error() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            for policy in ("drop_oldest", "drop_newest"):
                settings = {"input_queue_size": 1, "backpressure": policy}
                actor = await started(runtime, policy, echo, **settings)
                await runtime.deactivate(policy)
                asked = [
                    asyncio.ensure_future(runtime.send_and_receive(policy, Note(n)))
                    for n in range(2)
                ]
                await turns()
                lost, kept = asked if policy == "drop_oldest" else asked[::-1]
                assert isinstance(await error_of(lost), MessageDropped)
                await runtime.reactivate(policy)
                assert (await kept).n == asked.index(kept)
                check_sums(actor)

    play(main)


def test_telemetry_is_recorded(rng: np.random.Generator) -> None:
    size = int(rng.integers(1, 50))

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", echo)
            await runtime.deactivate("a")
            for n in range(size):
                await runtime.send("a", Note(n))
            told = runtime.get_telemetry("a")
            assert told is not None and told is runtime.get_all_telemetry()["a"]
            assert told.queue_depth == size and told.messages_processed == 0
            await runtime.reactivate("a")
            for _ in range(size):
                await runtime.receive("a")
            await turns()
            assert told.messages_received == told.messages_processed == size
            assert told.queue_depth == 0 and told.latencies.count == size
            assert (
                0 < told.min_latency_ns <= told.percentile(50) * 1.05 <= told.max_latency_ns * 1.1
            )
            assert told.throughput > 0 and told.uptime_seconds > 0
            check_sums(actor)
            summary = runtime.get_summary()
        assert size in summary.values()

    play(main)


@pytest.mark.parametrize("ageing", [None, 1e5])
def test_messages_of_one_priority_keep_their_order(
    ageing: float | None, rng: np.random.Generator
) -> None:
    priorities = [int(p) for p in rng.choice([0, 3, 128, 255], 97)]
    notes = [Note(n, priority=p) for n, p in enumerate(priorities)]

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", echo, ageing=ageing)
            await runtime.deactivate("a")
            for note in notes:
                await runtime.send("a", note)
            await runtime.reactivate("a")
            came = [(await runtime.receive("a")).n for _ in notes]
        assert came == sorted(range(97), key=lambda n: (-priorities[n], n))

    play(main)


@message
class Reading(Note):
    """A subclass of a message."""

    place: str = "roof"
    values: list[float] = []  # noqa: RUF012


def test_a_derived_message_keeps_all_its_fields() -> None:
    sent = Reading(5, text="t", place="cellar", values=[1.5, 2.5])

    async def relay(ctx: KernelContext, note: Note) -> Any:
        return deserialize_message(note.serialize())

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", relay, input_type=Note, output_type=Note)
            back = await runtime.send_and_receive("a", sent)
        assert type(back) is Reading and back == sent

    play(main)


def test_the_types_of_messages_and_of_replies_are_enforced() -> None:
    async def wrong(ctx: KernelContext, note: Note) -> Any:
        return Other() if note.n else Note()

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", wrong, input_type=Note, output_type=Note)
            changed = Note()
            changed.text = 5
            for bad in (Other(), changed, None, 5, {"n": 1}, Note):
                for send in (runtime.send, runtime.send_and_receive):
                    error = await error_of(send("a", bad))
                    assert isinstance(error, TypeValidationError), (bad, error)
                    assert (error.kernel_id, error.state) == ("a", "ACTIVE")
                    assert "Note" in str(error)
                error = await error_of(runtime.send_many("a", [Note(), bad]))
                assert isinstance(error, TypeValidationError)
            assert actor.telemetry.messages_received == 0
            failure = await error_of(runtime.send_and_receive("a", Note(1)))
            assert isinstance(failure, KernelFailed)
            assert isinstance(failure.__cause__, TypeValidationError)
            assert (await runtime.send_and_receive("a", Note(0))).n == 0

    play(main)

"""Routing: connections, topics, broadcast, barriers."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ring_samples import (
    Note,
    check_sums,
    echo,
    error_of,
    play,
    started,
    swallow,
    turns,
    until,
)
from some_cases import examples
from tikgen.ring import Barrier, KernelContext, RingKernelRuntime
from tikgen.ring.errors import (
    BarrierBroken,
    InvalidConfigurationError,
    KernelNotFoundError,
    RingError,
)
from tikgen.ring.routing import Topics


def test_replies_go_to_the_connected_actor(rng: np.random.Generator) -> None:
    size = int(rng.integers(1, 200))

    async def one_more(ctx: KernelContext, note: Note) -> Note:
        return Note(note.n + 1)

    async def doubled(ctx: KernelContext) -> None:
        while not ctx.should_terminate:
            await ctx.send_many([Note(2 * note.n) for note in await ctx.receive_many()])

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", one_more, queue_size=7)
            await started(runtime, "b", doubled, queue_size=3)
            await started(runtime, "c", one_more)
            runtime.connect("a", "b")
            runtime.connect("b", "c")
            for n in range(size):
                await runtime.send("a", Note(n))
            came = [(await runtime.receive("c", timeout=5)).n for _ in range(size)]
            assert came == [2 * (n + 1) + 1 for n in range(size)]
            # The reply to a request goes to its caller only.
            assert (await runtime.send_and_receive("a", Note(5), timeout=5)).n == 6
            runtime.connect("a", None)
            await runtime.send("a", Note(1))
            assert (await runtime.receive("a", timeout=5)).n == 2
            for source, target in (("a", "a"), ("c", "a"), ("b", "b")):
                runtime.connect("a", "b")
                with pytest.raises(InvalidConfigurationError, match="circle"):
                    runtime.connect(source, target)
            with pytest.raises(KernelNotFoundError):
                runtime.connect("a", "nobody")

    play(main)


def test_a_connection_frees_a_body_that_waits_for_room() -> None:
    got: list[int] = []

    async def sink(ctx: KernelContext, note: Note) -> None:
        got.append(note.n)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", echo, output_queue_size=1)
            await started(runtime, "b", sink)
            for n in range(4):
                await runtime.send("a", Note(n))
            await turns()
            runtime.connect("a", "b")
            await until(lambda: len(got) >= 3)
            assert got[-3:] == [1, 2, 3]

    play(main)


def test_the_source_of_a_connection_fails_when_its_target_has_ended() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", echo)
            await started(runtime, "b", swallow)
            runtime.connect("a", "b")
            await runtime.terminate("b")
            await runtime.send("a", Note())
            await until(lambda: actor.telemetry.error_count)
            assert "'b'" in str(actor.telemetry.last_error)
            await started(runtime, "b", echo)  # Another actor of the same name replaces it.
            await runtime.send("a", Note(4))
            assert (await runtime.receive("b", timeout=5)).n == 4
            check_sums(actor)

    play(main)


@pytest.mark.parametrize("how", ["connected", "tell", "ask"])
def test_a_pipeline_drains_through_all_stages(how: str) -> None:
    done: list[int] = []

    async def stage(ctx: KernelContext, note: Note) -> Any:
        await asyncio.sleep(0)
        if how == "connected":
            return Note(note.n + 1)
        await getattr(ctx, how)(chr(ord(ctx.kernel_id) + 1), Note(note.n + 1))
        return note

    async def sink(ctx: KernelContext, note: Note) -> Note:
        done.append(note.n)
        return note

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            for name in ("c", "b", "a"):
                await started(runtime, name, sink if name == "c" else stage, queue_size=7)
            await runtime.terminate("b")
            await started(runtime, "b", stage, input_queue_size=2)
            if how == "connected":
                runtime.connect("b", "c")
                runtime.connect("a", "b")
            for n in range(7):
                await runtime.send("a", Note(n))
            await turns(4)
            if how == "connected":
                await runtime.deactivate("b")
        assert done == list(range(2, 9))
        assert [end.dropped for end in runtime.terminations] == [()] * 4

    play(main)


def test_each_subscriber_gets_each_message_once_for_all_its_patterns() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            for name in "abc":
                await started(runtime, name, echo)
            for pattern in ("s.*.wind", "s.**", "s.roof.wind"):
                runtime.subscribe(pattern, "a")
            runtime.subscribe("s.*.wind", "b")
            assert await runtime.publish("s.roof.wind", Note(1)) == 2
            assert await runtime.publish("s.roof.rain", Note(2)) == 1
            assert await runtime.publish("other", Note(3)) == 0
            assert [(await runtime.receive("a")).n for _ in range(2)] == [1, 2]
            assert (await runtime.receive("b")).n == 1
            runtime.unsubscribe("s.**", "a")
            assert await runtime.publish("s.roof.rain", Note(4)) == 0
            await runtime.terminate("b")
            assert await runtime.publish("s.roof.wind", Note(5)) == 1
            with pytest.raises(KernelNotFoundError):
                runtime.subscribe("x", "nobody")
            await turns()
            assert runtime._actors["c"].telemetry.messages_received == 0

    play(main)


WORD = st.sampled_from(["a", "b", "ab", "*", "**"])
PATTERN = st.lists(WORD, min_size=1, max_size=5).map(".".join)
TOPIC = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=6).map(".".join)


def _as_regex(pattern: str) -> str:
    """Return a regular expression for topics with a dot after each word."""
    one = {"*": r"[^.]+\.", "**": r"(?:[^.]+\.)*"}
    return "".join(one.get(word, re.escape(word) + r"\.") for word in pattern.split("."))


@settings(max_examples=examples(300, 100), deadline=None)
@given(st.lists(st.tuples(PATTERN, st.sampled_from("xyz")), max_size=6), TOPIC)
def test_topics_agree_with_regular_expressions(pairs: list[tuple[str, str]], topic: str) -> None:
    topics = Topics()
    for pattern, name in pairs:
        topics.subscribe(pattern, name)
    for gone in (None, *{name for _, name in pairs}):
        if gone is not None:
            topics.unsubscribe(None, gone)
            pairs = [(pattern, name) for pattern, name in pairs if name != gone]
        found = topics.subscribers(topic)
        expected = {
            name for pattern, name in pairs if re.fullmatch(_as_regex(pattern), topic + ".")
        }
        assert set(found) == expected and len(found) == len(expected)


def test_a_pattern_with_many_wildcards_is_fast() -> None:
    topics = Topics()
    topics.subscribe(".".join(["**"] * 60), "a")
    topics.subscribe(".".join(["**", "b"] * 30), "b")
    assert topics.subscribers(".".join(["a"] * 60)) == ("a",)


@pytest.mark.parametrize("name", ["", ".", "a..b", "a*", "***", None, 5, ["a"], "a." * 65 + "a"])
def test_invalid_names_are_refused(name: Any) -> None:
    for call in (lambda: Topics().subscribe(name, "a"), lambda: Topics().subscribers(name)):
        with pytest.raises(InvalidConfigurationError, match="64 words"):
            call()


def test_any_number_of_topics_takes_bounded_memory() -> None:
    topics = Topics()
    for n in range(20_000):
        topics.subscribers(f"t.{n}")
    assert len(topics._found) <= 10_000


def test_a_broadcast_goes_to_all_that_take_messages() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            for name in "abc":
                await started(runtime, name, echo)
            await runtime.deactivate("b")
            await runtime.launch("d", echo)
            assert await runtime.broadcast(Note(3)) == 3
            assert await runtime.broadcast(Note(4), ["a", "c"]) == 2
            await runtime.reactivate("b")
            assert [(await runtime.receive("a")).n for _ in range(2)] == [3, 4]
            assert (await runtime.receive("b")).n == 3

    play(main)


def test_actors_meet_at_a_barrier_repeatedly() -> None:
    met: list[tuple[int, int]] = []

    async def body(ctx: KernelContext) -> None:
        for meeting in range(20):
            met.append((meeting, await ctx.barrier("b", 3, timeout=5)))

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            for name in "xyz":
                await started(runtime, name, body)
            await until(lambda: len(met) == 60)
        assert sorted(met) == [(meeting, n) for meeting in range(20) for n in range(3)]
        assert [meeting for meeting, _ in met] == sorted(meeting for meeting, _ in met)

    play(main)


@pytest.mark.parametrize("how", ["cancel", "time out", "terminate", "shutdown", "abort"])
def test_waiters_at_a_barrier_that_breaks_get_an_error(how: str) -> None:
    errors: list[BaseException | None] = []

    async def body(ctx: KernelContext) -> None:
        is_late = how == "time out" and ctx.kernel_id == "x"
        errors.append(await error_of(ctx.barrier("b", 3, timeout=0.01 if is_late else None)))

    async def main() -> None:
        runtime = RingKernelRuntime()
        await runtime.start()
        actor = await started(runtime, "x", body)
        await started(runtime, "y", body)
        await turns()
        barrier = runtime.barrier("b", 3)
        assert barrier.waiting == 2 or how == "time out"  # The time-out may have passed.
        if how == "cancel":
            assert actor.status.task is not None
            actor.status.task.cancel()
        elif how == "terminate":
            await runtime.terminate("x", 0.01)
        elif how == "shutdown":
            await runtime.shutdown(0.01)
        elif how == "abort":
            barrier.abort("a test broke it")
        await until(lambda: len(errors) == 2)
        kinds = {type(error) for error in errors}
        assert BarrierBroken in kinds and kinds <= {BarrierBroken, asyncio.CancelledError}
        assert barrier.is_broken and not barrier.waiting
        assert isinstance(await error_of(barrier.wait()), RingError)
        await runtime.shutdown()

    play(main)


def test_a_barrier_can_be_reset_and_ignores_other_actors() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "other", echo)
            barrier = runtime.barrier("b", 2)
            waiting = asyncio.ensure_future(barrier.wait())
            await turns()
            await runtime.terminate("other")
            assert not barrier.is_broken
            assert [await barrier.wait(), await waiting] == [1, 0]
            barrier.abort("tried")
            assert isinstance(await error_of(barrier.wait()), BarrierBroken)
            barrier.reset()
            assert sorted(await asyncio.gather(barrier.wait(), barrier.wait())) == [0, 1]
            waiting = asyncio.ensure_future(barrier.wait())
            await turns()
            barrier.reset()
            error = await error_of(waiting)
            assert isinstance(error, BarrierBroken) and "it was reset" in str(error)
            assert not barrier.is_broken
            with pytest.raises(InvalidConfigurationError, match="takes a pattern"):
                runtime.unsubscribe(3, "other")  # type: ignore[arg-type]
            with pytest.raises(InvalidConfigurationError):
                runtime.barrier("b", 3)

    play(main)


@pytest.mark.parametrize("parties", [0, -1, True, 1.5, "2"])
def test_invalid_numbers_of_parties_are_refused(parties: Any) -> None:
    with pytest.raises(InvalidConfigurationError):
        Barrier("b", parties)


def test_a_barrier_reached_at_its_time_out_raises_no_foreign_error() -> None:
    async def main() -> None:
        for steps in range(12):
            barrier = Barrier("b", 2)
            first = asyncio.ensure_future(barrier.wait(timeout=0.002))
            await asyncio.sleep(0.0015)
            await turns(steps)
            second = asyncio.ensure_future(barrier.wait(timeout=0.002))
            for error in (await error_of(first), await error_of(second)):
                assert error is None or isinstance(error, BarrierBroken), repr(error)

    play(main)

"""Actors that raise or are cancelled: waiters get errors, and all is counted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ring_samples import (
    Note,
    check_sums,
    echo,
    error_of,
    fail,
    play,
    started,
    turns,
    until,
)
from tikgen.ring import KernelContext, KernelState, RingKernelRuntime, Supervision
from tikgen.ring.actors.supervision import Restarts
from tikgen.ring.errors import (
    InvalidConfigurationError,
    KernelFailed,
    KernelTerminated,
    MessageDropped,
)


def test_a_restart_keeps_the_queue_and_is_counted() -> None:
    async def odd(ctx: KernelContext, note: Note) -> Note:
        if note.n % 2:
            raise ValueError(str(note.n))
        return note

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            policy = Supervision("restart", max_restarts=100, backoff=0.0)
            actor = await started(runtime, "a", odd, supervision=policy)
            found = await asyncio.gather(
                *(runtime.send_and_receive("a", Note(n)) for n in range(20)),
                return_exceptions=True,
            )
            for n, what in enumerate(found):
                assert isinstance(what, KernelFailed) if n % 2 else what.n == n
            told = actor.telemetry
            assert (told.restarts, told.error_count, told.messages_processed) == (10, 10, 10)
            assert told.dropped == {"failed": 10} and actor.state is KernelState.ACTIVE
            check_sums(actor)

    play(main)


def test_too_many_restarts_end_an_actor_and_all_waiters_get_the_cause() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            policy = Supervision("restart", max_restarts=2, backoff=0.0)
            actor = await started(runtime, "a", fail, supervision=policy)
            asked = [
                asyncio.ensure_future(runtime.send_and_receive("a", Note(n))) for n in range(6)
            ]
            errors = [await error_of(task) for task in asked]
            assert {type(error) for error in errors} == {KernelFailed}
            assert [str(e)[-1] for e in errors] == ["0", "1", "2", "2", "2", "2"]
            assert actor.state is KernelState.TERMINATED and actor.telemetry.restarts == 2
            assert actor.termination is not None and "bad 2" in actor.termination.reason
            assert [note.n for note in actor.termination.dropped] == [3, 4, 5]
            assert isinstance(await error_of(runtime.send("a", Note())), KernelFailed)
            check_sums(actor)

    play(main)


def test_escalation_ends_the_runtime_which_raises() -> None:
    other: list[Any] = []

    async def idle(ctx: KernelContext) -> None:
        await ctx.receive()

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            other.append(await started(runtime, "b", idle))
            waiting = asyncio.ensure_future(runtime.receive("b"))
            await started(runtime, "a", fail, supervision="escalate")
            await runtime.send("a", Note(3))
            assert isinstance(await error_of(waiting), KernelTerminated)

    error = play(lambda: error_of(main()))
    assert isinstance(error, KernelFailed) and isinstance(error.__cause__, ValueError)
    assert error.kernel_id == "a" and other[0].state is KernelState.TERMINATED


def test_an_error_of_the_block_takes_precedence_over_an_escalation() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", fail, supervision="escalate")
            await error_of(runtime.send_and_receive("a", Note()))
            raise KeyError("mine")

    error = play(lambda: error_of(main()))
    assert isinstance(error, KernelFailed) and isinstance(error.__cause__, KeyError)


def test_backoff_doubles_up_to_its_limit_and_ignores_old_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tikgen.ring.actors import supervision

    now = [0.0]
    monkeypatch.setattr(supervision.time, "monotonic", lambda: now[0])
    restarts = Restarts(Supervision(max_restarts=4, within=10, backoff=1, max_backoff=5))
    assert [restarts.next_delay() for _ in range(5)] == [1, 2, 4, 5, None]
    now[0] = 10.5
    assert restarts.next_delay() == 1
    endless = Restarts(Supervision(max_restarts=10**6, within=1e9, backoff=1e-3))
    assert {endless.next_delay() for _ in range(3000)} >= {5.0}
    for policy in ("stop", "escalate"):
        assert Restarts(Supervision(policy)).next_delay() is None


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "ignore"},
        {"policy": None},
        {"max_restarts": -1},
        {"within": float("nan")},
        {"backoff": "1"},
        {"max_backoff": True},
    ],
)
def test_invalid_supervision_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfigurationError):
        Supervision(**settings)


class Unspeakable(Exception):
    """An error that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("policy", ["restart", "stop"])
def test_an_error_that_cannot_be_printed_is_reported(policy: str) -> None:
    async def body(ctx: KernelContext, note: Note) -> None:
        raise Unspeakable

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body, supervision=policy)
            error = await error_of(runtime.send_and_receive("a", Note(), timeout=5))
            assert isinstance(error, KernelFailed) and isinstance(error.__cause__, Unspeakable)
            assert actor.telemetry.error_count == 1
            check_sums(actor)

    play(main)


class _Unusual(BaseException):
    pass


@pytest.mark.parametrize("kind", [GeneratorExit, _Unusual, SystemExit])
def test_an_error_that_is_no_exception_is_the_cause_of_the_end(
    kind: type[BaseException],
) -> None:
    actors = []

    async def body(ctx: KernelContext) -> None:
        await ctx.receive()
        raise kind("now")

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actors.append(await started(runtime, "a", body, supervision="restart"))
            with pytest.raises(KernelFailed, match=f"raised {kind.__name__}: now"):
                await runtime.send_and_receive("a", Note(1), timeout=60)

    if kind is SystemExit:  # It ends the program.
        with pytest.raises(SystemExit, match="now"):
            play(main)
    else:
        play(main)
    (actor,) = actors
    assert actor.termination.reason == f"it raised {kind.__name__}: now"
    assert (actor.telemetry.error_count, actor.telemetry.restarts) == (1, 0)


def test_a_body_that_does_not_end_blocks_no_shutdown() -> None:
    release = asyncio.Event()

    async def stubborn(ctx: KernelContext) -> None:
        await ctx.receive()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", stubborn)
            asked = [
                asyncio.ensure_future(runtime.send_and_receive("a", Note(n))) for n in range(3)
            ]
            waiting = asyncio.ensure_future(runtime.receive("a"))
            await turns()
            end = await runtime.terminate("a", 0.01)
            assert not end.stopped and "0.01" in end.reason
            errors = [await error_of(asyncio.wait_for(t, 5)) for t in (*asked, waiting)]
            assert [type(error) for error in errors] == [
                KernelTerminated,
                MessageDropped,
                MessageDropped,
                KernelTerminated,
            ]
            check_sums(actor)
            release.set()
            await until(lambda: actor.status.task is not None and actor.status.task.done())
            check_sums(actor)

    async def released() -> None:
        try:
            await main()
        finally:
            release.set()

    play(released)


def test_a_body_that_catches_everything_does_not_block_the_event_loop() -> None:
    is_over = False

    async def body(ctx: KernelContext) -> None:
        while not is_over:
            try:
                await ctx.receive()
            except BaseException:
                continue

    async def main() -> None:
        nonlocal is_over
        runtime = RingKernelRuntime()
        await runtime.start()
        actor = await started(runtime, "a", body)
        await turns()
        await runtime.terminate("a", 0.02)
        is_over = True
        await until(lambda: actor.status.task is not None and actor.status.task.done())
        await runtime.shutdown()

    play(main)


def test_terminate_skips_the_backoff_and_drains() -> None:
    done: list[int] = []

    async def body(ctx: KernelContext, note: Note) -> None:
        if note.n == 0:
            raise ValueError("first")
        done.append(note.n)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            policy = Supervision(backoff=1000.0, max_backoff=1000.0)
            actor = await started(runtime, "a", body, supervision=policy)
            for n in range(5):
                await runtime.send("a", Note(n))
            await until(lambda: actor.telemetry.error_count)
            end = await runtime.terminate("a", timeout=500.0)
            assert done == [1, 2, 3, 4] and end.stopped
            check_sums(actor)

    play(main)


def test_the_message_in_hand_of_a_cancelled_body_is_reported() -> None:
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
def test_unreceived_replies_of_an_ended_actor_are_reported(how: str) -> None:
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


def test_a_reply_that_waits_for_room_at_the_end_is_reported() -> None:
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
def test_tasks_left_by_a_body_take_no_messages_of_the_next_run(how: str) -> None:
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
            found = [await runtime.send_and_receive("a", Note(n), timeout=5) for n in range(5)]
            assert [note.n for note in found] == list(range(5)) and len(late) == 3
            ctx = late.pop()
            assert ctx.should_terminate and not ctx.is_active
            for call in (ctx.receive(), ctx.receive(timeout=5), ctx.receive_many()):
                error = await error_of(asyncio.ensure_future(call))
                assert isinstance(error, asyncio.CancelledError)
            await asyncio.wait(late, timeout=5)
            assert all(task.cancelled() for task in late)
            check_sums(actor)

    play(main)

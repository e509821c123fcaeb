"""Actors that raise, are cancelled, or will not end: everybody is told, and everything counted."""

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


def test_a_restart_keeps_what_is_queued_and_counts() -> None:
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


def test_too_many_restarts_end_it_and_everybody_gets_the_cause() -> None:
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


def test_the_users_own_error_goes_before_an_escalation_and_names_it() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", fail, supervision="escalate")
            await error_of(runtime.send_and_receive("a", Note()))
            raise KeyError("mine")

    error = play(lambda: error_of(main()))
    assert isinstance(error, KernelFailed) and isinstance(error.__cause__, KeyError)


def test_back_off_doubles_up_to_its_limit_and_forgets_what_is_long_ago(
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
def test_settings_of_no_use_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfigurationError):
        Supervision(**settings)


class Unspeakable(Exception):
    """An error that cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("policy", ["restart", "stop"])
def test_an_error_that_cannot_be_printed_is_told_all_the_same(policy: str) -> None:
    async def body(ctx: KernelContext, note: Note) -> None:
        raise Unspeakable

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body, supervision=policy)
            error = await error_of(runtime.send_and_receive("a", Note(), timeout=60))
            assert isinstance(error, KernelFailed) and isinstance(error.__cause__, Unspeakable)
            assert actor.telemetry.error_count == 1
            check_sums(actor)

    play(main)


def test_a_body_that_will_not_end_holds_nobody_up() -> None:
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
            errors = [await error_of(asyncio.wait_for(t, 60)) for t in (*asked, waiting)]
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


def test_a_body_that_swallows_everything_does_not_stop_the_event_loop() -> None:
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


def test_the_end_does_not_wait_for_a_back_off_and_drains_after_it() -> None:
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

"""The queues of actors and their waiters, against models driven by hypothesis."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ring_samples import Note, error_of, started, swallow, turns, until
from some_cases import examples
from tikgen.ring import RingKernelRuntime
from tikgen.ring.actors.queues import Envelope, Inbox, Outbox
from tikgen.ring.actors.waiting import Line, Waiters

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 7)),
        st.tuples(st.just("take"), st.integers(0, 0)),
        st.tuples(st.just("take_block"), st.integers(1, 9)),
    ),
    max_size=40,
)


@settings(max_examples=examples(150, 50), deadline=None)
@given(MOVES)
def test_an_output_queue_keeps_messages_and_blocks_in_order(moves: list[tuple[str, int]]) -> None:
    outbox, model, number = Outbox(10), deque[int](), 0
    for move, count in moves:
        if move == "put":
            block = list(range(number, number + count))
            number += count
            model.extend(block)
            if count == 1:
                outbox.put(block[0])
            else:
                outbox.put_block(block, count)
        elif model and move == "take":
            assert outbox.take() == model.popleft()
        elif model:
            found, taken = outbox.take_block(count)
            assert 1 <= taken == len(found) <= count
            assert found == [model.popleft() for _ in range(taken)]
        assert outbox.size == len(model)
    assert outbox.drain() == list(model) and outbox.size == 0


QUEUED = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([0, 5, 128, 255]), st.integers(1, 4)),
        st.tuples(st.sampled_from(["pop", "oldest"]), st.just(0), st.just(0)),
        st.tuples(st.just("pop_block"), st.just(0), st.integers(1, 6)),
    ),
    max_size=40,
)


@settings(max_examples=examples(200, 60), deadline=None)
@given(QUEUED, st.sampled_from([None, 1e-9, 1e-8, 1e-7]))
def test_an_inbox_agrees_with_a_model_of_ageing(
    moves: list[tuple[str, int, int]], ageing: float | None
) -> None:
    inbox = Inbox(1000, ageing)
    model: list[tuple[int, int, int]] = []  # Time of sending, priority, number.
    number = 0

    def rank(entry: tuple[int, int, int]) -> float:
        sent, priority, _ = entry
        return sent - priority * (round(ageing * 1e9) if ageing else 1 << 62)

    for time, (move, priority, count) in enumerate(moves):
        if move == "put":
            block = list(range(number, number + count))
            number += count
            model += [(10 * time, priority, n) for n in block]
            if count == 1:
                inbox.put(Envelope(block[0], priority, 10 * time))
            else:
                inbox.put(Envelope(None, priority, 10 * time, None, 0, block, count))
        elif model and move == "oldest":
            found = inbox.pop_oldest().message
            oldest = min(sent for sent, _, _ in model)
            entry = next(entry for entry in model if entry[2] == found)
            assert entry[0] == oldest
            model.remove(entry)
        elif model:
            most = count or 1
            envelope = inbox.pop() if move == "pop" else inbox.pop_block(most)
            got = [envelope.message] if envelope.block is None else list(envelope.left())
            assert 1 <= len(got) == envelope.count <= most
            for message in got:
                entry = next(entry for entry in model if entry[2] == message)
                assert rank(entry) == min(map(rank, model))
                first = min(other[2] for other in model if other[1] == entry[1])
                assert message == first  # First in, first out within a priority.
                model.remove(entry)
        assert inbox.size == len(model)
    assert sum(envelope.count for envelope in inbox.drain()) == len(model)


@settings(max_examples=examples(100, 40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from("wcx")), max_size=30))
def test_a_wake_up_is_never_lost_when_waiters_are_cancelled(moves: list[tuple[int, str]]) -> None:
    async def main() -> None:
        waiters, woken = Waiters(), []

        async def one(n: int) -> None:
            assert await waiters.wait()
            woken.append(n)

        tasks = [asyncio.ensure_future(one(n)) for n in range(8)]
        await turns(2)
        wakes = 0
        for n, move in moves:
            if move == "w":
                waiters.wake()
                wakes += 1
            elif move == "c":
                tasks[n].cancel()
            else:
                await turns(2)
        await turns(10)
        gone = sum(task.cancelled() for task in tasks)
        assert len(woken) >= min(wakes, 8 - gone) and woken == sorted(woken)
        waiters.wake_all()
        await turns(3)
        assert all(task.done() for task in tasks) and not waiters.futures

    asyncio.run(asyncio.wait_for(main(), 60))


counted: Counter[str] = Counter()


class CountedFuture(asyncio.Future[Any]):
    """Counts its comparisons."""

    def __hash__(self) -> int:
        counted["looks"] += 1
        return object.__hash__(self)

    def __eq__(self, other: object) -> bool:
        counted["looks"] += 1
        return self is other


class CountingLoop(asyncio.SelectorEventLoop):
    """Makes futures that count."""

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return CountedFuture(loop=self)


def looks_of(waiting: int, how: str) -> int:
    """Return the number of comparisons while so many senders waited and continued."""

    async def main() -> int:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", swallow, input_queue_size=3)
            await runtime.deactivate("a")
            counted.clear()
            senders = [
                asyncio.ensure_future(runtime.send("a", Note(n))) for n in range(waiting + 3)
            ]
            await turns(3)
            assert len(actor.mailbox.inbox.senders.futures) == waiting
            if how == "give up":
                for sender in reversed(senders):
                    sender.cancel()
            elif how == "the actor ends":
                await runtime.terminate("a", drain=False)
            else:
                await runtime.reactivate("a")
            await asyncio.wait(senders)
            found = counted["looks"]
            if how == "are let in":
                await until(lambda: actor.telemetry.messages_processed == waiting + 3)
            for sender in senders:
                assert sender.cancelled() or await error_of(sender) is None or how != "are let in"
            return found

    loop = CountingLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


@pytest.mark.parametrize("how", ["are let in", "give up", "the actor ends"])
def test_the_cost_of_waiting_senders_is_linear(how: str) -> None:
    few, many = (looks_of(count, how) / count for count in (200, 1600))
    assert many < 1.5 * few + 1, f"each of 1,600 costs {many:g} looks, each of 200 costs {few:g}"


@settings(max_examples=examples(100, 40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ewwcr")), max_size=60))
def test_a_line_wakes_waiters_by_number(moves: list[tuple[int, str]]) -> None:
    """Enter, wake the first, cancel, come back; the model holds the numbers of the waiters."""

    async def main() -> None:
        line, tasks, woken = Line(), dict[int, asyncio.Task[None]](), list[int]()
        waiting, back = set[int](), set[int]()

        async def one(number: int) -> None:
            assert await line.wait_at(number)
            woken.append(number)

        async def enter(number: int) -> None:
            tasks[number] = asyncio.ensure_future(one(number))
            waiting.add(number)
            await turns(2)

        for n, move in moves:
            if move == "e":
                await enter(line.number())
            elif move == "w" and waiting:
                line.wake()
                await turns(2)
                assert woken[-1] == min(waiting)
                waiting.remove(woken[-1])
                back.add(woken[-1])
            elif move == "c" and waiting:
                number = sorted(waiting)[n % len(waiting)]
                tasks[number].cancel()
                waiting.remove(number)
                await turns(2)
            elif move == "r" and back:
                number = sorted(back)[n % len(back)]
                back.remove(number)
                await enter(number)
            assert len(line.futures) == len(waiting)
        line.wake_all()
        await turns(3)
        assert not line.futures and all(task.done() for task in tasks.values())

    asyncio.run(asyncio.wait_for(main(), 60))

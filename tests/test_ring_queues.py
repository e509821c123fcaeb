"""The queues of actors, and those who wait at them, against models that hypothesis drives."""

from __future__ import annotations

import asyncio
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from ring_samples import turns
from tikgen.ring.actors.channels import Inbox, Outbox
from tikgen.ring.actors.envelope import Envelope
from tikgen.ring.actors.waiting import Waiters

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 7)),
        st.tuples(st.just("take"), st.integers(0, 0)),
        st.tuples(st.just("take_block"), st.integers(1, 9)),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=200, deadline=None)
@given(QUEUED, st.sampled_from([None, 1e-9, 1e-8, 1e-7]))
def test_a_mailbox_agrees_with_a_model_of_ageing(
    moves: list[tuple[str, int, int]], ageing: float | None
) -> None:
    inbox = Inbox(1000, ageing)
    model: list[tuple[int, int, int]] = []  # When it was sent, its priority, its number.
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


@settings(max_examples=100, deadline=None)
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

    asyncio.run(asyncio.wait_for(main(), 5))

"""A kernel that stays on the device: replies and lifecycle."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from persistent_samples import SECONDS, make_ring, stays, wait_until
from persistent_samples import _brief_proofs as _brief_proofs
from persistent_samples import ring as ring
from tikgen.errors import ExportError, LibraryError
from tikgen.ring.errors import (
    ColumnError,
    InvalidConfigurationError,
    KernelStateError,
    KernelTerminated,
    QueueFullError,
    QueueTimeoutError,
)
from tikgen.ring.persistent import heartbeat, words
from tikgen.ring.persistent import lifetime as life
from tikgen.ring.persistent.handler import RingBody
from tikgen.ring.persistent.ring import PersistentRing

pytest_plugins = ["one_compiler"]
pytestmark = pytest.mark.usefixtures("one_compiler")

# Replies.


@stays
def test_a_call_returns_the_reply_and_the_state_lasts(ring: PersistentRing, rng: Any) -> None:
    numbers = rng.integers(-1000, 1000, 100).tolist()
    assert [ring.call(x) for x in numbers] == [2 * x + 1 for x in numbers]
    assert ring.state == {"total": sum(numbers)}
    assert (ring.done, ring.pending, ring.ready, ring.free) == (100, 0, 0, 8)
    assert ring.call(np.int64(5)) == 11
    assert ring.call(True) == 3


@stays
def test_replies_are_taken_in_order_across_the_end_of_the_ring(
    ring: PersistentRing, rng: Any
) -> None:
    x = rng.integers(-1000, 1000, 1009)
    found: list[int] = []
    sent = 0
    while len(found) < x.size:
        most = int(rng.integers(1, 20))
        count = ring.push_columns({"x": x[sent : sent + most]})
        assert count <= min(8, most)
        sent += count
        found += ring.take(int(rng.integers(0, 9)))["y"].tolist()
    assert found == (2 * x + 1).tolist()
    assert ring.take()["y"].shape == (0,)
    assert ring.state == {"total": int(x.sum())}


@stays
@pytest.mark.parametrize("first", [2**31 - 3, 2**32 - 3, 5 * 2**32 - 1])
def test_counters_wrap_around(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "_FIRST", first)
    with make_ring() as ring:
        assert [ring.call(x) for x in range(5)] == [1, 3, 5, 7, 9]
        assert [ring.push(x) for x in range(8)] == list(range(5, 13))
        with pytest.raises(QueueFullError, match="queue is full with 8 messages"):
            ring.push(9)
        ring.flush(SECONDS)
        assert ring.take()["y"].tolist() == [2 * x + 1 for x in range(8)]
        assert (ring.done, ring.pending) == (13, 0)
        assert ring.drain(SECONDS) == (13, 0)


@stays
def test_a_full_ring_refuses_messages_and_loses_none(ring: PersistentRing) -> None:
    assert ring.push_columns({"x": np.arange(11)}) == 8
    assert ring.push_columns({"x": np.arange(11)}) == 0
    with pytest.raises(QueueFullError):
        ring.push(1)
    ring.flush(SECONDS)
    assert (ring.ready, ring.free) == (8, 0)
    assert ring.take(3)["y"].tolist() == [1, 3, 5]
    assert ring.push_columns({"x": [8, 9, 10, 11]}) == 3
    ring.flush(SECONDS)
    assert ring.take()["y"].tolist() == [2 * x + 1 for x in range(3, 11)]


@stays
def test_columns_of_many_dtypes(rng: Any) -> None:
    inputs = {"id": "u32", "x": "f32", "h": "f16", "z": "f64", "small": "i8"}
    outputs = {"z": "f32", "id": "u32", "near": "i16", "half": "f16"}
    handler = "z = x*z + small; near = 10*x; half = h/2"
    with PersistentRing("many", inputs, outputs, handler, arch=ARCH, capacity=4) as ring:
        assert ring.call(2**32 - 1, 0.5, 0.25, 3.0, -7) == (-5.5, 2**32 - 1, 5, 0.125)
        assert ring.call(0, np.float32(1e30), 1, 1e300, 1) == (np.inf, 0, 2**15 - 1, 0.5)
        assert ring.call(0, np.inf, 1, 1, 0)[0] == np.inf
        for value in (float("nan"), np.float64("nan"), np.float32("nan")):
            assert np.isnan(ring.call(0, value, 1, 1, 1)[0])
            assert ring.push(0, 1, value, value, 0) and ring.flush(SECONDS) is None
            (found,) = ring.take()["z"]
            assert np.isnan(found)
        for value in (1e39, -1e39):
            with pytest.raises(ColumnError, match="column 'x' takes a number that f32 holds"):
                ring.call(0, value, 1, 1, 1)
        count = 3
        columns = {name: rng.integers(0, 5, count) for name in inputs}
        assert ring.push_columns(columns) == count
        ring.flush(SECONDS)
        replies = ring.take()
        assert {n: str(a.dtype) for n, a in replies.items()} == {
            "z": "float32",
            "id": "uint32",
            "near": "int16",
            "half": "float16",
        }
        assert replies["id"].tolist() == columns["id"].tolist()
        assert np.array_equal(replies["z"], columns["x"] * columns["z"] + columns["small"])
        assert np.array_equal(replies["near"], 10 * columns["x"])


@stays
def test_a_kernel_without_outputs_frees_its_slots() -> None:
    handler = RingBody("total = total + x")
    settings: dict[str, Any] = {"capacity": 4, "state": {"total": 10}, "arch": ARCH}
    with PersistentRing("sink", {"x": "i64"}, {}, handler, **settings) as ring:
        for start in range(0, 40, 4):
            assert ring.push_columns({"x": np.arange(start, start + 4)}) == 4
            ring.flush(SECONDS)
        assert ring.call(2**40) is None
        assert ring.state == {"total": 10 + sum(range(40)) + 2**40}
        assert ring.take() == {}


def tried(ring: PersistentRing, x: int) -> Any:
    """Return the reply of ``try_call``, which may be late on a busy machine."""
    found = ring.try_call(x)
    assert found is not None
    is_there, reply = found
    if is_there:
        return reply
    ring.flush(SECONDS)
    (reply,) = ring.take()["y"].tolist()
    return reply


@stays
def test_try_call_sends_only_to_an_idle_kernel(ring: PersistentRing) -> None:
    assert tried(ring, 4) == 9
    ring.push(1)
    assert ring.try_call(5) is None
    ring.flush(SECONDS)
    assert ring.take()["y"].tolist() == [3]
    ring.pause(SECONDS)
    assert ring.try_call(5) is None
    ring.resume(SECONDS)
    with pytest.raises(ColumnError):
        ring.try_call("5")
    assert tried(ring, 6) == 13
    ring.stop()
    with pytest.raises(KernelTerminated):
        ring.try_call(7)


@stays
def test_threads_each_get_their_own_replies(ring: PersistentRing) -> None:
    wrong: list[Any] = []

    def work(number: int) -> None:
        for x in range(number * 1000, number * 1000 + 500):
            if (y := ring.call(x)) != 2 * x + 1:
                wrong.append((x, y))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not wrong
    assert ring.done == 2000


# Bodies of Taichi statements.

COLLATZ = """
value = n
steps = 0
while value > {{ last }}:
    if value % 2 == 0:
        value //= 2
    else:
        value = 3 * value + 1
    steps += 1
most = ti.max(most, steps)
"""


def collatz(n: int, most: int) -> dict[str, int]:
    value, steps = int(n), 0
    while value > 1:
        value = value // 2 if value % 2 == 0 else 3 * value + 1
        steps += 1
    return {"steps": steps, "most": max(most, steps)}


@stays
def test_a_body_with_loops() -> None:  # Without a reference: engine_samples.py
    body = RingBody(COLLATZ, reference=collatz, params={"last": 1})
    settings: dict[str, Any] = {"state": {"most": 0}, "arch": ARCH}
    with PersistentRing("collatz", {"n": "i32"}, {"steps": "i32"}, body, **settings) as ring:
        assert [ring.call(n) for n in (1, 2, 7, 27, 6)] == [0, 1, 16, 111, 8]
        assert ring.state == {"most": 111}


@stays
def test_a_body_that_contradicts_its_reference_is_refused() -> None:
    def wrong(n: int, most: int) -> dict[str, int]:
        return {**collatz(n, most), "steps": -1}

    body = RingBody(COLLATZ, reference=wrong, params={"last": 1})
    ring = PersistentRing("collatz", {"n": "i32"}, {"steps": "i32"}, body, state={"most": 0})
    with pytest.raises(ExportError, match="steps_out"):
        ring.start()


# Lifecycle.


@stays
def test_a_paused_kernel_takes_no_message(ring: PersistentRing) -> None:
    ring.pause(SECONDS)
    assert ring.status == "paused"
    for x in range(5):
        ring.push(x)
    polls = ring._words[words.POLLS]
    wait_until(lambda: ring._words[words.POLLS] != polls)
    assert (ring.done, ring.pending, ring.ready) == (0, 5, 0)
    with pytest.raises(KernelStateError, match=r"\(paused\): cannot call; resume\(\) it first"):
        ring.call(1)
    with pytest.raises(QueueTimeoutError, match="flush took longer"):
        ring.flush(0.01)
    ring.resume(SECONDS)
    ring.flush(SECONDS)
    with pytest.raises(KernelStateError, match=r"take\(\) the replies"):
        ring.call(1)
    assert ring.take()["y"].tolist() == [1, 3, 5, 7, 9]
    assert ring.call(1) == 3


@stays
def test_drain_handles_queued_messages_and_stop_counts_them() -> None:
    for end, outcome in (("drain", (6, 0)), ("stop", (1, 5))):
        ring = make_ring()
        ring.start()
        ring.call(7)
        ring.pause(SECONDS)
        ring.push_columns({"x": np.arange(5)})
        assert getattr(ring, end)(SECONDS) == outcome
        assert ring.stop() == outcome
        assert ring.status == {"drain": "drained", "stop": "stopped"}[end]
        assert not ring.is_alive
        assert ring.error is None
        if end == "drain":
            assert ring.take(4)["y"].tolist() == [1, 3, 5, 7]
            assert ring.take()["y"].tolist() == [9]
            assert ring.state == {"total": 17}
        for use in (lambda r: r.call(1), lambda r: r.push(1), lambda r: r.take()):
            with pytest.raises(KernelTerminated, match="was stopped"):
                use(ring)
        with pytest.raises(KernelTerminated):
            ring.push_columns({"x": [1]})
        with pytest.raises(KernelStateError, match="make another ring"):
            ring.start()


@stays
@pytest.mark.parametrize("wrong", [-1, float("nan"), "1", True], ids=repr)
def test_a_wrong_timeout_is_refused_at_once(ring: PersistentRing, wrong: Any) -> None:
    for use in (ring.pause, ring.resume, ring.flush, ring.drain, ring.stop):
        with pytest.raises(InvalidConfigurationError, match="takes seconds from 0, or None"):
            use(wrong)
    assert ring.call(2) == 5


@stays
def test_the_watchdog_ends_a_kernel_without_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat.Heartbeat, "beat", lambda self: None)
    ring = make_ring(watchdog=0.02)
    ring.start()
    wait_until(lambda: not ring.is_alive)
    with pytest.raises(KernelTerminated, match=r"no heartbeat of this process for 0\.02 s"):
        ring.call(1)
    for use in (lambda: ring.push(1), lambda: ring.take(), lambda: ring.pause()):
        with pytest.raises(KernelTerminated):
            use()
    assert isinstance(ring.error, KernelTerminated)
    ring._is_open = True  # As after a call: the next one detects it while it waits.
    with pytest.raises(KernelTerminated, match="no heartbeat"):
        ring.call(1)
    assert ring.stop() == (0, 1)


@stays
def test_the_heartbeat_keeps_a_kernel_alive() -> None:
    with make_ring(watchdog=1.0) as ring:
        polls = ring._words[words.POLLS]
        # More polls than the watchdog allows without a heartbeat.
        wait_until(
            lambda: (
                (ring._words[words.POLLS] - polls) // words.POLLS_A_LOOK > ring._words[words.LIMIT]
            )
        )
        assert ring.call(3) == 7
    with make_ring(watchdog=0) as ring:
        assert ring.call(3) == 7


def test_the_limit_follows_the_fastest_polling_and_stays_within_its_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(heartbeat.time, "perf_counter", lambda: now[0])
    control: Any = memoryview(np.zeros(words.WORDS, np.uint32))
    heartbeat.Heartbeat(control, "cpu", 3600.0)
    assert 0 < control[words.LIMIT] < 2**31
    heart = heartbeat.Heartbeat(control, "cpu", 36.0)
    for looks in (10**6, 1):
        polls = control[words.POLLS] + looks * words.POLLS_A_LOOK
        control[words.POLLS] = polls & words.MASK
        now[0] += heartbeat.BEAT_SECONDS
        heart.beat()
        assert control[words.LIMIT] == pytest.approx(36 * 10**6 / heartbeat.BEAT_SECONDS, rel=1e-6)
    assert control[words.BEAT] == 2
    heartbeat.Heartbeat(control, "cpu", 0.0)
    assert control[words.LIMIT] == 0


@stays
def test_a_failed_launch_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, runtime: Any) -> Any:
        launched(self, runtime)
        raise LibraryError("launching ring", "the device is gone")

    launched = life.Launch.__init__
    monkeypatch.setattr(life.Launch, "__init__", lambda *a: launched(*a[:2], broken, *a[3:]))

    def broken() -> None:
        raise LibraryError("launching ring", "the device is gone")

    ring = make_ring()
    with pytest.raises(tikgen.TikgenError, match="the device is gone") as caught:
        ring.start()
    assert str(ring.error) == str(caught.value)
    assert ring.stop() == (0, 0)

"""A kernel that stays on the device: replies, lifecycle, and end."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.errors import ExportError, LibraryError, ParameterError, UnsupportedOnArch
from tikgen.ring.errors import (
    BackendNotAvailableError,
    ColumnError,
    InvalidConfigurationError,
    KernelStateError,
    KernelTerminated,
    QueueFullError,
    QueueTimeoutError,
)
from tikgen.ring.persistent import heartbeat, making, words
from tikgen.ring.persistent import lifetime as life
from tikgen.ring.persistent.handler import RingBody
from tikgen.ring.persistent.ring import PersistentRing
from tikgen.store import default_store
from tikgen.template.base import BUILTIN_FOLDER

# One handler for most tests, because making one takes some seconds.
HANDLER = "y = 2*x + 1; total = total + x"
# A limit that is never reached, also on a busy machine.
SECONDS = 300.0

stays = pytest.mark.skipif(ARCH == "vulkan", reason="no kernel stays on vulkan")
two_stay = pytest.mark.skipif(ARCH == "cuda", reason="one kernel of a process stays on a GPU")


def make_ring(kernel_id: str = "sum", **settings: Any) -> PersistentRing:
    """Return a ring of that handler, not started."""
    settings = {"capacity": 8, "state": {"total": 0}, "arch": ARCH} | settings
    return PersistentRing(kernel_id, {"x": "i32"}, {"y": "i32"}, HANDLER, **settings)


@pytest.fixture(autouse=True)
def _brief_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the verification, which test_template_ring.py does."""
    monkeypatch.setattr(making, "PROOFS", 5)


@pytest.fixture
def ring() -> Iterator[PersistentRing]:
    """Yield a running ring of eight slots."""
    with make_ring() as made:
        yield made


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


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
def test_a_body_with_loops() -> None:  # Those without a reference: test_ring_engines.py
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


# Invalid input.


@pytest.mark.parametrize(
    ("settings", "error", "problem"),
    [
        (
            {"capacity": 1000},
            InvalidConfigurationError,
            "a power of two up to 16777216, such as 1024",
        ),
        ({"capacity": 0}, InvalidConfigurationError, "takes a power of two"),
        ({"watchdog": -1}, InvalidConfigurationError, "takes seconds up to 3600"),
        ({"state": {"total": "0"}}, InvalidConfigurationError, "takes a number"),
        ({"state": {"total": 0.5}}, InvalidConfigurationError, "whole numbers that i32 holds"),
        ({"state": {"total": float("nan")}}, InvalidConfigurationError, "that i32 holds"),
        ({"state": {"total": float("inf")}}, InvalidConfigurationError, "that i32 holds"),
        ({"state": ["total"]}, InvalidConfigurationError, "takes a dict of numbers by name"),
        ({"dtype": "complex"}, InvalidConfigurationError, "complex"),
        ({"kernel_id": ""}, InvalidConfigurationError, "takes a name"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], error: Any, problem: str) -> None:
    with pytest.raises(error, match=problem):
        make_ring(**settings)


def test_invalid_columns_are_refused() -> None:
    class Vector:
        name, dtype, length = "v", tikgen.DType.f32, 3

    for inputs, problem in (
        ([Vector()], "is a vector of 3; a persistent kernel takes numbers"),
        ({"x": "string"}, "has no dtype of a kernel"),
    ):
        with pytest.raises(ColumnError, match=problem):
            PersistentRing("a", inputs, {"y": "f32"}, "y = x")
    for inputs in ({}, "x", [1]):
        with pytest.raises(InvalidConfigurationError, match=r"takes (a )?column"):
            PersistentRing("a", inputs, {"y": "f32"}, "y = x")
    with pytest.raises(InvalidConfigurationError, match="no dtype holds all of i64, u64"):
        PersistentRing("a", {"x": "i64"}, {"y": "u64"}, "y = x")


@stays
@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ("y = 2*z", "reads z, which is no column of a message and no state"),
        ("w = x", "does not assign y, a column of the reply"),
        ("y = __import__('os')", "handler"),
        ("y = x; ring_slot = 1", "uses 'ring_slot', which the kernel has for itself"),
        (RingBody("y = x", params={"no": 1}), "no"),
    ],
)
def test_invalid_handlers_are_refused(handler: Any, problem: str) -> None:
    ring = PersistentRing("a", {"x": "f32"}, {"y": "f32"}, handler, arch=ARCH)
    with pytest.raises((ParameterError, ExportError), match=problem):
        ring.start()
    assert ring.status == "not started"
    assert ring.stop() == (0, 0)


def test_invalid_bodies_are_refused() -> None:
    with pytest.raises(InvalidConfigurationError, match="a text that is not empty"):
        RingBody("  ")
    with pytest.raises(InvalidConfigurationError, match="takes a function"):
        RingBody("y = x", reference=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("arch", ["vulkan", "metal"])
def test_an_unsupported_arch_recommends_the_batch_engine(arch: str) -> None:
    with pytest.raises(UnsupportedOnArch, match="engine='batch'"):
        make_ring(arch=arch).start()


@stays
def test_values_that_do_not_fit_are_refused(ring: PersistentRing) -> None:
    for value in ("1", 1.5, 2**31, None, [1], np.float32(2), 1j, float("nan")):
        with pytest.raises(ColumnError, match="column 'x' takes a number that i32 holds"):
            ring.call(value)
        with pytest.raises(ColumnError):
            ring.push(value)
    for values in ((), (1, 2)):
        with pytest.raises(ColumnError, match=f"one of 1 .* got {len(values)} values"):
            ring.call(*values)
    for columns, problem in (
        ({}, "is missing"),
        ({"x": [1], "z": [1]}, "column 'z' is not known"),
        ({"x": 3}, "takes an array of shape"),
        ({"x": [1.5]}, "takes i32; got float64"),
        ({"x": [2**31]}, f"takes i32, .* got {2**31}"),
        ([1], "dict of arrays"),
    ):
        with pytest.raises(ColumnError, match=problem):
            ring.push_columns(columns)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfigurationError, match="a number of replies"):
        ring.take(-1)
    assert ring.done == ring.pending == 0
    assert ring.call(1) == 3


@stays
def test_invalid_time_outs_are_refused(ring: PersistentRing) -> None:
    for wrong in (-1, float("nan"), "1", True):
        for use in (ring.pause, ring.resume, ring.stop, ring.drain, ring.flush):
            with pytest.raises(InvalidConfigurationError, match="takes seconds from 0, or None"):
                use(wrong)
    assert ring.call(1) == 3
    ring.flush(float("inf"))


def test_a_ring_that_was_not_started_raises() -> None:
    ring = make_ring()
    for use in (lambda: ring.call(1), lambda: ring.push(1), ring.take, ring.pause, ring.flush):
        with pytest.raises(KernelStateError, match=r"start\(\) it first"):
            use()
    assert repr(ring) == f"<PersistentRing 'sum' (x: i32) -> (y: i32) on {ARCH}, not started>"
    assert ring.stop() == (0, 0)
    assert (ring.done, ring.pending, ring.ready) == (0, 0, 0)


# Making the kernel.


@stays
@two_stay
def test_a_second_ring_is_loaded_from_the_store(
    ring: PersistentRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr(making, "make", refuse)
    with make_ring(capacity=2, state={"total": 5}) as other:
        assert other.call(1) == 3
        assert other.state == {"total": 6}
    ring = PersistentRing("d", {"x": "i32"}, {"y": "i32"}, HANDLER, state={"total": 0}, dtype="i64")
    with pytest.raises(AssertionError, match="made again"):
        ring.start()


@stays
def test_a_second_ring_on_a_gpu_is_refused(
    ring: PersistentRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = PersistentRing("other", {"x": "i32"}, {"y": "i32"}, "y = x", arch="cuda")
    monkeypatch.setattr(ring, "arch", "cuda")  # On cpu any number may stay.
    with pytest.raises(BackendNotAvailableError, match=f"{ring.kernel_id!r} stays there"):
        other.start()
    assert not other.is_alive


@stays
@two_stay
def test_a_damaged_bundle_is_made_again(
    ring: PersistentRing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = default_store().folder / "ring"
    made: list[Path] = []

    def copy(handler: object, layout: object, arch: str, path: Path) -> None:
        made.append(path)
        shutil.copytree(good / path.parent.name / path.name, path)

    def use() -> int:
        with make_ring() as other:
            assert other.call(1) == 3
        return len(made)

    monkeypatch.setattr(making, "make", copy)
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path))
    assert [use(), use()] == [1, 1]
    assert made[0].is_relative_to(tmp_path)
    for path in made[0].rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    assert [use(), use()] == [2, 2]


@stays
def test_a_ring_that_is_garbage_collected_ends() -> None:
    ring = make_ring("dropped")
    ring.start()
    assert any(t.name == "tikgen-ring-dropped" for t in threading.enumerate())
    del ring
    gc.collect()
    wait_until(lambda: all(t.name != "tikgen-ring-dropped" for t in threading.enumerate()))


def test_the_control_words_equal_those_of_the_template() -> None:
    template = sys.modules[type(tikgen.load_template(BUILTIN_FOLDER / "ring")).__module__]
    for name in ("WORDS", "COMMAND", "TAIL", "DONE", "STATE", "BEAT", "LIMIT", "POLLS"):
        assert getattr(template, name) == getattr(words, name)
    for name in ("RUN", "PAUSE", "DRAIN", "END", "STOPPED", "DRAINED", "ABANDONED"):
        assert getattr(template, name) == getattr(words, name)


# The end of processes.

BEGIN = """
    import os, signal, sys, threading, time
    from tikgen.ring.persistent.ring import PersistentRing
    HANDLER = "{handler}"
    ring = PersistentRing(
        "sum", {{"x": "i32"}}, {{"y": "i32"}}, HANDLER, state={{"total": 0}}, arch="{arch}"
    )
    ring.start()
    assert ring.call(1) == 3
    print("started", flush=True)
"""


def run_python(text: str, timeout: float = SECONDS) -> subprocess.Popen[str]:
    begin = BEGIN.format(handler=HANDLER, arch=ARCH)
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, errors = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        out, errors = child.communicate()
        raise AssertionError(f"it did not end: {out}{errors}") from None
    return child.returncode, out, errors


@stays
@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("", 0, ""),
        pytest.param("sys.exit(3)", 3, "", marks=pytest.mark.slow),
        ("raise ValueError('oops')", 1, "oops"),
        pytest.param("os._exit(4)", 4, "", marks=pytest.mark.slow),
        ("ring.pause(); ring.push(1)", 0, ""),
        ("threading.Thread(target=ring.call, args=(1,)).start()", 0, ""),
    ],
)
def test_a_ring_does_not_change_how_a_process_ends(text: str, code: int, told: str) -> None:
    found, out, errors = finished(run_python(text))
    assert (found, out) == (code, "started\n"), errors
    assert told in errors
    assert told or not errors


@stays
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(getattr(signal, "SIGKILL", 9), marks=pytest.mark.slow),
        signal.SIGINT,
    ],
)
def test_a_process_ends_by_a_signal(number: int) -> None:
    # A call to a paused kernel would wait forever.
    child = run_python(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.05, ring.pause).start()
        while ring.status != "paused":
            ring.take() if ring.pending == ring.ready == 0 else None
        ring._is_open = True
        print("waiting", flush=True)
        ring.call(1)
        """
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    assert child.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    child.send_signal(number)
    code, _, errors = finished(child)
    assert code == -number or (number == signal.SIGINT and code in (-number, 130, 1)), errors
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)


@stays
@two_stay
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_leaves_the_kernel_to_its_parent() -> None:
    code, out, errors = finished(
        run_python(
            """
            child = os.fork()
            if child == 0:
                try:
                    ring.call(1)
                except Exception as error:
                    print(type(error).__name__, error, flush=True)
                print(ring.status, flush=True)
                with PersistentRing(
                    "own", {"x": "i32"}, {"y": "i32"}, HANDLER, state={"total": 0}, arch=ring.arch
                ) as own:
                    print(own.call(2), flush=True)
                sys.exit(5)
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), ring.call(4), flush=True)
            """
        )
    )
    assert code == 0, errors
    lines = out.splitlines()
    assert lines[1].startswith("KernelTerminated")
    assert "make another ring" in lines[1]
    assert lines[2:] == ["of the parent process", "5", "5 9"]


@stays
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_the_reply_of_an_interrupted_call_is_discarded(ring: PersistentRing) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: Any) -> None:
        raise Interrupted

    def once_it_waits() -> None:
        wait_until(lambda: ring._words[words.TAIL] == 1)
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        ring.pause(SECONDS)
        ring._is_open = True
        with pytest.raises(Interrupted):
            threading.Thread(target=once_it_waits).start()
            ring.call(100)
        # Another call checks for leftovers before it writes anything.
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        with pytest.raises(KernelStateError, match="paused"):
            ring.call(101)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ring.pending == 1
    assert ring.free == 7
    ring.resume(SECONDS)
    assert ring.call(5) == 11
    assert ring.state == {"total": 105}
    assert ring.push(6) == 2
    ring.flush(SECONDS)
    assert ring.take()["y"].tolist() == [13]

"""How persistent kernels are made, what they refuse, and how their processes end."""

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from persistent_samples import HANDLER, SECONDS, make_ring, stays, wait_until
from tikgen.errors import ExportError, ParameterError, UnsupportedOnArch
from tikgen.ring.errors import (
    BackendNotAvailableError,
    ColumnError,
    InvalidConfigurationError,
    KernelStateError,
)
from tikgen.ring.persistent import making, words
from tikgen.ring.persistent.handler import RingBody
from tikgen.ring.persistent.ring import PersistentRing
from tikgen.store import default_store
from tikgen.template.base import BUILTIN_FOLDER

two_stay = pytest.mark.skipif(ARCH == "cuda", reason="one kernel of a process stays on a GPU")


@pytest.fixture(autouse=True)
def _brief_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the tests most of the verification, which test_template_ring.py does."""
    monkeypatch.setattr(making, "PROOFS", 5)


@pytest.fixture
def ring() -> Iterator[PersistentRing]:
    """Give a ring of eight slots that runs."""
    with make_ring() as made:
        yield made


# What is refused.


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
def test_settings_of_no_use(settings: dict[str, Any], error: Any, problem: str) -> None:
    with pytest.raises(error, match=problem):
        make_ring(**settings)


def test_columns_of_no_use() -> None:
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
def test_handlers_of_no_use(handler: Any, problem: str) -> None:
    ring = PersistentRing("a", {"x": "f32"}, {"y": "f32"}, handler, arch=ARCH)
    with pytest.raises((ParameterError, ExportError), match=problem):
        ring.start()
    assert ring.status == "not started"
    assert ring.stop() == (0, 0)


def test_bodies_of_no_use() -> None:
    with pytest.raises(InvalidConfigurationError, match="a text that is not empty"):
        RingBody("  ")
    with pytest.raises(InvalidConfigurationError, match="takes a function"):
        RingBody("y = x", reference=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("arch", ["vulkan", "metal"])
def test_an_arch_where_none_can_stay_names_the_batch_engine(arch: str) -> None:
    with pytest.raises(UnsupportedOnArch, match="engine='batch'"):
        make_ring(arch=arch).start()


@stays
def test_values_that_do_not_fit(ring: PersistentRing) -> None:
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
        ({"x": [1], "z": [1]}, "column 'z' is unknown"),
        ({"x": 3}, "takes one axis"),
        ({"x": [1.5]}, "takes numbers of i32; got float64"),
        ({"x": [2**31]}, f"takes numbers of i32; got {2**31}"),
        ([1], "dict of columns"),
    ):
        with pytest.raises(ColumnError, match=problem):
            ring.push_columns(columns)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfigurationError, match="a number of replies"):
        ring.take(-1)
    assert ring.done == ring.pending == 0
    assert ring.call(1) == 3


@stays
def test_a_wrong_time_out_is_refused_at_once(ring: PersistentRing) -> None:
    for wrong in (-1, float("nan"), "1", True):
        for use in (ring.pause, ring.resume, ring.stop, ring.drain, ring.flush):
            with pytest.raises(InvalidConfigurationError, match="takes seconds from 0, or None"):
                use(wrong)
    assert ring.call(1) == 3
    ring.flush(float("inf"))


def test_a_ring_that_was_not_started_says_so() -> None:
    ring = make_ring()
    for use in (lambda: ring.call(1), lambda: ring.push(1), ring.take, ring.pause, ring.flush):
        with pytest.raises(KernelStateError, match=r"start\(\) it first"):
            use()
    assert repr(ring) == f"<PersistentRing 'sum' (x: i32) -> (y: i32) on {ARCH}, not started>"
    assert ring.stop() == (0, 0)
    assert (ring.done, ring.pending, ring.ready) == (0, 0, 0)


# How it is made.


@stays
@two_stay
def test_a_second_ring_is_taken_from_the_store(
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
    monkeypatch.setattr(ring, "arch", "cuda")  # On cpu there may be many.
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
def test_a_ring_that_nobody_holds_ends() -> None:
    ring = make_ring("dropped")
    ring.start()
    assert any(t.name == "tikgen-ring-dropped" for t in threading.enumerate())
    del ring
    gc.collect()
    wait_until(lambda: all(t.name != "tikgen-ring-dropped" for t in threading.enumerate()))


def test_the_words_are_those_of_the_template() -> None:
    template = sys.modules[type(tikgen.load_template(BUILTIN_FOLDER / "ring")).__module__]
    for name in ("WORDS", "COMMAND", "TAIL", "DONE", "STATE", "BEAT", "LIMIT", "POLLS"):
        assert getattr(template, name) == getattr(words, name)
    for name in ("RUN", "PAUSE", "DRAIN", "END", "STOPPED", "DRAINED", "ABANDONED"):
        assert getattr(template, name) == getattr(words, name)


# How processes end.

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
def test_a_process_ends_as_it_would_without(text: str, code: int, told: str) -> None:
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
    # A call that waits for a paused kernel would wait for ever.
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
def test_what_an_interrupted_call_has_left_reaches_nobody_else(ring: PersistentRing) -> None:
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
        # Another call looks at what was left before it writes anything.
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

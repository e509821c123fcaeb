"""Persistent kernels and the end of their process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest

from conftest import ARCH
from persistent_samples import HANDLER, SECONDS, stays, two_stay, wait_until
from persistent_samples import _brief_proofs as _brief_proofs
from persistent_samples import ring as ring
from tikgen.ring.errors import (
    KernelStateError,
)
from tikgen.ring.persistent import words
from tikgen.ring.persistent.ring import PersistentRing

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


@pytest.mark.some
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


@pytest.mark.some
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

"""The thread pool of the engine direct-cpu runs each split of a loop once."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from loops import FOR, TASK
from tikgen.engines import thread_pool

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(bool(thread_pool.problem()), reason=thread_pool.problem() or "-"),
]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")


def run(splits: int, body: Callable[[int], None], threads: int = 3) -> set[int]:
    """Run a loop, and return the numbers of the threads that ran it."""
    pool = thread_pool.pool_of(threads)
    seen: set[int] = set()

    def task(_: object, thread: int, split: int) -> None:
        seen.add(thread)
        body(split)

    kept = TASK(task)
    FOR(pool.parallel_for)(pool.address, splits, threads, None, ctypes.cast(kept, ctypes.c_void_p))
    return seen


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_each_split_runs_once_and_before_the_loop_ends(threads: int) -> None:
    for _ in range(200):
        splits, done = random.randrange(40), []
        assert run(splits, done.append, threads) <= set(range(threads))
        assert sorted(done) == list(range(splits))


def test_splits_run_in_several_threads_at_once() -> None:
    # Each split waits for the other: one thread alone would never end.
    meeting = threading.Barrier(2)
    assert len(run(2, lambda _: meeting.wait(60) and None)) == 2


def test_threads_keep_their_splits_from_loop_to_loop() -> None:
    meeting = threading.Barrier(3)
    pool = thread_pool.pool_of(3)
    found = []

    def task(_: object, thread: int, split: int) -> None:
        found.append((thread, split))
        meeting.wait(60)  # So that nobody is free to take the split of another thread.

    kept = TASK(task)
    for _ in range(300):
        address = ctypes.cast(kept, ctypes.c_void_p)
        FOR(pool.parallel_for)(pool.address, 3, 3, None, address)
    assert set(found) == {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize("splits", [63, 64, 65, 300])
def test_many_splits_run_once_each(splits: int) -> None:
    for _ in range(20):
        done: list[int] = []
        run(splits, done.append)
        assert sorted(done) == list(range(splits))


def test_workers_that_sleep_are_woken() -> None:
    for _ in range(5):
        threading.Event().wait(0.05)  # Far longer than they spin; a loop is right either way.
        meeting = threading.Barrier(2)
        assert len(run(2, lambda _, meeting=meeting: meeting.wait(60) and None)) == 2


def test_workers_are_kept_away_from_one_processor_and_no_other() -> None:
    own = os.sched_getaffinity(0)
    sets = thread_pool._sets_without_one()
    size = len(sets) // 1024
    for n in own:
        found = int.from_bytes(sets[n * size : (n + 1) * size], sys.byteorder)
        there = {m for m in range(1024) if found >> m & 1}
        assert there == (own - {n} or own)
    test_workers_that_sleep_are_woken()
    assert os.sched_getaffinity(0) == own


def test_a_loop_within_a_loop_runs_in_its_own_thread() -> None:
    inner: list[int] = []
    assert len(run(1, lambda _: inner.extend(run(5, lambda _: None)))) == 1
    run(4, lambda _: inner.extend([len(run(5, lambda _: None))]))
    assert len(inner) >= 4


def test_loops_of_several_threads_do_not_mix() -> None:
    wrong: list[object] = []

    def launch() -> None:
        for _ in range(200):
            done: list[int] = []
            run(7, done.append)
            if sorted(done) != list(range(7)):
                wrong.append(done)

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


FORK = """
import os, sys
sys.path.insert(0, {folder!r})
import test_thread_pool as pool
done = []
pool.run(9, done.append)
child = os.fork()
if child == 0:
    again = []
    pool.run(9, again.append)
    os._exit(0 if sorted(again) == list(range(9)) else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.filterwarnings("ignore")
def test_a_forked_process_runs_loops_in_one_thread_and_processes_end() -> None:
    program = FORK.format(folder=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_launch_is_the_same_on_all_threads() -> None:
    """Taichi has the threads that begin it, and those they start, flush subnormal numbers."""
    script = """
from concurrent.futures import ThreadPoolExecutor

import numpy as np

before = ThreadPoolExecutor(1)
before.submit(int).result()  # A thread from before ti.init does not flush.
import taichi as ti
import tikgen

ti.init(arch=ti.cpu, cpu_max_num_threads=2, log_level=ti.ERROR)
kernel = tikgen.build("map", expr="z = 2*x", engine="direct-cpu")
x = np.full(300_007, 71362, np.int32).view(np.float32)
z = np.empty_like(x)


def launch():
    z[:] = 7
    kernel(x=x, z=z)
    return z.tobytes() == (2 * x).tobytes(), np.count_nonzero(z.view(np.int32))


for _ in range(20):
    for agrees, count in (launch(), before.submit(launch).result()):
        assert agrees, f"{count} of {x.size} are not 0"
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)

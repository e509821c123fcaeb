"""The engine direct-cpu gives each thread an equal part of a parallel loop, however short it is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH, init_taichi
from loops import FOR, TASK
from tikgen.engines import direct_cpu
from tikgen.pipeline.direct import direct_for

pytestmark = [
    pytest.mark.arch,
    pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu"),
]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")

CHUNK = 64


def launched(kernel: tikgen.Kernel, values: tuple[Any, ...], after: Callable[[], None]) -> int:
    """Launch in this thread, call ``after`` behind each split, and return how many there are."""
    seen = []

    def one_by_one(_: int, splits: int, threads: int, context: int, task: int) -> None:
        seen.append(splits)
        for split in range(splits):
            TASK(task)(context, 0, split)
            after()

    kept = FOR(one_by_one)
    direct = direct_for(kernel.loaded, direct_cpu.NAME)
    assert direct is not None
    launcher = direct.launcher()
    launcher.set_all(values)
    address = ctypes.cast(kept, ctypes.c_void_p).value
    ctypes.c_uint64.from_buffer(launcher._runtime, direct_cpu.PARALLEL_FOR).value = address
    launcher.launch()
    (splits,) = seen
    return splits


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_threads_share_few_iterations_evenly(threads: int, rng: np.random.Generator) -> None:
    init_taichi(cpu_max_num_threads=threads)
    kernel = tikgen.build("map", expr="z = x + y", schedule={"loop": "flat", "chunk": CHUNK})
    # One chunk, fewer chunks than threads, fewer than 512 for each, and more.
    for chunks in (1, 2, 4, 7, 40, 511, 513, 512 * threads + 1):
        size = CHUNK * chunks - int(rng.integers(CHUNK))
        x, y = rng.random((2, size), np.float32)
        z = np.full_like(x, np.nan)
        done = [0]
        splits = launched(kernel, (x, y, z), lambda: done.append(int((z == z).sum())))  # noqa: B023
        np.testing.assert_array_equal(z, x + y)
        most = -(-chunks // splits) * CHUNK
        assert splits == threads
        assert max(np.diff(done)) == min(size, most), (chunks, done)

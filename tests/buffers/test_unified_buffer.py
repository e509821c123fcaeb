"""Buffers on host and device."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from conftest import init_taichi
from tikgen.buffers.buffer_state import BufferState, Transfers
from tikgen.buffers.memory_pool import MemoryPool
from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.errors import ArgumentError
from tikgen.ring.errors import (
    BufferNotAllocatedError,
    BufferSyncError,
    InvalidConfigurationError,
)

SHAPES = [(1,), (13,), (7, 11), (2, 3, 5), ()]
DTYPES = ["i8", "u16", "i32", "u64", "f16", "f32", "f64"]


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.asarray(rng.integers(0, 100, shape)).astype(dtype)


# UnifiedBuffer.


def test_the_block_of_the_readme_runs(ti_arch: str) -> None:
    async def main() -> None:
        buffer = UnifiedBuffer((1000,), dtype=np.float32)
        buffer.allocate()
        data = np.random.randn(1000)
        buffer.host[:] = data
        buffer.mark_host_dirty()
        assert buffer.state is BufferState.HOST_DIRTY
        await buffer.ensure_on_device()
        device_data = buffer.device
        np.testing.assert_array_equal(device_data.to_numpy(), data.astype(np.float32))

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_content_survives_copies_to_the_device_and_back(
    ti_arch: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: str
) -> None:
    with UnifiedBuffer(shape, dtype) as buffer:
        data = random_array(rng, shape, buffer.dtype)
        buffer.copy_from(data)
        np.testing.assert_array_equal(buffer.device.to_numpy(), data)
        buffer.device.fill(3)
        buffer.mark_device_dirty()
        np.testing.assert_array_equal(buffer.host, np.full(shape, 3, buffer.dtype))


def test_a_side_is_allocated_at_its_first_use(ti_arch: str) -> None:
    pool = MemoryPool()
    buffer = UnifiedBuffer((64, 64), pool=pool).allocate()
    assert buffer.state is BufferState.HOST_ONLY
    buffer.host[:] = 1
    buffer.mark_host_dirty()
    assert pool.get_stats().total_bytes == 0
    assert buffer.device.to_numpy().sum() == 64 * 64
    assert pool.get_stats().used_bytes == buffer.nbytes == 64 * 64 * 4


def test_the_host_side_works_without_taichi() -> None:
    code = """
import sys
import numpy as np
from tikgen.buffers.unified_buffer import UnifiedBuffer
with UnifiedBuffer((3, 5), np.int32).fill(7) as buffer:
    assert buffer.host.sum() == 105 and buffer[1, 2] == 7 and len(buffer) == 3
    assert "taichi" not in sys.modules
"""
    fresh(code)


def test_the_device_side_starts_taichi_on_cpu() -> None:
    code = """
import logging, threading
logging.basicConfig(level=logging.INFO, format="said: %(message)s")
from tikgen.errors import TaichiNotInitialised
from tikgen.ring import UnifiedBuffer
x, y = UnifiedBuffer(7).fill(3), UnifiedBuffer(5).allocate(host=False)

def from_a_worker():  # Taichi would belong to the worker.
    try:
        x.device
    except TaichiNotInitialised as error:
        assert "ti.init" in str(error)
        refused.append(x.state.name)

refused = []
worker = threading.Thread(target=from_a_worker)
worker.start()
worker.join()
assert refused == ["HOST_DIRTY"]
assert x.device.to_numpy().sum() == 21 and y.device.to_numpy().sum() == 0
import taichi as ti
assert ti.cfg.arch == ti.cpu
y.device.fill(2)
y.mark_device_dirty()
ti.reset()
for use in (lambda: y.host, lambda: y.device):
    try:
        use()
    except Exception as error:
        assert "earlier ti.init" in str(error), error
    else:
        raise SystemExit("what is gone was given back")
ti.init(arch=ti.cpu, random_seed=5)
assert x.device.to_numpy().sum() == 21 and ti.cfg.random_seed == 5
"""
    assert fresh(code).count("said: a buffer started Taichi on cpu") == 1


def fresh(code: str) -> str:
    """Run code in a fresh process, and return its log."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("begins_on_host", [True, False])
def test_a_new_buffer_holds_zeros_and_they_are_not_copied(
    ti_arch: str, begins_on_host: bool
) -> None:
    pool = MemoryPool()
    with UnifiedBuffer(17, pool=pool) as used:
        used.device.fill(9)
    gc.collect()  # Taichi keeps arguments of compiled kernels in a cycle.
    buffer = UnifiedBuffer(17, pool=pool).allocate(host=begins_on_host)
    assert pool.get_stats().hits == 0
    assert (buffer.device.to_numpy() == 0).all()
    assert pool.get_stats().hits == 1, "the array with the nines was to be lent again"
    assert buffer.transfers == Transfers()
    # Without a copy, it is on the host only if it began there.
    assert (buffer.host == 0).all()
    assert buffer.transfers.to_host == (0 if begins_on_host else 1)
    assert buffer.state is BufferState.SYNCHRONIZED


def test_unneeded_copies_are_not_made(ti_arch: str) -> None:
    buffer = UnifiedBuffer(11).fill(2)
    for _ in range(3):
        _ = buffer.device, buffer.host
        buffer.synchronize()
    assert buffer.transfers == Transfers(1, 0, 44, 0)
    with buffer.on_device(read_only=True), buffer.on_host(read_only=True) as host:
        assert (host == 2).all()
    assert buffer.transfers == Transfers(1, 0, 44, 0)
    with buffer.on_device() as device:
        device.fill(5)
    buffer.copy_from(np.arange(11))  # The device is not read: everything is replaced.
    assert buffer.transfers == Transfers(1, 0, 44, 0)
    with buffer.on_device() as device:
        device.fill(6)
    for _ in range(3):
        assert (buffer.host == 6).all()
    assert buffer.transfers == Transfers(2, 1, 88, 44)


def test_blocks_mark_their_side_even_if_they_raise(ti_arch: str) -> None:
    buffer = UnifiedBuffer(5).allocate()
    _ = buffer.device
    with pytest.raises(ZeroDivisionError), buffer.on_host() as host:
        host[2] = 4
        _ = 1 / 0
    assert buffer.state is BufferState.HOST_DIRTY
    with pytest.raises(ZeroDivisionError), buffer.on_device() as device:
        np.testing.assert_array_equal(device.to_numpy(), [0, 0, 4, 0, 0])
        device.fill(8)
        _ = 1 / 0
    assert buffer.state is BufferState.DEVICE_DIRTY
    with buffer.on_host(read_only=True) as host:
        assert (host == 8).all()
        with pytest.raises(ValueError, match="read-only"):
            host[0] = 1
    assert buffer.state is BufferState.SYNCHRONIZED


def test_dirty_on_both_sides_is_refused(ti_arch: str) -> None:
    buffer = UnifiedBuffer(5).allocate()
    with pytest.raises(BufferSyncError, match=r"only the host side.*use buffer\.device first"):
        buffer.mark_device_dirty()
    _ = buffer.device
    buffer.mark_host_dirty()
    with pytest.raises(BufferSyncError, match="HOST_DIRTY"):
        buffer.mark_device_dirty()
    assert buffer.state is BufferState.HOST_DIRTY
    _ = buffer.device
    buffer.mark_device_dirty()
    with pytest.raises(BufferSyncError, match="DEVICE_DIRTY"):
        buffer.mark_host_dirty()
    assert buffer.state is BufferState.DEVICE_DIRTY


@pytest.mark.parametrize("side", ["host", "device"])
def test_a_block_that_writes_locks_the_other_side(ti_arch: str, side: str) -> None:
    other = {"host": "device", "device": "host"}[side]
    buffer = UnifiedBuffer(5).allocate()
    _ = buffer.device
    with getattr(buffer, f"on_{side}")():
        with pytest.raises(BufferSyncError, match=f"a block writes to the {side}"):
            getattr(buffer, other)
        with pytest.raises(BufferSyncError), getattr(buffer, f"on_{other}")(read_only=True):
            pass
        with pytest.raises(BufferSyncError):
            getattr(buffer, f"mark_{other}_dirty")()
        with pytest.raises(BufferSyncError, match="free"):
            buffer.free()
        with getattr(buffer, f"on_{side}")(read_only=True):
            pass
    with getattr(buffer, f"on_{side}")(read_only=True):
        with pytest.raises(BufferSyncError, match=f"reads the {side}"):
            getattr(buffer, f"on_{other}")().__enter__()
        getattr(buffer, other)
    with getattr(buffer, f"on_{other}")():
        pass


def test_use_before_allocate_and_after_free_is_refused(ti_arch: str) -> None:
    buffer = UnifiedBuffer(5)
    for match in ("call allocate", "was freed"):
        for use in (
            lambda: buffer.host,
            lambda: buffer.device,
            lambda: buffer[0],
            lambda: buffer.__setitem__(0, 1),
            buffer.mark_host_dirty,
            buffer.mark_device_dirty,
            buffer.synchronize,
            lambda: buffer.on_host().__enter__(),
            lambda: buffer.on_device().__enter__(),
            lambda: asyncio.run(buffer.ensure_on_device()),
        ):
            with pytest.raises(BufferNotAllocatedError, match=match):
                use()
        assert buffer.state is BufferState.UNINITIALIZED
        buffer.fill(1) if match == "call allocate" else None
        buffer.free()
        buffer.free()
    for replace in (lambda: buffer.fill(1), buffer.zeros, lambda: buffer.copy_from(np.ones(5))):
        with pytest.raises(BufferNotAllocatedError, match="was freed"):
            replace()
    with pytest.raises(BufferNotAllocatedError), buffer:
        pass
    assert (buffer.allocate().host == 0).all()


def test_invalid_arguments_are_refused_and_change_nothing(ti_arch: str) -> None:
    for shape in (0, -1, (3, 0), "abc", 2.5, (2**16, 2**16), 13 * (1,), None):
        with pytest.raises(InvalidConfigurationError, match="shape"):
            UnifiedBuffer(shape)  # type: ignore[arg-type]
    for dtype in (bool, np.complex64, "f128", object, "nonsense"):
        with pytest.raises(InvalidConfigurationError, match="dtype"):
            UnifiedBuffer(3, dtype)
    with pytest.raises(InvalidConfigurationError, match="page-locked"):
        UnifiedBuffer(3, pinned=True)
    with pytest.raises(InvalidConfigurationError, match="must be True"):
        UnifiedBuffer(3).allocate(host=False, device=False)
    buffer = UnifiedBuffer(3, np.int32).fill(4)
    _ = buffer.device
    for wrong in (np.ones(4, np.int32), np.ones((3, 1), np.int32), 5):
        with pytest.raises(ArgumentError, match=r"shape \(3,\); got"):
            buffer.copy_from(wrong)
    with pytest.raises(ArgumentError, match="int32; got float64"):
        buffer.copy_from(np.ones(3))
    with pytest.raises(ArgumentError, match="int32; got int64"):
        buffer.copy_from([1, 2, 2**31])  # NumPy would wrap it around.
    for value in (1.5, 2**40, "a", None, [1, 2, 3], float("nan")):
        with pytest.raises(ArgumentError, match="fill takes a number"):
            buffer.fill(value)
    assert buffer.state is BufferState.SYNCHRONIZED
    assert (np.asarray(buffer) == 4).all()
    wide = UnifiedBuffer(3, np.float32).fill(4)
    for value in (1e39, -(10**400), np.float64(-1e300)):
        with pytest.raises(ArgumentError, match="float32 can hold"):
            wide.fill(value)
    assert (wide.host == 4).all()
    assert np.isneginf(wide.fill(-np.inf).host).all()
    assert (wide.fill(3.4028235e38).host == np.finfo(np.float32).max).all()
    for values in ([1e300, 1, 2], np.array([1, -np.inf, -1e39])):
        with pytest.raises(ArgumentError, match="takes float32; got float64 with values beyond"):
            wide.copy_from(values)
    wide.copy_from([np.inf, -np.inf, np.nan])
    half, bytes_ = UnifiedBuffer(3, "f16").fill(1), UnifiedBuffer(3, "u8").fill(1)
    for target, value in ((half, [70_000, 1, 2]), (half, 70_000), (bytes_, [300, 1, 2]),
                          (bytes_, -1), (bytes_, [0.5, 1, 2]), (bytes_, 0.5)):  # fmt: skip
        with pytest.raises(ArgumentError, match=f"assignment takes {target.dtype}; got"):
            target[:] = value
        assert (target[:] == 1).all()
    bytes_[1:] = [2.0, 255][1:]
    bytes_[0] = 3.0
    assert bytes_[:].tolist() == [3, 255, 255]
    with pytest.raises(ArgumentError, match="masked array"):
        bytes_[:] = np.ma.masked_array([1, 2, 3], [1, 0, 0])
    with pytest.raises(ValueError, match="float64 is a copy"):
        wide.__array__(np.dtype("f8"), copy=False)
    buffer.copy_from([2**31 - 1, 0, -(2**31)])
    assert buffer.device.to_numpy().tolist() == [2**31 - 1, 0, -(2**31)]
    with pytest.raises(TypeError):
        len(UnifiedBuffer(()))


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy,
          "pickle": lambda buffer: pickle.loads(pickle.dumps(buffer))}  # fmt: skip


@pytest.mark.parametrize("how", COPIES)
def test_copies_share_nothing(ti_arch: str, how: str) -> None:
    buffer = UnifiedBuffer(3, "i16").fill(1)
    buffer.device.fill(2)
    buffer.mark_device_dirty()
    other = COPIES[how](buffer)
    assert (other.shape, other.dtype, other[:].tolist()) == ((3,), np.int16, [2, 2, 2])
    assert other.device is not buffer.device
    other.fill(7)
    buffer.free()
    assert other.device.to_numpy().tolist() == [7, 7, 7]
    assert not COPIES[how](buffer).is_allocated


def test_another_ti_init_loses_content_of_the_device_and_raises(ti_arch: str) -> None:
    held, lost, fresh = (UnifiedBuffer(6).fill(i) for i in range(3))
    for buffer in (held, lost, fresh):
        _ = buffer.device
    lost.mark_device_dirty()
    fresh.mark_device_dirty()
    old = held.device
    init_taichi()
    assert held.state is BufferState.HOST_ONLY
    assert held.device is not old
    assert (held.device.to_numpy() == 0).all()
    for use in (lambda: lost.host, lambda: lost.device, lambda: lost[0]):
        with pytest.raises(BufferSyncError, match=r"earlier ti\.init"):
            use()
    fresh.copy_from(np.full(6, 5))
    assert (fresh.device.to_numpy() == 5).all()
    lost.free()
    assert (lost.allocate().device.to_numpy() == 0).all()


def test_threads_that_share_a_buffer_copy_it_once(ti_arch: str) -> None:
    buffer = UnifiedBuffer(1009).fill(1)
    buffer.device.fill(7)
    buffer.mark_device_dirty()
    sums: list[float] = []
    threads = [threading.Thread(target=lambda: sums.append(buffer.host.sum())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sums == [7 * 1009] * 8
    assert buffer.transfers.to_host == 1


# Leaks.


def test_buffers_do_not_leak(ti_arch: str) -> None:
    _ = UnifiedBuffer(257).fill(1).device.to_numpy()
    gc.collect()  # Taichi keeps arguments of compiled kernels in a cycle.
    pool = MemoryPool()
    for i in range(200):
        buffer = UnifiedBuffer((257,), pool=pool).fill(i)
        assert buffer.device.to_numpy()[-1] == i
        if i % 2:
            buffer.free()
    del buffer
    stats = pool.get_stats()
    assert stats.used_bytes == 0
    assert stats.misses <= 2
    assert stats.hits + stats.misses == 200
    assert stats.total_bytes == stats.misses * 257 * 4


def test_a_referenced_array_is_not_reused(ti_arch: str) -> None:
    pool = MemoryPool()
    buffer = UnifiedBuffer(31, pool=pool).fill(5)
    held = buffer.device
    buffer.free()
    with UnifiedBuffer(31, pool=pool) as other:
        assert other.device is not held
        other.device.fill(1)
        assert (held.to_numpy() == 5).all()
    del held
    gc.collect()
    assert pool.get_stats().hits == 0
    both = pool.acquire(31, "f32"), pool.acquire(31, "f32")
    assert pool.get_stats().hits == 2
    assert both[0] is not both[1]

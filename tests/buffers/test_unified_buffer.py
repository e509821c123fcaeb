"""Buffers on host and device, their pool, and the devices."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from conftest import init_taichi
from tikgen.buffers.accelerator import Accelerator, DeviceType, get_accelerator
from tikgen.buffers.buffer_state import BufferState, Transfers
from tikgen.buffers.extents import MIB
from tikgen.buffers.memory_pool import MemoryPool, configure_memory_pool, get_memory_pool
from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.errors import ArgumentError, TaichiNotInitialised
from tikgen.ring.errors import (
    BufferError,
    BufferNotAllocatedError,
    BufferSyncError,
    InvalidConfigurationError,
    PoolExhausted,
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
    for shape in (0, -1, (3, 0), "abc", 2.5, (2**16, 2**16), None):
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
    buffer.copy_from([2**31 - 1, 0, -(2**31)])
    assert buffer.device.to_numpy().tolist() == [2**31 - 1, 0, -(2**31)]
    with pytest.raises(TypeError):
        len(UnifiedBuffer(()))


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


# MemoryPool.


def test_the_pool_reuses_arrays_of_the_same_shape_and_dtype(ti_arch: str) -> None:
    pool = MemoryPool()
    array = pool.acquire((5, 7), np.float32)
    assert tuple(array.shape) == (5, 7)
    array.fill(3)
    pool.release(array)
    del array
    gc.collect()
    for shape, dtype in (((7, 5), "f32"), ((35,), "f32"), ((5, 7), "i32")):
        pool.acquire(shape, dtype)
    assert pool.get_stats().hits == 0
    again = pool.acquire((5, 7), "f32", zeroed=True)
    assert pool.get_stats().hits == 1
    assert (again.to_numpy() == 0).all()


def test_the_limit_holds_and_drops_free_arrays(ti_arch: str) -> None:
    pool = MemoryPool(max_size_mb=1)
    kept = pool.acquire(MIB // 8, "f32")  # Half of it.
    with pytest.raises(PoolExhausted, match=f"limit of {MIB} bytes") as caught:
        pool.acquire(MIB // 8 + 1, "f32")
    assert (caught.value.used, caught.value.limit) == (MIB // 2, MIB)
    for count in (1000, 2000, 3000):
        pool.release(pool.acquire(count, "f32"))
    assert pool.get_stats().n_free_blocks == 3
    pool.acquire(MIB // 8 - 5000, "f32")
    stats = pool.get_stats()
    assert stats.total_bytes <= MIB
    assert stats.evictions == 1, "the oldest alone was to go"
    del kept
    gc.collect()
    with pytest.raises(InvalidConfigurationError, match="max_size_mb"):
        MemoryPool(2, 1)
    for wrong in (-1, "1", None, float("nan"), float("inf"), True):
        with pytest.raises(InvalidConfigurationError, match="initial_size_mb"):
            MemoryPool(wrong)  # type: ignore[arg-type]


def test_the_initial_size_is_reserved(ti_arch: str) -> None:
    pool = MemoryPool(initial_size_mb=1, max_size_mb=1)
    assert pool.get_stats().total_bytes == 0
    small = pool.acquire(16, "f32")
    stats = pool.get_stats()
    assert MIB * 7 // 8 <= stats.total_bytes <= MIB
    assert stats.used_bytes == 64
    large = pool.acquire(MIB - 64, "u8")
    assert pool.get_stats().total_bytes == MIB
    with pytest.raises(PoolExhausted):
        pool.acquire(1, "u8")
    del small, large


def test_statistics_include_fragmentation(ti_arch: str) -> None:
    pool = MemoryPool()
    assert pool.get_stats().fragmentation == pool.get_stats().utilization == 0
    arrays = [pool.acquire(count, "u8") for count in (100, 200, 300, 400)]
    while len(arrays) > 1:
        pool.release(arrays.pop(0))
    stats = pool.get_stats()
    assert (stats.used_bytes, stats.free_bytes, stats.n_free_blocks) == (400, 600, 3)
    assert stats.fragmentation == pytest.approx(0.5)
    assert stats.utilization == pytest.approx(0.4)
    assert stats.total_bytes == 1000
    pool.free_all_blocks()
    assert pool.get_stats().total_bytes == 400


def test_foreign_arrays_cannot_be_released(ti_arch: str) -> None:
    pool, other = MemoryPool(), MemoryPool()
    array = pool.acquire(3, "f32")
    with pytest.raises(BufferError, match="not one that this pool lent"):
        other.release(array)
    pool.release(array)
    with pytest.raises(BufferError, match="given back"):
        pool.release(array)
    for nothing in (None, np.zeros(3), 5):
        with pytest.raises(BufferError, match="not one that this pool lent"):
            pool.release(nothing)
    assert pool.get_stats().n_free_blocks == 1


def test_a_disabled_pool_keeps_no_arrays(ti_arch: str) -> None:
    pool = MemoryPool()
    assert pool.enabled
    pool.release(pool.acquire(3, "f32"))
    pool.disable()
    assert pool.get_stats().total_bytes == 0
    pool.release(pool.acquire(3, "f32"))
    assert pool.get_stats().total_bytes == 0
    pool.enable()
    pool.release(pool.acquire(3, "f32"))
    assert pool.get_stats().n_free_blocks == 1


def test_several_pools_may_exist_and_the_default_can_be_replaced(ti_arch: str) -> None:
    before = get_memory_pool()
    try:
        assert MemoryPool(max_size_mb=1) is not MemoryPool(max_size_mb=2)
        pool = configure_memory_pool(max_size_mb=0.001)
        assert get_memory_pool() is pool
        with pytest.raises(PoolExhausted):
            _ = UnifiedBuffer(1000).allocate().device
        assert UnifiedBuffer(100).allocate().device.shape[0] == 100
        assert not configure_memory_pool(enable=False).enabled
    finally:
        import tikgen.buffers.memory_pool as module

        module._default = before


def test_a_pool_is_empty_after_ti_init(ti_arch: str) -> None:
    pool = MemoryPool()
    lent = pool.acquire(9, "f32")
    pool.release(pool.acquire(8, "f32"))
    init_taichi()
    assert pool.get_stats().total_bytes == 0
    pool.release(lent)  # Releasing a stale array has no effect.
    assert pool.get_stats().total_bytes == 0
    assert pool.acquire(9, "f32") is not lent


def test_the_pool_needs_taichi() -> None:
    import taichi as ti

    ti.reset()
    try:
        with pytest.raises(TaichiNotInitialised):
            MemoryPool().acquire(3, "f32")
        assert MemoryPool().get_stats().total_bytes == 0
    finally:
        init_taichi()


# Accelerator.


def test_the_accelerator_lists_working_devices(ti_arch: str) -> None:
    accelerator = Accelerator()
    assert ti_arch in accelerator.archs
    assert len(accelerator.devices) >= 1
    for index, device in enumerate(accelerator.devices):
        assert device.device_id == index
        assert device.name
        assert device.total_memory is None or device.total_memory > 2**20
    assert set(accelerator.archs).isdisjoint(accelerator.problems)
    assert {*accelerator.archs, *accelerator.problems} == {kind.value for kind in DeviceType}
    assert accelerator.current_device.arch == ti_arch
    assert accelerator.cuda_available == ("cuda" in accelerator.archs)
    memory = accelerator.get_memory_info()
    if ti_arch == "cpu":
        assert 0 < memory["free"] <= memory["total"]  # type: ignore[operator]
        assert memory["used"] == memory["total"] - memory["free"]  # type: ignore[operator]
    accelerator.synchronize()
    assert get_accelerator() is get_accelerator()


def test_an_arch_on_which_a_kernel_fails_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tikgen.machine import doctor

    def examine(archs: tuple[str, ...]) -> Any:
        reports = tuple(
            doctor.ArchReport(arch, arch == "cpu", "", "the probe was ended by SIGSEGV")
            for arch in archs
        )
        return doctor.Diagnosis({}, reports, (), (), ())

    monkeypatch.setattr(doctor, "examine", examine)
    accelerator = Accelerator(verify=True)
    assert accelerator.archs == ("cpu",)
    assert [device.device_id for device in accelerator.devices] == [0]
    if "vulkan" in Accelerator().archs:
        assert "SIGSEGV" in accelerator.problems["vulkan"]

"""Pools of arrays, and the list of devices."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from conftest import init_taichi
from tikgen.buffers.accelerator import Accelerator, DeviceType, get_accelerator
from tikgen.buffers.extents import MIB
from tikgen.buffers.memory_pool import MemoryPool, configure_memory_pool, get_memory_pool
from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.errors import TaichiNotInitialised
from tikgen.ring.errors import (
    BufferError,
    InvalidConfigurationError,
    PoolExhausted,
)

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


@pytest.mark.parametrize("way", ["release", "disabled", "free all"])
def test_released_arrays_that_are_referenced_count(ti_arch: str, way: str) -> None:
    pool = MemoryPool(max_size_mb=1)
    if way == "disabled":
        pool.disable()
    held = pool.acquire(3 * MIB // 4, "u8")
    pool.release(held)
    with pytest.raises(BufferError, match="given back"):
        pool.release(held)
    if way == "free all":
        pool.free_all_blocks()
    with pytest.raises(PoolExhausted) as caught:
        pool.acquire(MIB // 2, "u8")
    assert caught.value.used == pool.get_stats().total_bytes == 3 * MIB // 4
    assert pool.get_stats().evictions == 0
    del held
    gc.collect()
    assert pool.acquire(MIB // 2, "u8").shape == (MIB // 2,)


def test_free_arrays_of_a_pool_without_limit_are_bounded(
    ti_arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tikgen.buffers.memory_pool._LEAST_KEPT", 1000)
    pool = MemoryPool()
    for count in range(300, 320):
        pool.release(pool.acquire(count, "u8"))
        assert pool.get_stats().free_bytes <= 1000 + count
    pool.release(pool.acquire(319, "u8"))
    assert pool.get_stats().hits == 1, "the first ones were to go"
    at_once = [pool.acquire(count, "u8") for count in range(1000, 1004)]
    while at_once:
        pool.release(at_once.pop())
    pool.acquire(7, "u8")
    assert 4006 - 1003 <= pool.get_stats().free_bytes <= 4006


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

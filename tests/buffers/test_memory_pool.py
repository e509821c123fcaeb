"""The pool that arrays are from, and the devices there are."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from conftest import init_taichi
from tikgen.buffers.accelerator import Accelerator, get_accelerator
from tikgen.buffers.devices import DeviceType
from tikgen.buffers.extents import MIB, size_class
from tikgen.buffers.memory_pool import MemoryPool, configure_memory_pool, get_memory_pool
from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.errors import TaichiNotInitialised
from tikgen.ring.errors import (
    BufferError,
    InvalidConfigurationError,
    PoolExhausted,
)

# Leaks.


def test_buffers_do_not_leak(ti_arch: str) -> None:
    _ = UnifiedBuffer(257).fill(1).device.to_numpy()
    gc.collect()  # Taichi keeps what a kernel was compiled for in a cycle.
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


def test_an_array_that_somebody_holds_is_lent_to_nobody_else(ti_arch: str) -> None:
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


def test_the_pool_lends_again_what_fits_exactly(ti_arch: str) -> None:
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


def test_size_classes_waste_a_quarter_at_most(ti_arch: str) -> None:
    for count in [*range(1, 3000), 2**20 + 1, 2**31 - 1]:
        rounded = size_class(count)
        assert count <= rounded <= max(64, count * 1.25)
        assert size_class(rounded) == rounded
    pool = MemoryPool()
    array = pool.acquire(1000, "f32", exact=False)
    assert array.shape[0] == 1024
    stats = pool.get_stats()
    assert (stats.used_bytes, stats.wasted_bytes) == (4096, 96)
    pool.release(array)
    del array
    pool.acquire(1010, "f32", exact=False)
    assert pool.get_stats().hits == 1
    with pytest.raises(InvalidConfigurationError, match="one axis"):
        pool.acquire((2, 3), "f32", exact=False)


def test_the_limit_holds_and_frees_what_is_not_used(ti_arch: str) -> None:
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


def test_a_lower_limit_takes_effect_at_once(ti_arch: str) -> None:
    pool = MemoryPool()
    pool.release(pool.acquire(MIB, "u8"))
    array = pool.acquire(1000, "u8")
    pool.set_limit(0.5)
    assert pool.get_stats().total_bytes == 1000
    with pytest.raises(InvalidConfigurationError, match="1000 bytes are in use"):
        pool.set_limit(0)
    pool.set_limit(None)
    pool.release(array)
    assert pool.get_stats().limit_bytes is None


def test_the_initial_size_is_held_until_arrays_need_it(ti_arch: str) -> None:
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


def test_statistics_tell_of_fragmentation(ti_arch: str) -> None:
    pool = MemoryPool()
    assert pool.get_stats().fragmentation == pool.get_stats().utilization == 0
    arrays = [pool.acquire(count, "u8") for count in (100, 200, 300, 400)]
    while len(arrays) > 1:
        pool.release(arrays.pop(0))
    stats = pool.get_stats()
    assert (stats.used_bytes, stats.free_bytes, stats.n_free_blocks) == (400, 600, 3)
    assert stats.fragmentation == pytest.approx(0.5)
    assert stats.utilization == pytest.approx(0.4)
    assert stats.total_mb == 1000 / MIB
    pool.free_all_blocks()
    assert pool.get_stats().total_bytes == 400


def test_what_is_not_lent_cannot_be_given_back(ti_arch: str) -> None:
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


def test_a_disabled_pool_keeps_nothing(ti_arch: str) -> None:
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


def test_pools_are_no_singletons_and_the_default_can_be_configured(ti_arch: str) -> None:
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


def test_a_pool_begins_anew_with_ti_init(ti_arch: str) -> None:
    pool = MemoryPool()
    lent = pool.acquire(9, "f32")
    pool.release(pool.acquire(8, "f32"))
    init_taichi()
    assert pool.get_stats().total_bytes == 0
    pool.release(lent)  # It is gone: nothing to give back, and nothing to complain of.
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


def test_the_accelerator_lists_what_works(ti_arch: str) -> None:
    accelerator = Accelerator()
    assert ti_arch in accelerator.archs
    assert accelerator.device_count == len(accelerator.devices) >= 1
    for index, device in enumerate(accelerator.devices):
        assert accelerator.get_device(index) is device
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
    for wrong in (-1, accelerator.device_count, "0", True):
        with pytest.raises(InvalidConfigurationError, match="device_id"):
            accelerator.get_device(wrong)  # type: ignore[arg-type]


def test_a_device_of_another_arch_than_taichis_cannot_be_set(ti_arch: str) -> None:
    accelerator = Accelerator()
    for device in accelerator.devices:
        if device.arch == ti_arch and device.number == 0:
            accelerator.set_device(device.device_id)
            assert accelerator.current_device is device
        else:
            with pytest.raises(InvalidConfigurationError, match="Taichi"):
                accelerator.set_device(device.device_id)


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

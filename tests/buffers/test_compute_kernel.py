"""Kernels over buffers: what is taken as one, what they write, and where they refuse to run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import init_taichi
from tikgen.buffers import accelerator, device_side
from tikgen.buffers.compute_kernel import kernel
from tikgen.buffers.function_source import tree_of, written_names
from tikgen.buffers.launches import KernelLaunchConfig, within
from tikgen.buffers.memory_pool import MemoryPool
from tikgen.buffers.orchestrator import ComputeOrchestrator
from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.errors import ArgumentError, WrongThread
from tikgen.ring.errors import (
    BackendNotAvailableError,
    BufferSyncError,
    InvalidConfigurationError,
)
from tikgen.taichi import runtime


@kernel
def total(x) -> ti.f32:
    found = 0.0
    for i in range(x.shape[0]):
        found += x[i]
    return found


def test_a_kernel_may_return_a_number(ti_arch: str) -> None:
    x = UnifiedBuffer(3)
    x.copy_from(np.float32([1, 2, 4]))
    assert total(x) == 7
    assert repr(total) == "<kernel total for auto>"
    again = kernel(total, name="again")
    assert (again.name, again(x), again.function) == ("again", 7, total.function)


def test_annotations_that_cannot_be_read_are_refused() -> None:
    def wrong(x: nowhere):  # noqa: F821
        pass

    with pytest.raises(InvalidConfigurationError, match="an annotation cannot be read: name 'now"):
        _ = kernel(wrong).compiled


def test_arrays_that_are_only_compared_are_not_written() -> None:
    def compared(a, b, c, d, e):
        i = 0
        while a[i] > 0 and b[i]:
            i += 1
        if c[0] < 3 or i:
            d[i] = c[1] if e[0] else c[2]

    assert written_names(tree_of(compared), ["a", "b", "c", "d", "e"]) == {"d"}


def test_an_array_of_an_earlier_init_is_refused(ti_arch: str) -> None:
    stale = ti.ndarray(ti.f32, 3)
    init_taichi()
    with pytest.raises(ArgumentError, match=r"'x' was made before the last ti\.init and is stale"):
        total(stale)


@kernel
def grown(x):
    for i in x:
        x[i] += 1


@kernel
def grown_rows(x):
    for i, j in x:
        x[i, j] += 1


@kernel
def copied(x: ti.types.ndarray(dtype=ti.f32, ndim=1), y):
    for i in y:
        y[i] = x[i]


def locked(array: np.ndarray) -> np.ndarray:
    array = array.view()
    array.flags.writeable = False
    return array


def mapped(folder: Path) -> np.ndarray:
    np.save(folder / "x.npy", np.zeros(4, np.float32))
    return np.load(folder / "x.npy", mmap_mode="r")  # Writing to it ends the process.


_FLOATS = np.zeros(4, np.float32)
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "locked": (lambda _: grown(locked(_FLOATS)), "'x' is read-only, and the kernel may write"),
    "mapped": (lambda folder: grown(mapped(folder)), "'x' is read-only"),
    "of ti": (lambda _: kernel(grown.compiled)(locked(_FLOATS)), "'x' is read-only"),
    "masked": (lambda _: grown(np.ma.masked_array(_FLOATS, 4 * [1])), "'x' is a masked array"),
    "strided": (lambda _: grown(_FLOATS[::2]), r"not contiguous .*; pass np.ascontiguousarray\(x"),
    "swapped": (lambda _: grown(_FLOATS.astype(">f4")), r">f4; pass x.astype\(np.float32\)"),
    "complex": (
        lambda _: grown(_FLOATS + 0j),
        "takes an array of one of bool, float16, .*; got comp",
    ),
    "one axis": (lambda _: grown_rows(_FLOATS), r"'x' takes 2 axes, .* loops over it; got .*4,"),
    "two axes": (lambda _: grown(UnifiedBuffer((2, 2)).fill(0)), r"takes 1 axis, .* got .*2, 2"),
    "annotated": (lambda _: copied(np.zeros(4), _FLOATS), "required array has dtype=f32"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arrays_that_taichi_cannot_take_are_refused(
    ti_arch: str, tmp_path: Path, case: str
) -> None:
    call, why = REFUSED[case]
    with pytest.raises(ArgumentError, match=why):
        call(tmp_path)
    assert not _FLOATS.any()


def test_read_only_arrays_are_read(ti_arch: str, tmp_path: Path) -> None:
    y = np.ones(4, np.float32)
    copied(mapped(tmp_path), y)
    assert not y.any()
    buffer = UnifiedBuffer(4).fill(1)
    with buffer.on_host(read_only=True) as host:
        copied(host, y)
        with pytest.raises(ArgumentError, match="read-only"):
            grown(host)
    assert (y == 1).all()


USES: dict[str, tuple[Callable[[], Any], str]] = {
    "kernel": (lambda: total(np.zeros(3, np.float32)), "total cannot have its first launch in"),
    "buffer": (lambda: UnifiedBuffer(3).allocate().device, "UnifiedBuffer cannot use its device"),
    "pool": (lambda: MemoryPool().acquire((3,), np.float32), "MemoryPool cannot make an array on"),
}


@pytest.mark.parametrize("use", USES)
def test_a_thread_that_may_not_begin_is_told(
    ti_arch: str, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    monkeypatch.setattr(runtime, "may_materialise", lambda: False)
    monkeypatch.setattr(runtime, "may_allocate", lambda: False)
    call, problem = USES[use]
    with pytest.raises(WrongThread, match=problem):
        call()


def test_a_copy_that_fails_names_its_direction(ti_arch: str) -> None:
    with pytest.raises(BufferSyncError, match="host to device") as caught:
        device_side._transfer("host to device", lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_buffers_and_pools_say_what_they_are(ti_arch: str) -> None:
    buffer: UnifiedBuffer[Any] = UnifiedBuffer((2, 3))
    assert (buffer.shape, buffer.is_allocated) == ((2, 3), False)
    buffer.allocate()
    assert buffer.is_allocated
    with buffer.on_device() as array:
        array.fill(2)
    asyncio.run(buffer.ensure_on_host())
    assert (buffer.host == 2).all()
    assert "limit=none, enabled=True" in repr(MemoryPool())


def test_the_accelerator_knows_what_taichi_uses(
    ti_arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = accelerator.get_accelerator()
    assert f"{found.devices[0].arch}: {found.devices[0].name}" in repr(found)
    with monkeypatch.context() as patch:
        patch.setattr(accelerator, "_current_arch", lambda: "metal")
        with pytest.raises(BackendNotAvailableError, match=r"metal.* not known to tikgen"):
            _ = found.current_device
    monkeypatch.delitem(sys.modules, "taichi")
    assert accelerator._current_arch() is None


def test_an_orchestrator_launches_kernels_of_templates(ti_arch: str) -> None:
    double = tikgen.build("map", expr="y = 2*x", dtype="f32")
    x, y = np.ones(5, np.float32), np.zeros(5, np.float32)

    async def main() -> None:
        async with ComputeOrchestrator() as orchestrator:
            assert repr(orchestrator).startswith("ComputeOrchestrator(active=True, kernels=0")
            with pytest.raises(InvalidConfigurationError, match="cannot be called"):
                orchestrator.register_kernel("double", 3)  # type: ignore[arg-type]
            orchestrator.register_kernel("double", double)
            config = KernelLaunchConfig(timeout=60)
            await orchestrator.launch_kernel("double", x=x, y=y, config=config)
            (made,) = orchestrator.get_execution_history()
            assert made.config is config

    asyncio.run(main())
    assert (y == 2).all()


def test_a_call_within_its_time_gives_its_result_or_is_cancelled() -> None:
    ended: list[str] = []

    async def work(seconds: float) -> int:
        try:
            await asyncio.sleep(seconds)
        finally:
            ended.append("work")
        return 7

    async def main() -> None:
        assert await within(60, work(0)) == 7
        task = asyncio.ensure_future(within(60, work(60)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["work", "work"]

    asyncio.run(main())

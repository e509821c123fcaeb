"""A CUDA driver that runs nothing: it records launches, and keeps memory of the host."""

# ruff: noqa: N802, N815 - the driver's own names.
from __future__ import annotations

import ctypes
import types
from typing import Any

import numpy as np
import pytest

from tikgen.engines import cuda_driver

PRIMARY, FOREIGN = 0xC0, 0xC1
_KINDS = ("MEMORY_TYPE", "DEVICE_ORDINAL", "CONTEXT")


class FakeDriver:
    """The functions of ``cuda.bindings.driver`` that the engine calls.

    Attributes:
        current: the context of each thread.
        launched: function, blocks, threads, stream and what was passed by value of each launch.
        owner: device and context of memory by address.
    """

    def __init__(self, parameter_bytes: int = 64) -> None:
        self.current = 0
        self.launched: list[tuple[str, int, int, int, bytes]] = []
        self.owner: dict[int, tuple[int, int]] = {}
        self.capturing: set[int] = set()
        self.waits: list[tuple[int, int]] = []
        self.refused = 0
        self.free = 1 << 36
        self._bytes = parameter_bytes
        self._memory: dict[int, Any] = {}
        names = [f"CU_POINTER_ATTRIBUTE_{kind}" for kind in _KINDS]
        self.CUpointer_attribute = types.SimpleNamespace(**{n: n for n in names})
        self.CUstreamCaptureMode = types.SimpleNamespace(
            CU_STREAM_CAPTURE_MODE_RELAXED=2, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1
        )
        self.CUgraphInstantiate_flags = types.SimpleNamespace(
            CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY=8
        )
        self.CUstream_flags = types.SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
        self.CUevent_flags = types.SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
        self.CUdevice_attribute = types.SimpleNamespace(
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=10,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=9,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=0,
        )

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *_: (0,)

    def cuGetErrorString(self, code: int) -> Any:
        return 0, b"as the test wants it"

    def cuDeviceGetCount(self) -> Any:
        return 0, 1

    def cuDeviceGetAttribute(self, which: int, device: int) -> Any:
        return 0, which

    def cuDevicePrimaryCtxRetain(self, device: int) -> Any:
        return 0, PRIMARY

    def cuCtxGetCurrent(self) -> Any:
        return 0, self.current

    def cuCtxSetCurrent(self, context: int) -> Any:
        self.current = context
        return (0,)

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> Any:
        return 0, 0

    def cuModuleLoadData(self, text: bytes) -> Any:
        return (0, text) if b".version" in text else (218, None)

    def cuModuleGetFunction(self, module: bytes, name: bytes) -> Any:
        return (0, name.decode()) if name in module else (500, None)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, function: str, block: int, size: int
    ) -> Any:
        return 0, 2048 // block

    def cuPointerGetAttribute(self, kind: str, address: int) -> Any:
        if address not in self.owner:
            return 1, None
        return 0, {
            _KINDS[0]: 2,
            _KINDS[1]: self.owner[address][0],
            _KINDS[2]: self.owner[address][1],
        }[kind.removeprefix("CU_POINTER_ATTRIBUTE_")]

    def cuMemGetInfo(self) -> Any:
        return 0, self.free, 1 << 37

    def cuMemAlloc(self, size: int) -> Any:
        made = ctypes.create_string_buffer(size)
        self._memory[ctypes.addressof(made)] = made
        return 0, ctypes.addressof(made)

    def cuMemcpyHtoDAsync(self, to: int, source: int, size: int, stream: int) -> Any:
        ctypes.memmove(to, source, size)
        return (0,)

    cuMemcpyDtoHAsync = cuMemcpyHtoDAsync

    def cuStreamGetCtx(self, stream: int) -> Any:
        return (0, PRIMARY) if stream < 100 else (0, FOREIGN)

    def cuStreamIsCapturing(self, stream: int) -> Any:
        return 0, int(stream in self.capturing)

    def cuStreamCreate(self, flags: int) -> Any:
        return 0, 99

    def cuStreamBeginCapture(self, stream: int, mode: int) -> Any:
        self.capturing.add(stream)
        return (0,)

    def cuStreamEndCapture(self, stream: int) -> Any:
        self.capturing.discard(stream)
        return 0, "graph"

    def cuGraphInstantiate(self, graph: str, flags: int) -> Any:
        return 0, graph

    def cuGraphLaunch(self, graph: str, stream: int) -> Any:
        self.launched.append((graph, 0, 0, stream, b""))
        return (0,)

    def cuEventCreate(self, flags: int) -> Any:
        return 0, [None]

    def cuEventRecord(self, event: list[Any], stream: int) -> Any:
        event[0] = stream
        return (0,)

    def cuStreamWaitEvent(self, stream: int, event: list[Any], flags: int) -> Any:
        self.waits.append((stream, event[0]))
        return (0,)

    def cuLaunchKernel(self, function: str, *more: Any) -> Any:
        blocks, _, _, block, _, _, _, stream, parameters, _ = more
        if self.current != PRIMARY:
            return (201,)
        if self.refused:
            return (self.refused,)
        place = ctypes.c_void_p.from_address(parameters).value
        assert place is not None
        passed = ctypes.string_at(place, self._bytes)
        self.launched.append((function, blocks, block, stream, passed))
        return (0,)


class OnDevice:
    """An array that the driver says is on the device."""

    def __init__(self, driver: FakeDriver, address: int, *shape: int, owner: Any = (0, 0)) -> None:
        self.shape = shape
        self.move(driver, address, owner)

    def move(self, driver: FakeDriver, address: int, owner: Any = (0, 0)) -> None:
        self._address = address
        driver.owner[address] = owner

    def data_ptr(self) -> int:
        return self._address

    def element_size(self) -> int:
        return 4

    def nelement(self) -> int:
        return int(np.prod(self.shape))


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> None:
    """Have the engine call ``fake``."""
    monkeypatch.setattr(cuda_driver, "driver", lambda: fake)
    for name in ("problem", "context", "capability", "attribute"):
        monkeypatch.setattr(cuda_driver, name, getattr(cuda_driver, name).__wrapped__)

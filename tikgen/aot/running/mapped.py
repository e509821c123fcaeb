"""Memory of the host that a GPU reaches while a kernel runs, as an array of both."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tikgen.aot.running.c_engine import Engine
from tikgen.aot.running.device_array import DeviceArray
from tikgen.dtypes import DType
from tikgen.errors import LibraryError, UnsupportedOnArch
from tikgen.machine import drivers

# CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
_FLAGS = ctypes.c_uint(1 | 2)


def mapped(engine: Engine, count: int, dtype: DType) -> tuple[np.ndarray[Any, Any], DeviceArray]:
    """Return zeros as NumPy sees them, and the same as kernels take them.

    The memory goes with the context of the runtime: neither may be used once it is closed.

    Raises:
        LibraryError: if the driver does not give such memory.
        UnsupportedOnArch: if the arch is not cuda.
    """
    if engine.arch != "cuda":
        raise UnsupportedOnArch("mapped memory", engine.arch, "only cuda has it")
    size = count * dtype.numpy.itemsize
    host, device = ctypes.c_void_p(), ctypes.c_uint64()
    with engine.lock:
        runtime = engine.handle  # Its context is current in this thread now.
        driver = drivers.cuda()
        code = driver.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(size), _FLAGS)
        code = code or driver.cuMemHostGetDevicePointer_v2(ctypes.byref(device), host, 0)
        if code or not host.value:
            raise LibraryError(f"mapping {size} bytes of the host", f"the driver says {code}", code)
        memory = engine.library.import_cuda(runtime, device.value, size)
    array = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(host.value)).view(
        dtype.numpy
    )
    array[:] = 0
    return array, DeviceArray.of_memory(engine, memory, (count,), dtype)

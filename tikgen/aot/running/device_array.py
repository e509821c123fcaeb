"""Arrays that stay on the device between the calls of a runtime."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tikgen.aot.running.c_engine import Engine
from tikgen.aot.running.packing import array_argument
from tikgen.dtypes import DType
from tikgen.errors import ArgumentError, LibraryError, UnsupportedOnArch
from tikgen.machine import drivers
from tikgen.template.argument_checks import hidden_problem
from tikgen.template.shapes import MOST_ELEMENTS

# CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
_MAPPED = ctypes.c_uint(1 | 2)


class DeviceArray:
    """An array on the device of a :class:`Runtime`, made by its ``empty``, ``zeros`` or ``array``.

    Kernels and graphs of that runtime take it like a NumPy array, without copies and without
    waiting. On the processor it is memory of NumPy.

    Attributes:
        dtype: its element type.
        shape: its shape; axes of vectors and matrices come last.
    """

    __slots__ = (
        "__weakref__",
        "_free",
        "_host",
        "_memory",
        "_packed",
        "dtype",
        "engine",
        "is_open",
        "shape",
    )

    def __init__(self, engine: Engine, shape: Sequence[int], dtype: DType) -> None:
        self.engine, self.dtype, self.shape = engine, dtype, tuple(shape)
        self._packed: dict[int, bytes] = {}
        self._host: np.ndarray[Any, Any] | None = None
        self._free: weakref.finalize[..., DeviceArray] | None = None
        with engine.lock:
            if engine.is_host:
                self._host = np.empty(self.shape, dtype.numpy)
                address = self._host.ctypes.data
                self._memory = engine.import_host(address, self._host.nbytes)
            else:
                self._memory = engine.allocate(self.nbytes)
                self._free = weakref.finalize(self, engine.drop, self._memory)
        self.is_open = True

    @classmethod
    def of_memory(
        cls, engine: Engine, memory: int, shape: Sequence[int], dtype: DType
    ) -> DeviceArray:
        """Return memory on the device as an array that does not free it."""
        made = cls.__new__(cls)
        made.engine, made.dtype, made.shape = engine, dtype, tuple(shape)
        made._memory, made._packed, made._host, made._free = memory, {}, None, None
        made.is_open = True
        return made

    @property
    def memory(self) -> int:
        """Return the engine's handle of its memory."""
        return self._memory

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Return its size in bytes."""
        return self.size * self.dtype.bits // 8

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy as a NumPy array, after all earlier launches.

        Raises:
            ArgumentError: if the array or its runtime is closed.
            LibraryError: if the library reports an error.
        """
        self._check_open()
        with self.engine.lock:
            self._check_open()
            made: np.ndarray[Any, Any] = np.empty(self.shape, self.dtype.numpy)
            if self._host is not None:
                np.copyto(made, self._host)
            else:
                self.download(made)
            return made

    def from_numpy(self, array: np.ndarray[Any, Any]) -> None:
        """Take the values of a NumPy array of the same shape and dtype.

        Raises:
            ArgumentError: if shape or dtype differ, or if the array or its runtime is closed.
            LibraryError: if the library reports an error.
        """
        self._check_open()
        if problem := hidden_problem("array", array):
            raise ArgumentError("DeviceArray", problem)
        if not isinstance(array, np.ndarray) or array.dtype != self.dtype.numpy:
            found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise ArgumentError(
                "DeviceArray", f"takes a NumPy array of dtype {self.dtype.numpy}; got {found}"
            )
        if array.shape != self.shape:
            raise ArgumentError("DeviceArray", f"takes shape {self.shape}; got {array.shape}")
        whole = np.ascontiguousarray(array).reshape(self.shape)
        with self.engine.lock:
            self._check_open()
            if self._host is not None:
                np.copyto(self._host, whole)
            else:
                self.upload(whole)

    def fill(self, value: int | float) -> None:
        """Set every element to ``value``.

        Raises:
            ArgumentError: if the dtype cannot hold it, or if the array or its runtime is closed.
            LibraryError: if the library reports an error.
        """
        if not self.dtype.holds(value):
            raise ArgumentError("DeviceArray", f"of {self.dtype} cannot hold {value!r:.60}")
        self.from_numpy(np.full(self.shape, value, self.dtype.numpy))

    def close(self) -> None:
        """Free its memory now instead of when nothing refers to it."""
        with self.engine.lock:  # A launch may be using it.
            self.is_open = False
            self._host = None
            if self._free is not None:
                self._free()

    def upload(self, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array to the device; the caller holds the engine's lock."""
        self.engine.copy_in(self._memory, array.ctypes.data, array.nbytes)

    def download(self, array: np.ndarray[Any, Any]) -> None:
        """Copy into a contiguous host array; the caller holds the engine's lock."""
        self.engine.copy_out(self._memory, array.ctypes.data, array.nbytes)

    def argument(self, element_axes: int) -> bytes:
        """Return it as the bytes of an argument; the last axes may be those of elements."""
        packed = self._packed.get(element_axes)
        if packed is None:
            packed = array_argument(self._memory, self.dtype, self.shape, element_axes)
            self._packed[element_axes] = packed
        return packed

    def problem(self) -> str:
        """Return why it can no longer be used, or nothing."""
        if not self.is_open:
            return "is a DeviceArray that was closed"
        if self.engine.is_closed:
            return "is a DeviceArray of a runtime that was closed"
        return ""

    def _check_open(self) -> None:
        if problem := self.problem():
            raise ArgumentError("DeviceArray", problem)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        made = self.to_numpy()
        return made if dtype is None else made.astype(dtype, copy=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        state = "" if not self.problem() else ", closed"
        return f"<DeviceArray {self.dtype}{list(self.shape)} on {self.engine.arch}{state}>"


def checked_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a new array, after checking it."""
    found = (shape,) if isinstance(shape, int | np.integer) else shape
    try:
        made = tuple(int(extent) for extent in found if not isinstance(extent, float | bool))
        is_whole = len(made) == len(tuple(found))
    except (TypeError, ValueError):
        made, is_whole = (), False
    if not is_whole or min(made, default=1) < 1 or math.prod(made) > MOST_ELEMENTS:
        raise ArgumentError(
            "DeviceArray",
            f"takes a shape of positive integers, of {MOST_ELEMENTS} elements at most; "
            f"got {shape!r}",
        )
    return made


def mapped(engine: Engine, count: int, dtype: DType) -> tuple[np.ndarray[Any, Any], DeviceArray]:
    """Return zeros in memory that host and GPU share; closing the runtime frees it."""
    if engine.arch != "cuda":
        raise UnsupportedOnArch("mapped memory", engine.arch, "only cuda has it")
    size = count * dtype.numpy.itemsize
    host, device = ctypes.c_void_p(), ctypes.c_uint64()
    with engine.lock:
        runtime = engine.handle  # Its context is current in this thread now.
        driver = drivers.cuda()
        code = driver.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(size), _MAPPED)
        code = code or driver.cuMemHostGetDevicePointer_v2(ctypes.byref(device), host, 0)
        if code or not host.value:
            raise LibraryError(f"mapping {size} bytes of the host", f"the driver says {code}", code)
        memory = engine.library.import_cuda(runtime, device.value, size)
    array = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(host.value)).view(
        dtype.numpy
    )
    array[:] = 0
    return array, DeviceArray.of_memory(engine, memory, (count,), dtype)

"""Memory that NumPy and a kernel see at once: any on cpu, what is mapped into a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.errors import LibraryError
from tikgen.ring.errors import BackendNotAvailableError

if TYPE_CHECKING:
    from tikgen.aot import Runtime

_LINE = 64


class SharedMemory:
    """Allocates arrays that a kernel of a runtime and this process use at the same time.

    Args:
        runtime: what runs the kernel, on the processor or on cuda.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._is_mapped = runtime.arch == "cuda"

    def allocate(self, dtype: DType, count: int) -> tuple[Any, Any]:
        """Return an array of zeros, and what the kernel takes in its place.

        Raises:
            BackendNotAvailableError: if the driver does not give such memory.
        """
        if self._is_mapped:
            try:
                return self._runtime.mapped(count, dtype)
            except LibraryError as error:
                raise BackendNotAvailableError("cuda", str(error)) from None
        size = count * dtype.numpy.itemsize
        buffer = np.zeros(size + _LINE, np.uint8)
        start = -buffer.ctypes.data % _LINE
        array = buffer[start : start + size].view(dtype.numpy)
        return array, array

    def own(self, array: Any) -> Any:
        """Return an array that outlives the runtime: a copy where its memory does not."""
        return array.copy() if self._is_mapped else array

"""The device side of a buffer: a ``ti.ndarray`` of a pool, and copies to and from it."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from tikgen.buffers.errors import BufferSyncError
from tikgen.buffers.memory_pool import MemoryPool, get_memory_pool
from tikgen.dtypes import DType
from tikgen.errors import TaichiNotInitialised, TikgenError, WrongThread
from tikgen.taichi import arrays, runtime

_WHO = "UnifiedBuffer"


class DeviceSide:
    """The device array of a buffer, returned to its pool at the end."""

    def __init__(
        self,
        owner: object,
        shape: tuple[int, ...],
        dtype: DType,
        pool: MemoryPool | None,
        zeroed: bool,
    ) -> None:
        _start_taichi()
        _check_thread()
        self._pool = get_memory_pool() if pool is None else pool
        self.array = self._pool.acquire(shape, dtype, zeroed=zeroed)
        self._finalizer: weakref.finalize[Any, Any] = self._pool.give_back_when_dead(
            owner, self.array
        )

    @property
    def is_stale(self) -> bool:
        """Return whether the array belongs to an earlier ``ti.init``."""
        return arrays.is_stale(self.array)

    def write(self, host: NDArray[Any]) -> None:
        """Copy a host array into the device array."""
        _transfer("host to device", lambda: self.array.from_numpy(host))

    def read(self, host: NDArray[Any]) -> None:
        """Copy the device array into a host array."""

        def read() -> None:
            host[...] = self.array.to_numpy()

        _transfer("device to host", read)

    def give_back(self) -> None:
        """Return the array to its pool; the object is unusable afterwards."""
        array, self.array = self.array, None
        if self._finalizer.detach() is not None:
            self._pool.release(array)


def _transfer(direction: str, copy: Callable[[], None]) -> None:
    _check_thread()
    try:
        with runtime.compiling:  # The first copy of a kind compiles a kernel.
            copy()
    except TikgenError:
        raise
    except Exception as error:
        raise BufferSyncError(direction, error) from error


def _start_taichi() -> None:
    """Start Taichi on cpu if it is not started."""
    # Taichi belongs to the thread that starts it, which must last as long as the program.
    if runtime.is_initialised() or threading.current_thread() is not threading.main_thread():
        return
    import taichi as ti

    ti.init(arch=ti.cpu)
    logging.getLogger("tikgen.ring").info(
        "a buffer started Taichi on cpu; call ti.init earlier for another arch"
    )


def _check_thread() -> None:
    if not runtime.is_initialised():
        raise TaichiNotInitialised(_WHO)
    if not runtime.may_materialise():
        what = "use its device side"
        raise WrongThread(_WHO, what, "first launch a kernel, or use the device side of a buffer,")

"""A buffer with a host side and a device side, allocated and copied when needed."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tikgen.buffers.buffer_state import BufferState, Transfers
from tikgen.buffers.content import fitting, made_again
from tikgen.buffers.errors import (
    BufferNotAllocatedError,
    BufferSyncError,
    InvalidConfigurationError,
)
from tikgen.buffers.extents import sound_dtype, sound_shape
from tikgen.errors import ArgumentError

if TYPE_CHECKING:
    from tikgen.buffers.device_side import DeviceSide
    from tikgen.buffers.memory_pool import MemoryPool

T = TypeVar("T", bound=np.generic)
_Side = Literal["host", "device"]

_ON_HOST_ALONE = (BufferState.HOST_ONLY, BufferState.HOST_DIRTY)
_ON_DEVICE_ALONE = (BufferState.DEVICE_ONLY, BufferState.DEVICE_DIRTY)
_DIRTY = {"host": BufferState.HOST_DIRTY, "device": BufferState.DEVICE_DIRTY}
_OTHER: dict[_Side, _Side] = {"host": "device", "device": "host"}


class UnifiedBuffer(Generic[T]):
    """A NumPy array and a ``ti.ndarray`` with the same content.

    Code that writes to a side marks it, with :meth:`mark_host_dirty` or :meth:`mark_device_dirty`,
    or writes within :meth:`on_host` or :meth:`on_device`. A copy is made only when the other side
    is read. Threads may share a buffer if they use these blocks. ``copy.copy``, ``copy.deepcopy``
    and ``pickle`` make another buffer of the same content; an unpickled one has the default pool.

    Args:
        shape: number of elements along each axis.
        dtype: the element type, as NumPy or Taichi names it.
        pinned: must be False: Taichi has no page-locked memory.
        pool: the pool of the device array; None for the default pool.

    Attributes:
        transfers: the number of copies.

    Raises:
        InvalidConfigurationError: if Taichi has no array of this shape or dtype.
    """

    def __init__(
        self,
        shape: tuple[int, ...] | int,
        dtype: Any = np.float32,
        *,
        pinned: bool = False,
        pool: MemoryPool | None = None,
    ) -> None:
        self._shape = sound_shape(shape)
        self._element = sound_dtype(dtype)
        if pinned:
            problem = "Taichi has no page-locked memory; leave it out"
            raise InvalidConfigurationError("pinned", pinned, problem)
        self._pool = pool
        self._state = BufferState.UNINITIALIZED
        self._was_freed = False
        # A side that is not allocated yet holds zeros.
        self._host: NDArray[T] | None = None
        self._device: DeviceSide | None = None
        # Numbers of blocks that read or write a side.
        self._readers: dict[_Side, int] = {"host": 0, "device": 0}
        self._writers: dict[_Side, int] = {"host": 0, "device": 0}
        self._lock = threading.RLock()
        self.transfers = Transfers()

    # Properties.

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of elements along each axis."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[T]:
        """Return the NumPy dtype of the elements."""
        return self._element.numpy

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes of one side."""
        return self.size * self._element.bits // 8

    @property
    def state(self) -> BufferState:
        """Return which side holds the content."""
        with self._lock:
            self._discard_stale()
            return self._state

    @property
    def is_allocated(self) -> bool:
        """Return whether it is allocated."""
        return self._state is not BufferState.UNINITIALIZED

    def __repr__(self) -> str:
        return f"UnifiedBuffer(shape={self._shape}, dtype={self.dtype}, state={self.state.name})"

    # Allocation.

    def allocate(self, *, host: bool = True, device: bool = True) -> UnifiedBuffer[T]:
        """Make the buffer usable, with zeros, and return it; memory is allocated at first use.

        An allocated buffer is not changed.

        Args:
            host: whether the content begins on the host, and not on the device.
            device: whether it may begin on the device, if not on the host.

        Raises:
            InvalidConfigurationError: if both are False.
        """
        if not host and not device:
            raise InvalidConfigurationError("device", device, "host or device must be True")
        if self._state is BufferState.UNINITIALIZED:
            self._state = BufferState.HOST_ONLY if host else BufferState.DEVICE_ONLY
            self._was_freed = False
        return self

    def free(self) -> None:
        """Free the memory; a second call has no effect.

        Raises:
            BufferSyncError: if a block uses the buffer.
        """
        with self._lock:
            if any((*self._readers.values(), *self._writers.values())):
                raise BufferSyncError("free", "a block with on_host or on_device uses the buffer")
            if self._state is BufferState.UNINITIALIZED:
                return
            self._state, self._was_freed = BufferState.UNINITIALIZED, True
            self._host = None
            self._drop_device()

    def __enter__(self) -> UnifiedBuffer[T]:
        return self.allocate() if not self._was_freed else self._usable()

    def __exit__(self, *_: object) -> None:
        self.free()

    # Sides.

    @property
    def host(self) -> NDArray[T]:
        """Return the host array, up to date.

        Raises:
            BufferNotAllocatedError: if the buffer is not allocated, or was freed.
            BufferSyncError: if a block writes to the device side, or its content is lost.
        """
        with self._lock:
            self._usable("host")
            return self._brought_to_host()

    @property
    def device(self) -> Any:
        """Return the device array, a ``ti.ndarray``, up to date; starts Taichi on cpu if needed.

        Raises:
            BufferNotAllocatedError: if the buffer is not allocated, or was freed.
            BufferSyncError: if a block writes to the host side, or the content is lost.
            PoolExhausted: if the array would exceed the limit of the pool.
            TaichiNotInitialised: if ``ti.init`` was not called, and this is not the main thread.
            WrongThread: if this thread cannot use the device.
        """
        with self._lock:
            self._usable("device")
            return self._brought_to_device()

    @contextlib.contextmanager
    def on_host(self, *, read_only: bool = False) -> Iterator[NDArray[T]]:
        """Yield the host array to a block that writes to it.

        Args:
            read_only: whether to yield a read-only view, and mark nothing.

        Raises:
            BufferSyncError: if a block uses the device side, and one of them writes.
        """
        with self._block("host", read_only):
            array = self._brought_to_host()
            if read_only:
                array = array.view()
                array.flags.writeable = False
            yield array

    @contextlib.contextmanager
    def on_device(self, *, read_only: bool = False) -> Iterator[Any]:
        """Yield the device array to a block that writes to it.

        Args:
            read_only: whether the block does not write.

        Raises:
            BufferSyncError: if a block uses the host side, and one of them writes.
        """
        with self._block("device", read_only):
            yield self._brought_to_device()

    @contextlib.contextmanager
    def _block(self, side: _Side, read_only: bool) -> Iterator[None]:
        counts = self._readers if read_only else self._writers
        with self._lock:
            self._usable(side) if read_only else self._writable(side)
            # Before the block is counted: an error must mark nothing.
            _ = self._brought_to_host() if side == "host" else self._brought_to_device()
            counts[side] += 1
        try:
            yield
        finally:
            with self._lock:
                counts[side] -= 1
                if not read_only:
                    self._state = _DIRTY[side]

    def mark_host_dirty(self) -> None:
        """Mark the host side as written.

        Raises:
            BufferNotAllocatedError: if the buffer is not allocated, or was freed.
            BufferSyncError: if only the device holds the content, which would be lost.
        """
        self._mark("host", _ON_DEVICE_ALONE)

    def mark_device_dirty(self) -> None:
        """Mark the device side as written.

        Raises:
            BufferNotAllocatedError: if the buffer is not allocated, or was freed.
            BufferSyncError: if only the host holds the content, which would be lost.
        """
        self._mark("device", _ON_HOST_ALONE)

    def _mark(self, side: _Side, refused: tuple[BufferState, ...]) -> None:
        with self._lock:
            self._writable(side)
            if self.state in refused:
                raise BufferSyncError(
                    f"mark the {side} side as written",
                    f"only the {_OTHER[side]} side holds the content ({self._state.name}); "
                    f"use buffer.{side} first, which copies it",
                )
            if side == "host":
                self._brought_to_host()
            self._state = _DIRTY[side]

    def synchronize(self) -> None:
        """Bring both sides up to date."""
        if self._usable().state is BufferState.HOST_DIRTY:
            _ = self.device
        elif self._state is BufferState.DEVICE_DIRTY:
            _ = self.host

    async def ensure_on_device(self) -> None:
        """Bring the device side up to date; raises as :attr:`device`."""
        _ = self.device

    async def ensure_on_host(self) -> None:
        """Bring the host side up to date; raises as :attr:`host`."""
        _ = self.host

    def _usable(self, side: _Side | None = None) -> UnifiedBuffer[T]:
        if self._state is BufferState.UNINITIALIZED:
            raise BufferNotAllocatedError(self._was_freed)
        if side is not None and self._writers[_OTHER[side]]:
            raise BufferSyncError(f"use the {side} side", f"a block writes to the {_OTHER[side]}")
        return self

    def _writable(self, side: _Side) -> None:
        self._usable(side)
        if self._readers[_OTHER[side]]:
            problem = f"a block reads the {_OTHER[side]} side now"
            raise BufferSyncError(f"write on the {side}", problem)

    def _brought_to_host(self) -> NDArray[T]:
        self._discard_stale()
        host = self._host
        if host is None:
            host = np.zeros(self._shape, self._element.numpy)
        if self._state in _ON_DEVICE_ALONE:
            if self._device is not None:
                self._check_not_lost("device to host")
                self._device.read(host)
                self.transfers.to_host += 1
                self.transfers.bytes_to_host += self.nbytes
            self._state = BufferState.SYNCHRONIZED
        self._host = host
        return host

    def _brought_to_device(self) -> Any:
        from tikgen.buffers.device_side import DeviceSide

        self._discard_stale()
        self._check_not_lost("host to device")
        is_behind = self._state is BufferState.HOST_DIRTY
        if self._device is None:
            is_behind = self._host is not None and self._state not in _ON_DEVICE_ALONE
            self._device = DeviceSide(
                self, self._shape, self._element, self._pool, zeroed=not is_behind
            )
        if is_behind and self._host is not None:
            self._device.write(self._host)
            self.transfers.to_device += 1
            self.transfers.bytes_to_device += self.nbytes
        if self._state in _ON_HOST_ALONE:
            self._state = BufferState.SYNCHRONIZED
        return self._device.array

    def _discard_stale(self) -> None:
        """Discard a device array of an earlier ``ti.init`` if the host holds the content."""
        is_in_use = self._readers["device"] or self._writers["device"]
        if self._device is None or is_in_use or self._state in _ON_DEVICE_ALONE:
            return
        if self._device.is_stale:
            self._drop_device()
            if self._state is BufferState.SYNCHRONIZED:
                self._state = BufferState.HOST_ONLY

    def _check_not_lost(self, direction: str) -> None:
        if self._device is not None and self._device.is_stale:
            problem = "the content was lost with an earlier ti.init; fill() or free() the buffer"
            raise BufferSyncError(direction, problem)

    def _drop_device(self) -> None:
        if self._device is not None:
            device, self._device = self._device, None
            device.give_back()

    # Content.

    def copy_from(self, data: Any) -> None:
        """Replace the content.

        Args:
            data: an array of the buffer's shape, or another buffer.

        Raises:
            ArgumentError: if the shape differs, or the dtype cannot hold the values.
        """
        source = fitting("copy_from", self._element, data)
        if source.shape != self._shape:
            problem = f"copy_from takes an array of shape {self._shape}; got {source.shape}"
            raise ArgumentError("UnifiedBuffer", problem)
        with self._lock:
            self._replaced()[...] = source

    def fill(self, value: Any) -> UnifiedBuffer[T]:
        """Set every element to ``value`` and return the buffer.

        Raises:
            ArgumentError: if it is no number, or the dtype cannot hold it.
        """
        if not self._element.holds(value):
            problem = f"fill takes a number that {self.dtype} can hold; got {value!r:.60}"
            raise ArgumentError("UnifiedBuffer", problem)
        with self._lock:
            self._replaced()[...] = value
        return self

    def zeros(self) -> UnifiedBuffer[T]:
        """Set every element to zero and return the buffer."""
        return self.fill(0)

    def _replaced(self) -> NDArray[T]:
        """Return the host array for replacing all of its content."""
        if not self._was_freed:
            self.allocate()
        self._writable("host")
        if self._device is not None and self._device.is_stale:
            self._drop_device()
        if self._host is None:
            self._host = np.zeros(self._shape, self._element.numpy)
        self._state = BufferState.HOST_DIRTY
        return self._host

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("a buffer without axes has no length")
        return self._shape[0]

    def __getitem__(self, key: Any) -> Any:
        return self.host[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write to elements, as NumPy does; raises as :meth:`copy_from`."""
        if not self._element.holds(value):
            value = fitting("an assignment", self._element, value)
        with self._lock:
            self._writable("host")
            self._brought_to_host()[key] = value
            self._state = BufferState.HOST_DIRTY

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the host array, for ``np.asarray(buffer)``.

        Raises:
            ValueError: if another dtype needs a copy, and ``copy`` is False.
        """
        host = self.host
        wanted = host.dtype if dtype is None else np.dtype(dtype)
        if copy is False and wanted != host.dtype:
            raise ValueError(f"an array of {wanted} is a copy of this buffer of {host.dtype}")
        return host.astype(wanted) if copy or wanted != host.dtype else host

    # Copies.

    def __copy__(self) -> UnifiedBuffer[T]:
        make, arguments = self.__reduce__()
        made: UnifiedBuffer[T] = make(*arguments, self._pool)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> UnifiedBuffer[T]:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        content = self.host if self.is_allocated else None
        return made_again, (type(self), self._shape, self._element.value, content)

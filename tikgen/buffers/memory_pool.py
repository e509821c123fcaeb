"""A pool of device arrays, which are reused when they come back."""

from __future__ import annotations

import collections
import gc
import math
import sys
import threading
import weakref
from dataclasses import dataclass
from typing import Any

from tikgen.buffers.errors import BufferError, InvalidConfigurationError, PoolExhausted
from tikgen.buffers.extents import MIB, bytes_in, sound_dtype, sound_shape
from tikgen.dtypes import DType
from tikgen.errors import TaichiNotInitialised, WrongThread
from tikgen.taichi import arrays, runtime

_RESERVE_BLOCKS = 16
# Bytes of free arrays that a pool without a limit may always keep.
_LEAST_KEPT = 64 * MIB
# References of the pool itself: one of the block, one of the argument.
_UNSHARED = 2


@dataclass(eq=False)
class _Block:
    """A free array of the pool; ``kind`` is its dtype and shape."""

    array: Any
    kind: tuple[DType, tuple[int, ...]]
    nbytes: int
    number: int = 0  # Grows with each return: the lowest is the oldest.


@dataclass
class _Loan:
    """An array in use, which it does not keep alive; a released one that is referenced counts."""

    ref: weakref.ref[Any]
    kind: tuple[DType, tuple[int, ...]]
    nbytes: int
    is_released: bool = False


@dataclass(frozen=True)
class PoolStatistics:
    """The statistics of a pool.

    Attributes:
        used_bytes: bytes of arrays in use, also after a release if the pool does not keep them.
        total_bytes: bytes of all arrays: in use, free or reserved.
        n_free_blocks: number of free and reserved arrays.
        largest_free_bytes: bytes of the largest of those.
        limit_bytes: the limit, None without one.
        hits: how often an array was reused.
        misses: how often a new one was made.
        evictions: how often a free one was dropped to make room.
    """

    used_bytes: int
    total_bytes: int
    n_free_blocks: int
    largest_free_bytes: int = 0
    limit_bytes: int | None = None
    hits: int = 0
    misses: int = 0
    evictions: int = 0

    @property
    def free_bytes(self) -> int:
        """Return the bytes of free and reserved arrays."""
        return self.total_bytes - self.used_bytes

    @property
    def utilization(self) -> float:
        """Return the share of the pool that is in use, from 0 to 1."""
        return self.used_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def fragmentation(self) -> float:
        """Return the share of free bytes outside the largest free array, from 0 to 1."""
        return 1 - self.largest_free_bytes / self.free_bytes if self.free_bytes else 0.0


class MemoryPool:
    """Lends arrays ``ti.ndarray``, and keeps them for reuse.

    An array is reused for the same dtype and shape only, since Taichi cannot reshape one, and
    never while it is still referenced. An array that is dropped without being released is freed
    by Taichi. After another ``ti.init`` the pool is empty.

    When a new array is made, free ones are dropped if need be, the first released first: to stay
    within the limit or, without one, to keep no more bytes than were ever in use at once, or 64 MiB
    if that is more.

    Args:
        initial_size_mb: MiB that the pool reserves with its first array.
        max_size_mb: limit of all its arrays in MiB, released ones that are referenced included;
            None for no limit.

    Raises:
        InvalidConfigurationError: if a size is invalid, or the first exceeds the second.
    """

    def __init__(self, initial_size_mb: float = 0, max_size_mb: float | None = None) -> None:
        self._initial = bytes_in("initial_size_mb", initial_size_mb)
        self._limit = None if max_size_mb is None else bytes_in("max_size_mb", max_size_mb)
        if self._limit is not None and self._initial > self._limit:
            problem = f"is more than max_size_mb={max_size_mb!r}"
            raise InvalidConfigurationError("initial_size_mb", initial_size_mb, problem)
        self._enabled = True
        self._lock = threading.RLock()
        # Appended to by garbage collection, in any thread; read by _settle.
        self._came_back: collections.deque[Any] = collections.deque()
        self._dropped: collections.deque[int] = collections.deque()
        self._begin()

    def _begin(self) -> None:
        self._epoch = runtime.epoch()
        self._loans: dict[int, _Loan] = {}
        self._free: dict[Any, list[_Block]] = {}
        self._reserve: list[_Block] = []
        self._used = self._peak = self._kept = self._number = 0
        self._hits = self._misses = self._evictions = 0
        self._has_reserved = False

    # Lending.

    def acquire(self, shape: int | tuple[int, ...], dtype: Any, *, zeroed: bool = False) -> Any:
        """Return a ``ti.ndarray``, a released one if possible.

        Args:
            shape: number of elements along each axis.
            dtype: the element type, as NumPy or Taichi names it.
            zeroed: whether it must hold zeros; else its content is undefined.

        Raises:
            PoolExhausted: if the limit does not allow it.
            InvalidConfigurationError: if Taichi has no array of this shape or dtype.
            TaichiNotInitialised: if ``ti.init`` was not called.
            WrongThread: if only the thread that called ``ti.init`` can make arrays.
        """
        kind = (sound_dtype(dtype), sound_shape(shape))
        if not runtime.is_initialised():
            raise TaichiNotInitialised("MemoryPool")
        with self._lock:
            self._settle()
            array = self._take(kind)
            if array is not None:
                self._hits += 1
                if zeroed:
                    array.fill(0)
            else:
                array = self._make(kind)
                self._misses += 1
            self._lend(array, kind)
            return array

    def release(self, array: Any) -> None:
        """Return an array to the pool, for reuse once it is not referenced any more.

        Raises:
            BufferError: if it is not in use from this pool.
        """
        with self._lock:
            self._settle()
            is_gone = isinstance(array, arrays.TaichiArray) and arrays.is_stale(array)
            if not self._put_back(array) and not is_gone:
                raise BufferError(
                    "MemoryPool: the array is not one that this pool lent, or was given back"
                )

    def give_back_when_dead(self, owner: object, array: Any) -> weakref.finalize[Any, Any]:
        """Release an array when its owner is garbage collected, unless the result is detached.

        Args:
            owner: any object that can be weakly referenced.
            array: the array, which lives as long as the owner.
        """
        finalizer = weakref.finalize(owner, self._came_back.append, array)
        finalizer.atexit = False
        return finalizer

    def _lend(self, array: Any, kind: Any, is_released: bool = False) -> None:
        key, dropped = id(array), self._dropped
        self._end_loan(key)  # An earlier array of this address is dead.
        ref = weakref.ref(array, lambda _: dropped.append(key))
        self._loans[key] = _Loan(ref, kind, _size(*kind), is_released)
        self._used += _size(*kind)
        self._peak = max(self._peak, self._used)

    def _end_loan(self, key: int) -> _Loan | None:
        loan = self._loans.pop(key, None)
        if loan is not None:
            self._used -= loan.nbytes
        return loan

    def _put_back(self, array: Any) -> bool:
        loan = self._loans.get(id(array))
        if loan is None or loan.ref() is not array or loan.is_released:
            return False
        if not self._enabled:
            loan.is_released = True  # It takes memory until nothing refers to it.
        else:
            self._end_loan(id(array))
            self._number += 1
            block = _Block(array, loan.kind, loan.nbytes, self._number)
            self._free.setdefault(loan.kind, []).append(block)
            self._kept += loan.nbytes
        return True

    def _take(self, kind: Any) -> Any:
        blocks = self._free.get(kind, [])
        for index in range(len(blocks) - 1, -1, -1):
            if not _is_shared(blocks[index]):
                block = blocks.pop(index)
                self._kept -= block.nbytes
                return block.array
        return None

    def _make(self, kind: tuple[DType, tuple[int, ...]]) -> Any:
        if not runtime.may_allocate():
            raise WrongThread("MemoryPool", "make an array on cuda", "acquire it")
        if not self._has_reserved:
            self._hold_reserve()
        self._make_room(_size(*kind))
        with runtime.compiling:
            return arrays.make_ndarray(kind[0].value, kind[1])

    def _hold_reserve(self) -> None:
        self._has_reserved = True
        size = self._initial // _RESERVE_BLOCKS
        kind = (DType.u8, (size,))
        with runtime.compiling:
            for _ in range(_RESERVE_BLOCKS if size else 0):
                self._reserve.append(_Block(arrays.make_ndarray("u8", (size,)), kind, size))

    # Room.

    def _total(self) -> int:
        return self._used + self._kept + sum(block.nbytes for block in self._reserve)

    def _make_room(self, wanted: int) -> None:
        limit = self._limit
        if limit is not None and self._referenced() + wanted > limit:
            gc.collect()  # Taichi keeps arguments of kernels, and their buffers, in cycles.
            self._settle()
            if (used := self._referenced()) + wanted > limit:
                raise PoolExhausted(wanted, used, limit)
        gone = []
        while self._reserve and self._total() + wanted > self._initial:
            gone.append(self._reserve.pop())
        if self._keeps_too_much(wanted):
            for block in sorted(self._blocks(), key=lambda block: block.number):
                if not _is_shared(block) and self._keeps_too_much(wanted):
                    gone.append(self._remove(block))
                    self._evictions += 1
        self._drop(gone)

    def _keeps_too_much(self, wanted: int) -> bool:
        if self._limit is None:
            return self._kept > max(self._peak, _LEAST_KEPT)
        return self._total() + wanted > self._limit

    def _referenced(self) -> int:
        """Return the bytes that dropping free arrays would not free."""
        return self._used + sum(block.nbytes for block in self._blocks() if _is_shared(block))

    def _blocks(self) -> list[_Block]:
        return [block for blocks in self._free.values() for block in blocks]

    def _remove(self, block: _Block) -> _Block:
        blocks = self._free[block.kind]
        blocks.remove(block)
        if not blocks:
            del self._free[block.kind]
        self._kept -= block.nbytes
        return block

    def _drop(self, blocks: list[_Block]) -> None:
        """Drop arrays; on vulkan their memory is freed only while the device is idle."""
        if blocks:
            runtime.sync()
            blocks.clear()
            runtime.sync()

    def _settle(self) -> None:
        """Account for arrays that came back, were dropped, or belong to an earlier ``ti.init``."""
        if self._epoch is not runtime.epoch():
            self._begin()
        while self._came_back:
            self._put_back(self._came_back.popleft())
        while self._dropped:
            key = self._dropped.popleft()
            if key in self._loans and self._loans[key].ref() is None:
                self._end_loan(key)

    # Settings and statistics.

    @property
    def enabled(self) -> bool:
        """Return whether released arrays are kept."""
        return self._enabled

    def enable(self) -> None:
        """Keep released arrays, the default."""
        self._enabled = True

    def disable(self) -> None:
        """Keep no released arrays, and drop those that are kept."""
        self._enabled = False
        self.free_all_blocks()

    def free_all_blocks(self) -> None:
        """Drop every array that is not in use, and the reserve."""
        with self._lock:
            self._settle()
            gone = [*self._blocks(), *self._reserve]
            self._free, self._reserve, self._kept = {}, [], 0
            for block in filter(_is_shared, gone):
                self._lend(block.array, block.kind, is_released=True)
            self._drop(gone)

    def get_stats(self) -> PoolStatistics:
        """Return the current statistics."""
        with self._lock:
            self._settle()
            free = [*self._blocks(), *self._reserve]
            return PoolStatistics(
                used_bytes=self._used,
                total_bytes=self._total(),
                n_free_blocks=len(free),
                largest_free_bytes=max((block.nbytes for block in free), default=0),
                limit_bytes=self._limit,
                hits=self._hits,
                misses=self._misses,
                evictions=self._evictions,
            )

    def __repr__(self) -> str:
        stats = self.get_stats()
        limit = "none" if self._limit is None else f"{self._limit} bytes"
        return (
            f"MemoryPool(used={stats.used_bytes} bytes, total={stats.total_bytes} bytes, "
            f"limit={limit}, enabled={self._enabled})"
        )


_default = MemoryPool()


def get_memory_pool() -> MemoryPool:
    """Return the default pool."""
    return _default


def configure_memory_pool(
    initial_size_mb: float = 0, max_size_mb: float | None = None, enable: bool = True
) -> MemoryPool:
    """Replace the default pool, and return the new one.

    Args:
        initial_size_mb: see :class:`MemoryPool`.
        max_size_mb: see :class:`MemoryPool`.
        enable: whether released arrays are kept.
    """
    global _default
    _default = MemoryPool(initial_size_mb, max_size_mb)
    if not enable:
        _default.disable()
    return _default


def _is_shared(block: _Block) -> bool:
    return sys.getrefcount(block.array) > _UNSHARED


def _size(dtype: DType, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * dtype.bits // 8

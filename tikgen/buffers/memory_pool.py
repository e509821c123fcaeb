"""Keeps device arrays that were given back, and lends them again to whoever needs such a one."""

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
from tikgen.buffers.extents import MIB, bytes_in, size_class, sound_dtype, sound_shape
from tikgen.buffers.pool_statistics import PoolStatistics
from tikgen.dtypes import DType
from tikgen.errors import TaichiNotInitialised, WrongThread
from tikgen.taichi import arrays, runtime

_RESERVE_BLOCKS = 16
# Whoever asks holds one reference, the block the other: nobody else has the array.
_UNSHARED = 2


@dataclass(eq=False)
class _Block:
    """An array of the pool; ``kind`` is what it can be lent for again."""

    array: Any
    kind: tuple[DType, tuple[int, ...]]
    nbytes: int
    number: int = 0  # Grows with each return, so that the oldest is known.


@dataclass
class _Loan:
    """What is known of an array that is lent, which does not keep it alive."""

    ref: weakref.ref[Any]
    kind: tuple[DType, tuple[int, ...]]
    nbytes: int
    asked: int


class MemoryPool:
    """Lends ``ti.ndarray`` of the current ``ti.init``, and keeps them when they come back.

    Taichi cannot show memory under another shape. So an array is lent again for the very same
    dtype and shape or, for those who ask with ``exact=False``, for the same class of sizes. An
    array that somebody still refers to is never lent to a second one. One that is dropped without
    being given back is Taichi's to free. After another ``ti.init`` the pool begins anew.

    Args:
        initial_size_mb: MiB that the pool takes with its first array and holds until its arrays
            need them.
        max_size_mb: MiB that all its arrays together never exceed; None sets no limit.

    Raises:
        InvalidConfigurationError: if a size is no number, negative, or the first exceeds the other.
    """

    def __init__(self, initial_size_mb: float = 0, max_size_mb: float | None = None) -> None:
        self._initial = bytes_in("initial_size_mb", initial_size_mb)
        self._limit = None if max_size_mb is None else bytes_in("max_size_mb", max_size_mb)
        if self._limit is not None and self._initial > self._limit:
            problem = f"is more than max_size_mb={max_size_mb!r}"
            raise InvalidConfigurationError("initial_size_mb", initial_size_mb, problem)
        self._enabled = True
        self._lock = threading.RLock()
        # Appended to while garbage is collected, at any moment and in any thread: read by _settle.
        self._came_back: collections.deque[Any] = collections.deque()
        self._dropped: collections.deque[int] = collections.deque()
        self._begin()

    def _begin(self) -> None:
        self._epoch = runtime.epoch()
        self._loans: dict[int, _Loan] = {}
        self._free: dict[Any, list[_Block]] = {}
        self._reserve: list[_Block] = []
        self._used = self._kept = self._number = 0
        self._hits = self._misses = self._evictions = 0
        self._has_reserved = False

    # Lending.

    def acquire(
        self, shape: int | tuple[int, ...], dtype: Any, *, exact: bool = True, zeroed: bool = False
    ) -> Any:
        """Return a ``ti.ndarray``, one that was given back where there is such a one.

        Args:
            shape: how many elements along each axis.
            dtype: the element type, as NumPy or Taichi names it.
            exact: False takes an array of one axis that may be longer, as long as its class of
                sizes says: a quarter at most beyond 64 elements.
            zeroed: whether it must hold zeros; else it may hold what was left in it.

        Raises:
            PoolExhausted: if the limit does not allow it.
            InvalidConfigurationError: if Taichi has no array of this shape or dtype.
            TaichiNotInitialised: if ``ti.init`` was not called.
            WrongThread: if only the thread that called ``ti.init`` can make arrays.
        """
        element, wanted = sound_dtype(dtype), sound_shape(shape)
        asked = _size(element, wanted)
        if not exact:
            if len(wanted) != 1:
                problem = "arrays of one axis alone come in classes of sizes; leave exact=True"
                raise InvalidConfigurationError("shape", shape, problem)
            wanted = (size_class(wanted[0]),)
        kind = (element, wanted)
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
            self._lend(array, kind, asked)
            return array

    def release(self, array: Any) -> None:
        """Give an array back, to be lent again once nobody refers to it.

        Raises:
            BufferError: if it is not lent by this pool, or was given back already.
        """
        with self._lock:
            self._settle()
            is_gone = isinstance(array, arrays.TaichiArray) and arrays.is_stale(array)
            if not self._put_back(array) and not is_gone:
                raise BufferError(
                    "MemoryPool: the array is not one that this pool lent, or was given back"
                )

    def give_back_when_dead(self, owner: object, array: Any) -> weakref.finalize[Any, Any]:
        """Have an array given back when its owner is garbage; ``detach()`` of the result undoes it.

        Args:
            owner: any object that can be referred to weakly.
            array: what :meth:`acquire` returned; it stays alive as long as the owner does.
        """
        finalizer = weakref.finalize(owner, self._came_back.append, array)
        finalizer.atexit = False
        return finalizer

    def _lend(self, array: Any, kind: Any, asked: int) -> None:
        key, dropped = id(array), self._dropped
        self._forget(key)  # What had this address before is dead, or it would still have it.
        ref = weakref.ref(array, lambda _: dropped.append(key))
        self._loans[key] = _Loan(ref, kind, _size(*kind), asked)
        self._used += _size(*kind)

    def _forget(self, key: int) -> _Loan | None:
        loan = self._loans.pop(key, None)
        if loan is not None:
            self._used -= loan.nbytes
        return loan

    def _put_back(self, array: Any) -> bool:
        loan = self._loans.get(id(array))
        if loan is None or loan.ref() is not array:
            return False
        self._forget(id(array))
        if self._enabled:
            self._number += 1
            block = _Block(array, loan.kind, loan.nbytes, self._number)
            self._free.setdefault(loan.kind, []).append(block)
            self._kept += loan.nbytes
        return True

    def _take(self, kind: Any) -> Any:
        blocks = self._free.get(kind, [])
        for index in range(len(blocks) - 1, -1, -1):
            if sys.getrefcount(blocks[index].array) == _UNSHARED:
                block = blocks.pop(index)
                self._kept -= block.nbytes
                return block.array
        return None

    def _make(self, kind: tuple[DType, tuple[int, ...]]) -> Any:
        if not runtime.may_allocate():
            raise WrongThread("MemoryPool")
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
        if limit is not None and self._used + wanted > limit:
            gc.collect()  # Taichi keeps what kernels saw in cycles, and buffers with it.
            self._settle()
        if limit is not None and self._used + wanted > limit:
            raise PoolExhausted(wanted, self._used, limit)
        gone = []
        while self._reserve and self._total() + wanted > self._initial:
            gone.append(self._reserve.pop())
        oldest = iter(sorted(self._blocks(), key=lambda block: block.number))
        while limit is not None and self._total() + wanted > limit:
            gone.append(self._remove(next(oldest)))
            self._evictions += 1
        self._let_go(gone)

    def _blocks(self) -> list[_Block]:
        return [block for blocks in self._free.values() for block in blocks]

    def _remove(self, block: _Block) -> _Block:
        self._free[block.kind].remove(block)
        self._kept -= block.nbytes
        return block

    def _let_go(self, blocks: list[_Block]) -> None:
        """Drop arrays; on vulkan their memory only goes where nothing waits to run."""
        if blocks:
            runtime.sync()
            blocks.clear()
            runtime.sync()

    def _settle(self) -> None:
        """Take account of what came back, was dropped, or went with an earlier ``ti.init``."""
        if self._epoch is not runtime.epoch():
            self._begin()
        while self._came_back:
            self._put_back(self._came_back.popleft())
        while self._dropped:
            key = self._dropped.popleft()
            if key in self._loans and self._loans[key].ref() is None:
                self._forget(key)

    # What is known, what is set.

    @property
    def enabled(self) -> bool:
        """Tell whether arrays that come back are kept."""
        return self._enabled

    def enable(self) -> None:
        """Keep arrays that come back, as a new pool does."""
        self._enabled = True

    def disable(self) -> None:
        """Keep no array that comes back, and let go of those that are kept."""
        self._enabled = False
        self.free_all_blocks()

    def set_limit(self, size_mb: float | None) -> None:
        """Set how many MiB all arrays together may take; what is kept beyond is let go at once.

        Raises:
            InvalidConfigurationError: if it is no number, negative, or less than is lent.
        """
        limit = None if size_mb is None else bytes_in("size_mb", size_mb)
        with self._lock:
            self._settle()
            if limit is not None and self._used > limit:
                problem = f"{self._used} bytes are in use; free buffers first"
                raise InvalidConfigurationError("size_mb", size_mb, problem)
            self._limit = limit
            if limit is not None:
                self._initial = min(self._initial, limit)
            self._make_room(0)

    def free_all_blocks(self) -> None:
        """Let go of every array that is not lent, and of the reserve."""
        with self._lock:
            self._settle()
            gone = [*self._blocks(), *self._reserve]
            self._free, self._reserve, self._kept = {}, [], 0
            self._let_go(gone)

    def free_all_free(self) -> None:
        """Do as :meth:`free_all_blocks` does."""
        self.free_all_blocks()

    def get_stats(self) -> PoolStatistics:
        """Return what the pool holds now."""
        with self._lock:
            self._settle()
            free = [*self._blocks(), *self._reserve]
            return PoolStatistics(
                used_bytes=self._used,
                total_bytes=self._total(),
                n_free_blocks=len(free),
                largest_free_bytes=max((block.nbytes for block in free), default=0),
                wasted_bytes=sum(loan.nbytes - loan.asked for loan in self._loans.values()),
                limit_bytes=self._limit,
                hits=self._hits,
                misses=self._misses,
                evictions=self._evictions,
            )

    def __repr__(self) -> str:
        stats = self.get_stats()
        limit = "none" if self._limit is None else f"{self._limit / MIB:.2f} MiB"
        return (
            f"MemoryPool(used={stats.used_mb:.2f} MiB, total={stats.total_mb:.2f} MiB, "
            f"limit={limit}, enabled={self._enabled})"
        )


_default = MemoryPool()


def get_memory_pool() -> MemoryPool:
    """Return the pool of all who name none."""
    return _default


def configure_memory_pool(
    initial_size_mb: float = 0, max_size_mb: float | None = None, enable: bool = True
) -> MemoryPool:
    """Put a new pool in the place of the one of all who name none, and return it.

    Buffers give their arrays back to the pool that they are from.

    Args:
        initial_size_mb: as :class:`MemoryPool` takes it.
        max_size_mb: likewise.
        enable: whether arrays that come back are kept.
    """
    global _default
    _default = MemoryPool(initial_size_mb, max_size_mb)
    if not enable:
        _default.disable()
    return _default


def _size(dtype: DType, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * dtype.bits // 8

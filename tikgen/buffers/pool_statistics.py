"""What a pool of device arrays tells about itself."""

from __future__ import annotations

from dataclasses import dataclass

from tikgen.buffers.extents import MIB


@dataclass(frozen=True)
class PoolStatistics:
    """What a pool holds, in bytes, and how often it could lend what it had.

    Attributes:
        used_bytes: in arrays that are lent.
        total_bytes: in arrays that are lent, kept for later or held in reserve.
        n_free_blocks: how many arrays are kept or held in reserve.
        largest_free_bytes: in the largest of those.
        wasted_bytes: lent beyond what was asked for, through rounding up.
        limit_bytes: the limit, None where there is none.
        hits: how often an array was lent again.
        misses: how often a new one had to be made.
        evictions: how often one was let go to make room.
    """

    used_bytes: int
    total_bytes: int
    n_free_blocks: int
    largest_free_bytes: int = 0
    wasted_bytes: int = 0
    limit_bytes: int | None = None
    hits: int = 0
    misses: int = 0
    evictions: int = 0

    @property
    def free_bytes(self) -> int:
        """Return the bytes that are kept and not lent."""
        return self.total_bytes - self.used_bytes

    @property
    def utilization(self) -> float:
        """Return which part of the pool is lent, from 0 to 1."""
        return self.used_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def fragmentation(self) -> float:
        """Return which part of the free bytes lies outside the largest free block, from 0 to 1."""
        return 1 - self.largest_free_bytes / self.free_bytes if self.free_bytes else 0.0

    @property
    def used_mb(self) -> float:
        """Return the bytes lent, in MiB."""
        return self.used_bytes / MIB

    @property
    def total_mb(self) -> float:
        """Return the bytes held, in MiB."""
        return self.total_bytes / MIB

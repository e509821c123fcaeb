"""Histograms in little memory, for percentiles of latencies and batch sizes."""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any, SupportsIndex

from tikgen.ring.errors import MessageValueError

# Buckets between two powers of two; below twice as many, values are exact.
_PARTS = 16


class Histogram:
    """Counts whole numbers from 0 in buckets that widen with the value.

    A bucket is at most 1/16 of its lowest value wide. A percentile is the middle of a bucket, so
    its error is below 1/32; values below 32, ``count``, ``total``, ``min`` and ``max`` are exact.
    One thread may record while others read.

    Source: the log-linear buckets of Gil Tene's HdrHistogram.
    """

    __slots__ = ("_counts", "_least", "_most", "total")

    def __init__(self) -> None:
        self._counts: list[int] = []
        self.reset()

    def reset(self) -> None:
        """Remove every value."""
        for bucket in range(len(self._counts)):  # Never shorter: another thread may be counting.
            self._counts[bucket] = 0
        self._least: float = math.inf
        self._most = -1
        self.total = 0

    def record(self, value: int) -> None:
        """Count a value, a whole number from 0; raises as :meth:`record_many`."""
        # Every message is counted here: inlined for speed.
        if not self._least <= value <= self._most:
            value = self._widen(value)
        try:
            shift = value.bit_length() - 5
        except AttributeError:  # An integer of NumPy, or no integer.
            return self.record_many(value, 1)
        self._counts[(shift << 4) + (value >> shift) if shift > 0 else value] += 1
        self.total += value
        return None

    def record_many(self, value: SupportsIndex, count: int) -> None:
        """Count a value several times."""
        if count < 0:
            raise MessageValueError(f"a value comes at least 0 times; got {count}")
        if count == 0:
            return
        value = self._widen(value)
        self._counts[_bucket_of(value)] += count
        self.total += value * count

    def _widen(self, value: SupportsIndex) -> int:
        """Make room for a value outside the range so far, and return it."""
        value = operator.index(value)
        if value < 0:
            raise MessageValueError(f"a histogram counts values of at least 0; got {value}")
        if value < self._least:
            self._least = value
        if value > self._most:  # Last, for readers in other threads.
            missing = _bucket_of(value) + 1 - len(self._counts)
            self._counts += [0] * missing
            self._most = value
        return value

    @property
    def count(self) -> int:
        """Return the number of values."""
        return sum(self._counts)

    @property
    def min(self) -> int:
        """Return the least value, 0 without any."""
        least = self._least
        return 0 if least == math.inf else int(least)

    @property
    def max(self) -> int:
        """Return the greatest value, 0 without any."""
        return max(self._most, 0)

    @property
    def mean(self) -> float:
        """Return the mean, 0 without any value."""
        return self.total / max(1, self.count)

    def percentile(self, q: float) -> float:
        """Return the value that ``q`` percent of the values do not exceed, 0 without any.

        It is the nearest rank, as of ``numpy.percentile(..., method="inverted_cdf")``.
        """
        return self.percentiles(q)[0]

    def percentiles(self, *qs: float) -> tuple[float, ...]:
        """Return several percentiles of the same values; raises as :meth:`percentile`."""
        for q in qs:
            if not 0 <= q <= 100:
                raise MessageValueError(f"a percentile is from 0 to 100; got {q}")
        least, most = self.min, self.max
        sums = list(itertools.accumulate(self._counts.copy()))  # Copied in one step under the GIL.
        return tuple(self._at(sums, q, least, most) for q in qs)

    @staticmethod
    def _at(sums: list[int], q: float, least: int, most: int) -> float:
        if not sums or not sums[-1]:
            return 0.0
        lowest, highest = _limits(bisect.bisect_left(sums, max(1, math.ceil(q * sums[-1] / 100))))
        return min(max((lowest + highest) / 2, least), most)

    def buckets(self) -> Iterator[tuple[int, int]]:
        """Yield the greatest value of each bucket that is not empty, and its count."""
        for bucket, count in enumerate(self._counts.copy()):
            if count:
                yield _limits(bucket)[1], count

    def to_dict(self) -> dict[str, Any]:
        """Return the main figures, as a dict for JSON."""
        p50, p90, p99 = self.percentiles(50, 90, 99)
        ends = {"count": self.count, "min": self.min, "mean": self.mean, "max": self.max}
        return {**ends, "p50": p50, "p90": p90, "p99": p99}

    def __repr__(self) -> str:
        return (
            f"<Histogram: {self.count} values, median {self.percentile(50):g}, greatest {self.max}>"
        )


def _bucket_of(value: int) -> int:
    shift = value.bit_length() - 5
    return shift * _PARTS + (value >> shift) if shift > 0 else value


def _limits(bucket: int) -> tuple[int, int]:
    """Return the least and the greatest value of a bucket."""
    if bucket < 2 * _PARTS:
        return bucket, bucket
    shift = bucket // _PARTS - 1
    lowest = (bucket - shift * _PARTS) << shift
    return lowest, lowest + (1 << shift) - 1

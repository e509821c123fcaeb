"""How often which value came, in little memory: percentiles of latencies and of batch sizes."""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any, SupportsIndex

# So many buckets lie between a power of two and the next; below twice as many, values are exact.
_PARTS = 16


class Histogram:
    """Counts whole numbers from 0 on in buckets that widen with the value.

    A bucket is at most 1/16 of its lowest value wide, so that a percentile, which is the middle of
    a bucket, is off by less than 1/32 of the true one; values below 32 are exact, and so are
    ``count``, ``total``, ``min`` and ``max``. There are 16 buckets for each power of two that came:
    fewer than 1,000 for nanoseconds of centuries. One thread may record while others read.

    Source: the log-linear buckets of Gil Tene's HdrHistogram.
    """

    __slots__ = ("_counts", "_least", "_most", "total")

    def __init__(self) -> None:
        self._counts: list[int] = []
        self.reset()

    def reset(self) -> None:
        """Forget every value."""
        for bucket in range(len(self._counts)):  # Never shorter: another thread may be counting.
            self._counts[bucket] = 0
        self._least: float = math.inf
        self._most = -1
        self.total = 0

    def record(self, value: int) -> None:
        """Count a value.

        Args:
            value: a whole number of at least 0.

        Raises:
            ValueError: if it is negative.
            TypeError: if it is no whole number.
        """
        # Every message passes here: spelled out, with no call but one.
        if not self._least <= value <= self._most:
            value = self._widen(value)
        try:
            shift = value.bit_length() - 5
        except AttributeError:  # NumPy's integers, and what is none.
            return self.record_many(value, 1)
        self._counts[(shift << 4) + (value >> shift) if shift > 0 else value] += 1
        self.total += value
        return None

    def record_many(self, value: SupportsIndex, count: int) -> None:
        """Count a value several times.

        Args:
            value: a whole number of at least 0.
            count: how many times it came.

        Raises:
            ValueError: if one of both is negative.
            TypeError: if ``value`` is no whole number.
        """
        if count < 0:
            raise ValueError(f"a value comes at least 0 times; got {count}")
        if count == 0:
            return
        value = self._widen(value)
        self._counts[_bucket_of(value)] += count
        self.total += value * count

    def _widen(self, value: SupportsIndex) -> int:
        """Make room for a value that may lie below or above all that came, and return it."""
        value = operator.index(value)
        if value < 0:
            raise ValueError(f"a histogram counts values of at least 0; got {value}")
        if value < self._least:
            self._least = value
        if value > self._most:  # Last, since readers go by it.
            missing = _bucket_of(value) + 1 - len(self._counts)
            self._counts += [0] * missing
            self._most = value
        return value

    @property
    def count(self) -> int:
        """Return how many values came."""
        return sum(self._counts)

    @property
    def min(self) -> int:
        """Return the least value, 0 if none came."""
        least = self._least
        return 0 if least == math.inf else int(least)

    @property
    def max(self) -> int:
        """Return the greatest value, 0 if none came."""
        return max(self._most, 0)

    @property
    def mean(self) -> float:
        """Return the mean, 0 if no value came."""
        return self.total / max(1, self.count)

    def percentile(self, q: float) -> float:
        """Return the value that ``q`` percent of the values do not exceed, 0 if none came.

        It is off by less than 1/32 of itself: the nearest rank is looked up, no value is made up
        between two that came, as ``numpy.percentile(..., method="inverted_cdf")`` does.

        Args:
            q: from 0 to 100.

        Raises:
            ValueError: if ``q`` lies outside.
        """
        return self.percentiles(q)[0]

    def percentiles(self, *qs: float) -> tuple[float, ...]:
        """Return several percentiles of the same values, though another thread may be counting.

        Args:
            qs: each from 0 to 100.

        Raises:
            ValueError: if one of them lies outside.
        """
        for q in qs:
            if not 0 <= q <= 100:
                raise ValueError(f"a percentile is from 0 to 100; got {q}")
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
        """Yield the greatest value that a bucket takes, and its count, where values came."""
        for bucket, count in enumerate(self._counts.copy()):
            if count:
                yield _limits(bucket)[1], count

    def merge(self, other: Histogram) -> None:
        """Take in what another histogram counted."""
        if other._most < 0:
            return
        self._widen(other.min)
        self._widen(other.max)
        for bucket, count in enumerate(other._counts.copy()):
            self._counts[bucket] += count
        self.total += other.total

    def to_dict(self) -> dict[str, Any]:
        """Return the figures that people look at."""
        p50, p90, p99 = self.percentiles(50, 90, 99)
        return {
            "count": self.count,
            "min": self.min,
            "mean": self.mean,
            "p50": p50,
            "p90": p90,
            "p99": p99,
            "max": self.max,
        }

    def __repr__(self) -> str:
        return (
            f"<Histogram: {self.count} values, median {self.percentile(50):g}, greatest {self.max}>"
        )


def _bucket_of(value: int) -> int:
    shift = value.bit_length() - 5
    return shift * _PARTS + (value >> shift) if shift > 0 else value


def _limits(bucket: int) -> tuple[int, int]:
    """Return the least and the greatest value that fall into a bucket."""
    if bucket < 2 * _PARTS:
        return bucket, bucket
    shift = bucket // _PARTS - 1
    lowest = (bucket - shift * _PARTS) << shift
    return lowest, lowest + (1 << shift) - 1

"""Made-up arguments: random values, poison for what a kernel must write or leave alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tikgen.dtypes import DType
from tikgen.template.base import NDArray
from tikgen.verification.case import Data
from tikgen.verification.fences import fenced, make_read_only

_SMALL = {"whole": 3, "uniform": 20, "sparse": 20, "sorted": 100, "records": 3, "large": 20}
# The side of an array on which memory may not be touched.
Fence = Literal["before", "behind"]
# What 32 bits do not hold. Sums and products wrap in 64 bits, as those of the reference do. Large
# quotients take small divisors.
_LARGE = (2**40, 2**40, 2**40, 3)
# How many parts records mark, and how many records there are at most.
_PARTS = (1, 2, 3, 7, 16, 63, 64, 256, 1024)
_MOST_RECORDS = 50


def random_values(
    dtype: DType,
    shape: tuple[int, ...],
    data: Data,
    rng: np.random.Generator,
    steps: Sequence[int] = (),
) -> NDArray:
    """Return random numbers that no usual kernel overflows on, but for large ones of 64 bits.

    Args:
        dtype: dtype of the numbers.
        shape: shape of the array.
        data: kind of data.
        rng: source of random numbers.
        steps: extents and counts of the parts in which a kernel works; records mark such parts.
    """
    if data == "wide":
        return _of_all_sizes(dtype, shape, rng)
    if data == "few":
        values: NDArray = rng.choice(_some_halves(dtype, rng), shape)
    elif dtype.is_float and data != "whole":
        values = rng.uniform(-1, 1, shape)
    else:
        is_large = data == "large" and dtype.bits == 64
        most = int(rng.choice(_LARGE)) if is_large else _SMALL[data]
        values = rng.integers(-most if dtype.is_signed else 0, most, shape, endpoint=True)
    zeros = {"uniform": 1 / 16, "sparse": 0.9}.get(data, 0.0)
    # Of floats both zeros.
    values = np.where(rng.random(shape) < zeros, values * 0, values)
    if data == "sorted":
        # Whatever goes on from minimum to minimum shows only where there is always another one.
        values = np.sort(values, axis=None)[:: rng.choice([-1, 1])].reshape(shape)
    if data == "records":
        _set_records(values, dtype, rng, steps)
    return values.astype(dtype.numpy)


def _of_all_sizes(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray:
    """Return finite numbers of all sizes, few of them zero, or of a part of these sizes.

    No float is subnormal, since devices take those for zeros. Fast math may do as it likes with
    NaN and infinities, which are left to ``Template.inputs``.
    """
    least, most = exponents(dtype) if dtype.is_float else (0, dtype.bits - 1)
    if rng.integers(2):
        least, most = sorted(int(n) for n in rng.integers(least, most, 2, endpoint=True))
    if dtype.is_float:
        sizes = np.ldexp(rng.uniform(1, 2, shape), rng.integers(least, most, shape, endpoint=True))
        values = sizes * rng.choice([-1, 1], shape)
    else:
        lowest, highest = int(dtype.lowest), int(dtype.highest)
        values = rng.integers(lowest, highest, shape, dtype.numpy, endpoint=True)
        values >>= values.dtype.type(least)
        ends = np.array([lowest, highest, highest // 2 + 1, 1], dtype.numpy)
        values = np.where(rng.random(shape) < 1 / 8, rng.choice(ends, shape), values)
    found: NDArray = np.where(rng.random(shape) < 1 / 16, values * 0, values).astype(dtype.numpy)
    return found


def exponents(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest exponent of drawn floats."""
    info = np.finfo(dtype.numpy)
    return int(info.minexp) // 2, int(info.maxexp) - 2


def is_near_the_ends(values: NDArray, dtype: DType) -> NDArray:
    """Return where floats are so large or small that what leads to them may leave the range.

    Zeros are among them: a factor of 0 may meet one that overflowed.
    """
    info = np.finfo(dtype.numpy)
    margin = np.longdouble(2) ** (int(info.maxexp) // 8)
    sizes = np.abs(values.astype(np.longdouble))
    usual = (sizes >= info.tiny * margin) & (sizes <= info.max / margin)
    found: NDArray = ~usual
    return found


def _some_halves(dtype: DType, rng: np.random.Generator) -> NDArray:
    """Return up to three numbers, halves of floats, with a sign where the dtype has one.

    Where all elements are equal, any of them is the extreme. Products of halves are exact, and
    show which way a tie is rounded.
    """
    sizes = rng.integers(0, 6, rng.integers(1, 4), endpoint=True)
    signs = rng.choice([-1, 1] if dtype.is_signed else [1], sizes.size)
    halves: NDArray = (sizes / 2 if dtype.is_float else sizes // 2) * signs
    return halves


def _set_records(
    values: NDArray, dtype: DType, rng: np.random.Generator, steps: Sequence[int]
) -> None:
    """Put few numbers beyond all others, each beyond the last one, where parts begin or end.

    A minimum or maximum that misses a single element shows only where that one decides.
    """
    flat = values.ravel()
    part = -(-flat.size // int(rng.choice(_PARTS)))
    if steps and rng.integers(2):
        step = int(rng.choice(steps))
        part = step if rng.integers(2) else -(-flat.size // step)
    edges = np.arange(0, flat.size, part) - rng.integers(2)
    edges = rng.permutation(np.unique(edges.clip(0)))[: rng.integers(1, _MOST_RECORDS)]
    heights = 10 + np.arange(edges.size)
    is_low = rng.integers(2)
    if is_low and not dtype.is_signed:
        flat += 2 * _MOST_RECORDS
        heights = _MOST_RECORDS + 10 - heights
    flat[np.sort(edges)] = -heights if is_low and dtype.is_signed else heights
    values[...] = flat.reshape(values.shape)


def poison(dtype: DType) -> Any:
    """Return a value that is no result: a NaN of its own, or a sentinel for integers."""
    bits = {16: 0x7E5A, 32: 0x7FC0_5A5A, 64: 0x7FF8_5A5A_5A5A_5A5A} if dtype.is_float else {}
    pattern = bits.get(dtype.bits, 0x5A5A_5A5A_5A5A_5A5A & (2**dtype.bits - 1))
    return np.array(pattern, f"uint{dtype.bits}").view(dtype.numpy)[()]


def output_poison(dtype: DType, shape: tuple[int, ...], turn: int = 0) -> NDArray:
    """Return what an output holds before a launch: in turn a NaN, another number and the ends.

    Each of them is lost in some operation, and would hide that it updates an element which must
    stay: a NaN is lost in sums and products, the highest number in a maximum, and so on.

    Args:
        dtype: dtype of the output.
        shape: its shape.
        turn: which of the values the first element has; in the next turn all elements differ.
    """
    # An infinity would be lost in sums, like a NaN.
    limits = np.finfo(dtype.numpy) if dtype.is_float else np.iinfo(dtype.numpy)
    low = limits.min + (0 if dtype.is_float else 1)
    values = [poison(dtype), 37, poison(dtype), low, limits.max]
    found = np.empty(math.prod(shape), dtype.numpy)
    for place in range(len(values)):
        found[place :: len(values)] = values[(place + turn) % len(values)]
    return found.reshape(shape)


def scratch_poison(dtype: DType, seed: int) -> Any:
    """Return what a workspace holds before a launch.

    Which value it is depends on the seed, since each is lost in some operation: a NaN in minimum
    and maximum, the highest value in minimum, and so on.
    """
    # The lowest integer itself is zero where it is unsigned, and wraps to zero when doubled.
    low = dtype.lowest if dtype.is_float else dtype.lowest + 1
    return dtype.numpy.type((poison(dtype), low, dtype.highest)[seed % 3])


def differs(one: NDArray, other: NDArray) -> NDArray:
    """Return where two arrays of one dtype differ in any bit."""
    bits = np.dtype(f"uint{8 * one.dtype.itemsize}")
    found: NDArray = np.ascontiguousarray(one).view(bits) != np.ascontiguousarray(other).view(bits)
    return found


def guard(dtype: DType, number: int, is_low: bool = False) -> Any:
    """Return a poison that differs from that of outputs and of arrays of another number.

    A NaN passes through arithmetic as it is: what is read outside one array and written outside
    another must show there. A maximum with a high integer is that integer, so that others are low.
    """
    if is_low and not dtype.is_float:
        return dtype.numpy.type(dtype.lowest + 2 + number % 64)
    bits = poison(dtype).view(f"uint{dtype.bits}")
    return np.bitwise_xor(bits, bits.dtype.type(number % 64 + 1)).view(dtype.numpy)


class Guarded:
    """A NumPy array in the middle of poisoned memory.

    Reading outside it gives poison, writing outside it is seen.

    Args:
        values: what the array holds.
        dtype: its element type.
        number: a number of its own among the arrays of a launch.
        is_low: whether the poison of integers is low, instead of high.
        fence: on which side memory may not even be read.
        is_fixed: whether an array beside a fence may not be written.
    """

    def __init__(
        self,
        values: NDArray,
        dtype: DType,
        number: int = 0,
        is_low: bool = False,
        fence: Fence | None = None,
        is_fixed: bool = False,
    ) -> None:
        self.is_fixed = fence is not None and is_fixed
        if fence:
            self._buffer = fenced(values.size, dtype)
            self._buffer.fill(guard(dtype, number, is_low))
            self._inside = behind_or_before(self._buffer.size, values.size, fence)
        else:
            margin = -(-(values.size + 64) // 64) * 64  # Keeps the alignment of the buffer.
            room = values.size + 2 * margin
            self._buffer = np.full(room, guard(dtype, number, is_low), dtype.numpy)
            self._inside = slice(margin, margin + values.size)
        self._before = self._buffer.copy()
        self.value = self._buffer[self._inside].reshape(values.shape)
        self.value[...] = values
        if self.is_fixed:
            make_read_only(self._buffer)

    def read(self) -> NDArray:
        """Return a copy of what the array holds."""
        found: NDArray = self.value.copy()
        return found

    def writes_outside(self) -> str:
        """Return where memory outside the array was written, or an empty string."""
        return outside(self._buffer, self._before, self._inside)


def behind_or_before(room: int, size: int, fence: Fence) -> slice:
    """Return where in memory of ``room`` elements an array lies next to a fence."""
    start = 0 if fence == "before" else room - size
    return slice(start, start + size)


def outside(after: NDArray, before: NDArray, inside: slice) -> str:
    """Return where memory outside an array was written, or an empty string."""
    touched = differs(after, before)
    touched[inside] = False
    if not touched.any():
        return ""
    where = int(np.flatnonzero(touched)[0])
    distance = where - inside.start
    if distance < 0:
        return f"{-distance} elements before its first one"
    return f"{where - inside.stop + 1} elements behind its last one"


class OnDevice:
    """A ``ti.ndarray`` or a ``ti.field``."""

    def __init__(self, values: NDArray, empty: Any) -> None:
        self.value = empty
        self.value.from_numpy(values)

    def read(self) -> NDArray:
        """Return a copy of what the array holds."""
        found: NDArray = self.value.to_numpy()
        return found

    def writes_outside(self) -> str:
        """Return an empty string: the memory around the array cannot be seen."""
        return ""

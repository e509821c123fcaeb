"""Views: arrays whose elements lie apart in memory, as those of ``x[1:-1, 1:-1]`` do."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tikgen.dtypes import DType
from tikgen.template.arguments import Argument, Array, Scalar, symbols

# Most elements from one element of a row to the next. The code knows that number.
MOST_LAST = 16
# How long NumPy may look for an element that two views share.
_MOST_WORK = 100_000


@dataclass(frozen=True)
class Views:
    """The arrays of a kernel that may be views, and which of them have equal strides.

    Each of them reaches the code as what lies from its first element to its last, in as many axes,
    of which all but the last have one element. Behind the arguments follow integers: the sizes, and
    the strides of each group of arrays, in elements, on all axes but the last.

    Attributes:
        groups: name of each of these arrays, and the number of its group, in order.
        last: the stride of each group on the last axis, in elements.
    """

    groups: tuple[tuple[str, int], ...]
    last: tuple[int, ...]

    def group_of(self, name: str) -> int:
        """Return the number of the group of an array."""
        return dict(self.groups)[name]

    def arguments(self, declared: Sequence[Argument]) -> tuple[Argument, ...]:
        """Return the arguments of a kernel, some of which may be views."""
        return strided(declared, [name for name, _ in self.groups])

    def numbers(self, arguments: Sequence[Argument]) -> tuple[Scalar, ...]:
        """Return the integers that follow the arguments in the code."""
        axes = {self.group_of(a.name): a.ndim - 1 for a in self._arrays(arguments)}
        return tuple(
            Scalar(name, DType.i32)
            for name in (
                *map(size_name, symbols(tuple(arguments))),
                *(stride_name(group, axis) for group in axes for axis in range(axes[group])),
            )
        )

    def passed(
        self, arguments: Sequence[Argument], values: Sequence[Any], sizes: Sequence[int]
    ) -> tuple[Any, ...]:
        """Return checked arguments as the code takes them, with the integers that follow them."""
        passed, strides = list(values), {}
        groups = dict(self.groups)
        for index, argument in enumerate(arguments):
            if argument.name in groups:
                own = strides_of(values[index], may_overlap=True)
                assert own is not None
                strides[groups[argument.name]] = own[:-1]
                passed[index] = flat(values[index])
        return (*passed, *sizes, *(step for group in strides.values() for step in group))

    def _arrays(self, arguments: Sequence[Argument]) -> list[Array]:
        names = dict(self.groups)
        return [a for a in arguments if isinstance(a, Array) and a.name in names]


def strided(arguments: Sequence[Argument], names: Sequence[str]) -> tuple[Argument, ...]:
    """Return arguments of which the arrays with these names may be views."""
    return tuple(
        replace(a, strided=True) if isinstance(a, Array) and a.name in names else a
        for a in arguments
    )


def size_name(symbol: str) -> str:
    """Return what the code calls a size; no name of a user begins with an underscore."""
    return f"_{symbol}"


def stride_name(group: int, axis: int) -> str:
    """Return what the code calls the stride of a group of arrays on an axis."""
    return f"_stride{group}_{axis}"


def views_of(values: Mapping[str, Any]) -> Views:
    """Return the groups of arrays with equal strides, in order of their first array."""
    known: dict[Any, int] = {}
    groups = []
    for name, value in values.items():
        strides = strides_of(value, may_overlap=True) or (1,)
        if value.shape[-1:] == (1,):
            strides = (*strides[:-1], 1)
        groups.append((name, known.setdefault(strides, len(known))))
    return Views(tuple(groups), tuple(strides[-1] for strides in known))


def is_contiguous(array: Any) -> bool:
    """Return whether the elements of an array of any kind follow one another in memory."""
    if isinstance(array, np.ndarray):
        return bool(array.flags.c_contiguous)
    return not hasattr(array, "data_ptr") or bool(array.is_contiguous())


def strides_of(array: Any, may_overlap: bool = False) -> tuple[int, ...] | None:
    """Return the strides of an array in elements, 0 on axes of one, or None if it is no view.

    All axes of a view lead forwards, the last one in steps of at most :data:`MOST_LAST` elements.

    Args:
        array: an array of any kind. One of Taichi is contiguous.
        may_overlap: whether elements may have memory in common, as those of ``np.broadcast_to`` do.
    """
    strides, _, overlaps = _layout(array)
    return None if overlaps and not may_overlap else strides


def problem_of(array: Any, may_overlap: bool = False) -> str:
    """Return which rule an array that is no view does not keep, for a message."""
    if isinstance(array, np.ndarray):
        steps = [step for step, n in zip(array.strides, array.shape, strict=True) if n > 1]
        if any(step % array.itemsize for step in steps):
            return f"its strides must be multiples of {array.itemsize} bytes, those of an element"
    apart = "" if may_overlap else " and without overlap"
    return f"its axes must lead forwards{apart}, the last in steps of at most {MOST_LAST} elements"


def span_of(array: Any) -> int:
    """Return how many elements lie from the first one of a view to its last."""
    return _layout(array)[1]


def _layout(array: Any) -> tuple[tuple[int, ...] | None, int, bool]:
    """Return strides, None if it is no view, and span of an array, and whether elements overlap."""
    if isinstance(array, np.ndarray):
        return _checked(array.shape, array.strides, array.itemsize)
    if hasattr(array, "data_ptr"):
        return _checked(tuple(array.shape), tuple(array.stride()), 1)
    shape = tuple(array.shape)
    return _checked(shape, tuple(math.prod(shape[n + 1 :]) for n in range(len(shape))), 1)


@functools.lru_cache(maxsize=1024)
def _checked(
    shape: tuple[int, ...], strides: tuple[int, ...], size: int
) -> tuple[tuple[int, ...] | None, int, bool]:
    steps = tuple(step // size if n > 1 else 0 for step, n in zip(strides, shape, strict=True))
    if any(step % size for step, n in zip(strides, shape, strict=True) if n > 1):
        return None, 0, False
    if any(step < 0 for step in steps) or any(step > MOST_LAST for step in steps[-1:]):
        return None, 0, False
    span, overlaps = 1, False
    for step, extent in sorted(zip(steps, shape, strict=True)):
        overlaps = overlaps or (extent > 1 and step < span)
        span += step * (extent - 1)
    return steps, span, overlaps


def flat(array: Any) -> Any:
    """Return what lies from the first element of a view to its last, without a copy.

    It has as many axes, all but the last of one element. An array of Taichi stays as it is.
    """
    ones, span = (1,) * (len(array.shape) - 1), span_of(array)
    if isinstance(array, np.ndarray):
        return as_strided(array, (*ones, span), (array.itemsize,) * array.ndim)
    if hasattr(array, "data_ptr"):
        return array.as_strided((*ones, span), (*(span for _ in ones), 1))
    return array


def share_elements(one: Any, other: Any) -> bool:
    """Return whether two views have bytes in common, or True if that takes long to find out."""
    if one is other:
        return True
    work: Any = _MOST_WORK  # NumPy's stubs know two numbers only.
    try:
        return bool(np.shares_memory(_Placed(one).array, _Placed(other).array, work))
    except RuntimeError:  # It is too hard.
        return True


def are_same(one: Any, other: Any) -> bool:
    """Return whether two views have the same elements at the same places."""
    return one is other or (
        tuple(one.shape) == tuple(other.shape)
        and memory_of(one) == memory_of(other)
        and strides_of(one, may_overlap=True) == strides_of(other, may_overlap=True)
    )


def memory_of(array: Any) -> tuple[int, int]:
    """Return the addresses that a NumPy array or a torch tensor spans."""
    if isinstance(array, np.ndarray):
        size = array.nbytes if array.flags.c_contiguous else span_of(array) * array.itemsize
        return array.ctypes.data, array.ctypes.data + size
    start = array.data_ptr()
    count = array.nelement() if array.is_contiguous() else span_of(array)
    return start, start + array.element_size() * count


class _Placed:
    """An array of NumPy at the place of another one, which need not be on the host."""

    def __init__(self, array: Any) -> None:
        if isinstance(array, np.ndarray):
            self.array = array
            return
        size = array.element_size()
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(array.shape),
            "strides": tuple(size * step for step in array.stride()),
            "typestr": f"|V{size}",
            "data": (array.data_ptr(), True),
        }
        self.array = np.asarray(self)

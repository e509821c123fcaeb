"""Copies of a program's arrays in NumPy, which share memory as the arrays do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.program.slots import memory_of
from tikgen.taichi import arrays

NDArray = npt.NDArray[Any]


def copied(listed: Sequence[Any]) -> list[NDArray]:
    """Return a copy of each array; where arrays share memory, so do their copies."""
    copies = [np.array(arrays.to_host(array)) for array in listed]
    for start, stop, numbers in _runs(listed):
        memory = np.zeros(stop - start, np.uint8)
        for number, address in numbers:
            copy, strides = copies[number], _strides(listed[number])
            view = np.ndarray(copy.shape, copy.dtype, memory, address - start, strides)
            view[...] = copy
            copies[number] = view
    return copies


def _runs(listed: Sequence[Any]) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Yield the runs of memory that several arrays span, with number and address of each."""
    known = [(memory, n) for n, array in enumerate(listed) if (memory := memory_of(array))]
    runs: list[tuple[int, int, list[tuple[int, int]]]] = []
    for (start, stop), number in sorted(known):
        if runs and start < runs[-1][1]:
            first, end, numbers = runs[-1]
            runs[-1] = first, max(end, stop), [*numbers, (number, start)]
        else:
            runs.append((start, stop, [(number, start)]))
    return (run for run in runs if len(run[2]) > 1)


def _strides(array: Any) -> tuple[int, ...]:
    """Return the strides of an array of NumPy or a tensor, in bytes."""
    if isinstance(array, np.ndarray):
        return array.strides
    return tuple(array.element_size() * step for step in array.stride())

"""Values of a boundary over the faces of an axis: every process takes its part of a whole array."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.errors import GridError
from tikgen.grid import mailboxes
from tikgen.grid.boxes import Box
from tikgen.grid.domain import Domain
from tikgen.program.team import Job, Work

NDArray = npt.NDArray[Any]


class Face:
    """The part of an array over a whole face that a process needs, ghost points included.

    Where this is all of it, on the host, kernels take the user's array. Else they take a copy,
    which follows the user's array: before each launch on the host, before each run on a device.

    Args:
        domain: the grid.
        whole: the user's array, contiguous, with an axis fewer than the grid.
        axis: the axis of the faces.
    """

    def __init__(self, domain: Domain, whole: NDArray, axis: int) -> None:
        self._domain, self._whole, self._axis = domain, whole, axis

    @functools.cached_property
    def array(self) -> Any:
        """Return the values over the faces of this process, as kernels take them."""
        if self._is_whole:
            return self._whole
        return self._domain.memory.holding(self.part_of(self._whole))

    @property
    def _is_whole(self) -> bool:
        alone = self._domain.processes.size == 1 or len(self._domain.shape) == 1
        return alone and self._domain.memory.is_host

    @functools.cached_property
    def work(self) -> Work | None:
        """Return what takes the values anew before a launch; None where nothing has to."""
        needs_none = self._is_whole or not self._domain.memory.is_host
        return None if needs_none else _Taking(self, self._whole)

    def renew(self) -> None:
        """Take the values anew where no work does, before a run."""
        memory = self._domain.memory
        if not memory.is_host:
            everything = (slice(None),) * self._whole.ndim
            memory.write(self.array, everything, self.part_of(self._whole))

    def part_of(self, whole: NDArray) -> NDArray:
        """Return the part of a whole array that this process needs."""
        found = whole
        for axis, runs in enumerate(self._runs):
            found = found.take(np.concatenate([np.arange(*run) for run in runs]), axis)
        return found

    @property
    def boxes(self) -> list[Box]:
        """Return boxes of the whole array that make up the part, one behind the other."""
        first, *others = self._runs
        if any(len(runs) > 1 for runs in others):
            first = [(n, n + 1) for run in first for n in range(*run)]
        return [list(box) for box in itertools.product(first, *others)]

    @property
    def _runs(self) -> list[list[tuple[int, int]]]:
        """Return the points that this process needs along each axis, as runs of the whole one."""
        domain = self._domain
        if len(domain.shape) == 1:
            return [[(0, 1)]]
        others = [axis for axis in range(len(domain.shape)) if axis != self._axis]
        return [
            _runs(domain.part[axis][2], domain.extents[axis], domain.shape[axis]) for axis in others
        ]


def check_face(domain: Domain, name: str, value: Any, axis: int) -> None:
    """Raise GridError where the values of a boundary rule over the faces of an axis do not fit."""
    shape = tuple(n for other, n in enumerate(domain.shape) if other != axis) or (1,)
    if not isinstance(value, np.ndarray) or value.shape != shape:
        got = value.shape if isinstance(value, np.ndarray) else type(value).__name__
        raise GridError(
            f"argument {name!r} takes a NumPy array over the whole face, of shape {shape}, on "
            f"every process; got {got}"
        )
    if not value.flags.c_contiguous:
        raise GridError(
            f"argument {name!r} takes a contiguous array, whose later values count as well; got a "
            "view of another one; pass np.ascontiguousarray(...)"
        )


class _Taking(Work):
    """Takes the values of a face from the whole array anew.

    Args:
        face: the face.
        whole: the whole array.
    """

    def __init__(self, face: Face, whole: NDArray) -> None:
        self._face = face
        self.arrays = whole, face.array

    def made_for(self, arrays: Sequence[Any]) -> Job:
        """Return the job that copies from one array into another one."""
        whole, own = arrays
        if mailboxes.is_native():
            return mailboxes.taking(whole, self._face.boxes, own)

        def take() -> None:
            own[...] = self._face.part_of(whole)

        return Job(take)

    def described(self, names: Sequence[str]) -> str:
        """Return it in words."""
        return f"take the part of {names[0]}"


def _runs(first: int, count: int, points: int) -> list[tuple[int, int]]:
    """Return some points of an axis, which go on at its other end, as runs within it."""
    found = []
    while count > 0:
        start = first % points
        stop = min(start + count, points)
        found.append((start, stop))
        first, count = first + stop - start, count - (stop - start)
    return found

"""Moves the elements of an array that processes share to those that want them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.grid.boxes import Box
from tikgen.grid.processes import Processes

NDArray = npt.NDArray[Any]


def moved(
    own: NDArray, before: Sequence[Box], after: Sequence[Box], processes: Processes
) -> NDArray:
    """Return what this process wants of an array; all processes must call it.

    Each pair of processes exchanges what one has and the other wants, and no process has more.

    Args:
        own: what this process has.
        before: the box of the whole array that each process has.
        after: the box that each process wants.
        processes: the processes.
    """
    rank, transport = processes.rank, processes.transport
    found = np.empty([stop - start for start, stop in after[rank]], own.dtype)
    kept = _common(before[rank], after[rank])
    found[_places(kept, after[rank])] = own[_places(kept, before[rank])]
    for other in range(processes.size):
        if other == rank:
            continue
        sent = _common(before[rank], after[other])
        received = _common(before[other], after[rank])

        def send(other: int = other, box: Box = sent) -> None:
            part = own[_places(box, before[rank])]
            if part.size:
                transport.send(np.ascontiguousarray(part), other)

        def receive(other: int = other, box: Box = received) -> None:
            places = _places(box, after[rank])
            part = np.empty(found[places].shape, found.dtype)
            if part.size:
                transport.receive(part, other)
                found[places] = part

        # Of a pair the lower rank sends first. Each process takes its partners in their order, and
        # so the least pair that is left can always go on.
        for act in (send, receive) if rank < other else (receive, send):
            act()
    return found


def _common(one: Box, other: Box) -> Box:
    """Return the elements that two boxes have in common."""
    pairs = zip(one, other, strict=True)
    return [(max(a, c), max(a, c, min(b, d))) for (a, b), (c, d) in pairs]


def _places(box: Box, of: Box) -> tuple[slice, ...]:
    """Return where a box lies in an array over another one."""
    pairs = zip(box, of, strict=True)
    return tuple(slice(low - start, high - start) for (low, high), (start, _) in pairs)

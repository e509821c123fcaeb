"""Fields that move to a grid of the same points, which is divided in another way."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tikgen.grid.decomposition import Range
from tikgen.grid.domain import Domain
from tikgen.grid.field import Field

NDArray = npt.NDArray[Any]


def redistributed(field: Field, domain: Domain) -> Field:
    """Return a field of another grid with the values of a field; all processes must call it.

    Each pair of processes exchanges what one owned and the other will own, and no process has more.

    Args:
        field: the field.
        domain: the other grid, of the same points and processes.
    """
    processes = field.domain.processes
    before, after = field.domain.decomposition, domain.decomposition
    rank, transport = processes.rank, processes.transport
    own = field.to_numpy()
    extents = tuple(stop - start for start, stop in domain.owned)
    found = np.empty(field.with_components(extents), own.dtype)
    kept = _common(before.owned(rank), after.owned(rank))
    put, take = (_places(field, kept, each.owned(rank)) for each in (after, before))
    found[put] = own[take]
    for other in range(processes.size):
        if other == rank:
            continue
        sent = _common(before.owned(rank), after.owned(other))
        received = _common(before.owned(other), after.owned(rank))

        def send(other: int = other, box: list[Range] = sent) -> None:
            part = own[_places(field, box, before.owned(rank))]
            if part.size:
                transport.send(np.ascontiguousarray(part), other)

        def receive(other: int = other, box: list[Range] = received) -> None:
            places = _places(field, box, after.owned(rank))
            part = np.empty(found[places].shape, found.dtype)
            if part.size:
                transport.receive(part, other)
                found[places] = part

        # Of a pair the lower rank sends first. Each process takes its partners in their order, and
        # so the least pair that is left can always go on.
        for act in (send, receive) if rank < other else (receive, send):
            act()

    def fill(owned: NDArray) -> None:
        owned[...] = found

    layout: Literal["first", "last"] = "first" if field.first_axis else "last"
    return Field(domain, field.dtype, field.components, layout, fill)


def _common(one: tuple[Range, ...], other: tuple[Range, ...]) -> list[Range]:
    """Return the points that two boxes have in common."""
    pairs = zip(one, other, strict=True)
    return [(max(a, c), max(a, c, min(b, d))) for (a, b), (c, d) in pairs]


def _places(field: Field, box: list[Range], owned: tuple[Range, ...]) -> tuple[slice, ...]:
    """Return where the points of a box lie in an array of owned points."""
    pairs = zip(box, owned, strict=True)
    slices = tuple(slice(low - start, high - start) for (low, high), (start, _) in pairs)
    return (slice(None),) * field.first_axis + slices

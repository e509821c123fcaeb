"""Regions of a part: its inside, which needs no ghost points, and the sides that do."""

from __future__ import annotations

from collections.abc import Sequence

from tikgen.grid.domain import Domain
from tikgen.template.grid_use import Widths

# For each axis the points below and above it that are not computed, the index of the first point
# of arrays on the whole grid, and the extent of that: the problem parameter `part`.
Region = tuple[tuple[int, int, int, int], ...]


def with_ghosts(domain: Domain, widths: Widths) -> Region:
    """Return the part of a process, with some of its ghost points, which it computes as well."""
    if domain.is_idle:
        return domain.part
    return tuple(
        (max(0, low - below), max(0, high - above), first, points)
        for (low, high, first, points), (below, above) in zip(domain.part, widths, strict=True)
    )


def inside_and_sides(
    domain: Domain, reach: Widths, part: Region | None = None, spared: Widths | None = None
) -> list[Region]:
    """Return the inside of a part, and the regions that make up the rest; none if it is too thin.

    Args:
        domain: the grid.
        reach: how far is read below and above a point, for each axis.
        part: what is computed, by default what the process owns.
        spared: how many owned points beside ghost points do not belong to the inside, where these
            are more than ``reach``.
    """
    sides: list[Region] = []
    region = list(domain.part if part is None else part)
    for axis, ((below, above), extent) in enumerate(zip(reach, domain.extents, strict=True)):
        ghosts, least = domain.ghosts[axis], (spared or reach)[axis]
        low, high, first, points = region[axis]
        inside = (
            ghosts[0] + max(below, least[0]) if ghosts[0] else low,
            ghosts[1] + max(above, least[1]) if ghosts[1] else high,
        )
        if inside[0] + inside[1] >= extent:
            return []
        for side in ((low, extent - inside[0]), (extent - inside[1], high)):
            if sum(side) < extent:
                if side[0] < below * bool(side[0]) or side[1] < above * bool(side[1]):
                    return []  # It would reach beyond the other side, where a rule holds.
                sides.append((*region[:axis], (*side, first, points), *region[axis + 1 :]))
        region[axis] = (*inside, first, points)
    return [tuple(region), *sides] if sides else []


def beyond_reach(part: Region, reaches: Sequence[Widths]) -> Region:
    """Return a part of ghost points alone with at least as many as are read.

    An idle process has no more than a given ``halo``, which along axes that are not divided may be
    fewer.

    Args:
        part: the part.
        reaches: how far a kernel reads into each array, for each axis.
    """
    most = [max(map(max, each), default=0) for each in reaches]
    return tuple(
        (max(low, reach), max(high, reach), first, points)
        for (low, high, first, points), reach in zip(part, most, strict=True)
    )

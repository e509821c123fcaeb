"""Regions of a part: its inside, which needs no ghost points, and the sides that do."""

from __future__ import annotations

from collections.abc import Sequence

from tikgen.grid.domain import Domain

# For each axis the points below and above it that are not computed, the index of the first point
# of arrays on the whole grid, and the extent of that: the problem parameter `part`.
Region = tuple[tuple[int, int, int, int], ...]


def inside_and_sides(domain: Domain, reach: Sequence[tuple[int, int]]) -> list[Region]:
    """Return the inside of a part, and the regions that make up the rest; none if it is too thin.

    Args:
        domain: the grid.
        reach: how far is read below and above a point, for each axis.
    """
    sides: list[Region] = []
    region = list(domain.part)
    for axis, ((below, above), extent) in enumerate(zip(reach, domain.extents, strict=True)):
        ghosts = domain.ghosts[axis]
        low, high, first, points = region[axis]
        inside = (
            low + (below if ghosts[0] else 0),
            high + (above if ghosts[1] else 0),
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

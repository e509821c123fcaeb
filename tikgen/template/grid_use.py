"""What a kernel reads and writes of a grid, which says what parts of the grid have to exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tikgen.template.parameters import Invalid

# The part of a larger grid that arrays hold: for each axis the ghost points below and above, the
# index of the first element, and the extent of the whole grid.
Part = tuple[tuple[int, int, int, int], ...]
# For each axis how many points below and above.
Widths = Sequence[tuple[int, int]]
WHAT_A_PART_IS = (
    "the part of a larger grid that arrays hold: for each axis the ghost points below and "
    "above, the index of the first element, and the extent of the whole grid"
)
# Scalars of a call.
WINDOW = ("window_start", "window_stop")
WHAT_A_WINDOW_IS = (
    "whether a call says which points of the first axis it computes: those from `window_start` to "
    "before `window_stop`"
)
# Indices on an axis have 32 bits.
_MOST_POINTS = 2**31


def check_part(part: Part | None, dim: int) -> None:
    """Raise :class:`Invalid` unless it is the part of a grid of some axes, or none."""
    if part is not None and len(part) != dim:
        raise Invalid("part", f"has numbers for {len(part)} axes, and dim is {dim}")
    for low, high, first, points in part or ():
        if min(low, high) < 0 or points < 1 or max(abs(first), points) >= _MOST_POINTS:
            raise Invalid(
                "part",
                "takes ghost points of 0 or more, an index and an extent of 1 or more; "
                f"got {(low, high, first, points)}",
            )


def ghosts_of(part: Part | None, dim: int) -> list[tuple[int, int]]:
    """Return how many ghost points arrays have below and above each axis."""
    return [(low, high) for low, high, *_ in part or [(0, 0)] * dim]


def widest(one: Widths, other: Widths) -> tuple[tuple[int, int], ...]:
    """Return the greater of two widths below and above each axis."""
    both = zip(one, other, strict=True)
    return tuple((max(a[0], b[0]), max(a[1], b[1])) for a, b in both)


@dataclass(frozen=True)
class ArrayUse:
    """What a kernel does with an array over a grid.

    Attributes:
        first_axis: place of the first axis of the grid among those of the array.
        reach: how far it reads below and above a point, for each axis of the grid. Where a rule
            mirrors, it may read as far on the other side.
        is_diagonal: whether it reads neighbours that differ on several axes.
        periodic: for each axis whether rules say that the other side lies outside of the grid; no
            element where nothing outside is read.
        written: whether the kernel writes it.
        is_covered: whether it writes every point, whatever the array held before.
    """

    first_axis: int
    reach: tuple[tuple[int, int], ...]
    is_diagonal: bool
    periodic: tuple[frozenset[bool], ...]
    written: bool
    is_covered: bool = False

    def joined(self, other: ArrayUse) -> ArrayUse:
        """Return what is done with an array that is passed for two arguments."""
        return ArrayUse(
            self.first_axis,
            widest(self.reach, other.reach),
            self.is_diagonal or other.is_diagonal,
            tuple(a | b for a, b in zip(self.periodic, other.periodic, strict=True)),
            self.written or other.written,
            self.is_covered or other.is_covered,
        )


@dataclass(frozen=True)
class LayersUse:
    """An array with what matched layers keep; its first axis counts components.

    Attributes:
        axis: the axis of the grid that has the layers.
        widths: number of points of the lower and of the upper layer.
    """

    axis: int
    widths: tuple[int, int]


@dataclass(frozen=True)
class GridUse:
    """What a kernel does with the points of a grid.

    Such a kernel has two problem parameters: ``part``, the part of a larger grid that arrays hold,
    and ``window``, with which a call takes the points of the first axis to compute.

    Attributes:
        dim: number of axes of the grid.
        arrays: each array over the grid, by argument.
        faces: axis of the faces over which an array has values, by argument.
        totals: ``"sum"``, ``"max"`` or ``"min"`` of a reduction over the grid, by argument.
        storing: problem parameters with which sums become arrays of their terms.
        window_schedule: schedule parameters with which windows give the bits of the whole; None
            if none do.
        layers: what layers keep of derivatives, by argument.
        indexed: axes along which a value depends on where its point lies, apart from the sides.
    """

    dim: int
    arrays: Mapping[str, ArrayUse]
    faces: Mapping[str, int]
    totals: Mapping[str, str]
    storing: Mapping[str, Any] = field(default_factory=dict)
    window_schedule: Mapping[str, Any] | None = None
    layers: Mapping[str, LayersUse] = field(default_factory=dict)
    indexed: frozenset[int] = frozenset(range(3))

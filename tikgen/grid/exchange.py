"""The exchange of ghost layers: a message a neighbour for all fields that a kernel reads.

MPI packs and unpacks: a message is described by a data type that says where its elements lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tikgen.grid.domain import Domain
from tikgen.grid.field import Field
from tikgen.grid.processes import mpi, wait
from tikgen.program.team import Work
from tikgen.template.grid_use import ArrayUse

NDArray = npt.NDArray[Any]
# For each axis of the grid, the first point and the one behind the last.
Box = list[tuple[int, int]]


@dataclass(frozen=True)
class Layers:
    """The ghost layers of a field that a kernel reads.

    Attributes:
        first_axis: place of the first axis of the grid.
        widths: how many layers below and above the owned points, for each axis.
        is_diagonal: whether edges and corners are read.
    """

    first_axis: int
    widths: tuple[tuple[int, int], ...]
    is_diagonal: bool


class Exchange(Work):
    """The exchange of ghost layers of some fields before a kernel reads them.

    Without edges and corners, all sides are exchanged at once. With them, axis by axis: layers of
    an axis then hold the ghost points of the axes before it.

    Args:
        domain: the grid.
        fields: the fields, with what the kernel does with each.
    """

    def __init__(self, domain: Domain, fields: Mapping[Field, ArrayUse]) -> None:
        self._domain = domain
        self.arrays = tuple(field.array for field in fields)
        self._layers = [
            Layers(use.first_axis, use.reach, use.is_diagonal) for use in fields.values()
        ]

    def made_for(self, arrays: Sequence[NDArray]) -> Callable[[], None]:
        """Return the function that exchanges the ghost layers of some arrays."""
        axes = [axis for axis, count in enumerate(self._domain.decomposition.ranks) if count > 1]
        is_diagonal = any(layers.is_diagonal for layers in self._layers)
        stages = [[axis] for axis in axes] if is_diagonal else [axes]
        made = [self._requests(arrays, stage) for stage in stages]
        start = mpi().Prequest.Startall

        def exchange() -> None:
            for requests in made:
                start(requests)
                wait(requests)

        return exchange

    def _requests(self, arrays: Sequence[NDArray], axes: Sequence[int]) -> list[Any]:
        """Return the messages over the sides of some axes, as requests that can be repeated."""
        comm, bottom, found = self._domain.processes.comm, mpi().BOTTOM, []
        for axis in axes:
            for is_upper in (False, True):
                other = self._domain.neighbour(axis, is_upper)
                if other is None:
                    continue
                # What goes up is what comes from below.
                up, down = 2 * axis, 2 * axis + 1
                for begin, tag, is_ghost in (
                    (comm.Recv_init, down if is_upper else up, True),
                    (comm.Send_init, up if is_upper else down, False),
                ):
                    kind = self._kind(arrays, axis, is_upper, is_ghost)
                    if kind is not None:
                        found.append(begin([bottom, 1, kind], other, tag))
                        kind.Free()
        return found

    def _kind(
        self, arrays: Sequence[NDArray], axis: int, is_upper: bool, is_ghost: bool
    ) -> Any | None:
        """Return the MPI data type of all layers at a side, None where there are none."""
        inner = [(each.start, each.stop) for each in self._domain.inner]
        types, addresses = [], []
        for array, layers in zip(arrays, self._layers, strict=True):
            box = layer_at(inner, self._domain.ghosts, layers, axis, is_upper, is_ghost)
            if box[axis][0] == box[axis][1]:
                continue
            first = layers.first_axis
            ranges = [(0, extent) for extent in array.shape]
            ranges[first : first + len(box)] = box
            types.append(mpi().BYTE.Create_subarray(*in_bytes(array, ranges)))
            addresses.append(mpi().Get_address(array))
        if not types:
            return None
        made = mpi().Datatype.Create_struct([1] * len(types), addresses, types).Commit()
        for each in types:
            each.Free()
        return made

    def described(self, names: Sequence[str]) -> str:
        """Return it in words."""
        return f"exchange ghost layers of {', '.join(names)}"


def layer_at(
    inner: Box,
    ghosts: Sequence[tuple[int, int]],
    layers: Layers,
    axis: int,
    is_upper: bool,
    is_ghost: bool,
) -> Box:
    """Return the points of a message over a side of an axis.

    Args:
        inner: the points that this process owns.
        ghosts: how many ghost points there are below and above each axis.
        layers: what is read beyond the points.
        axis: the axis.
        is_upper: whether the side is the upper one.
        is_ghost: whether the ghost points beyond the side are meant, which are received; else the
            owned points that the other process has as its ghost points.
    """
    box = list(inner)
    start, stop = inner[axis]
    # The upper neighbour reads what lies below its own points.
    width = layers.widths[axis][is_upper if is_ghost else not is_upper]
    if is_upper:
        box[axis] = (stop, stop + width) if is_ghost else (stop - width, stop)
    else:
        box[axis] = (start - width, start) if is_ghost else (start, start + width)
    if layers.is_diagonal:
        for before in range(axis):
            pairs = zip(layers.widths[before], ghosts[before], strict=True)
            (low, high), (first, last) = (min(pair) for pair in pairs), inner[before]
            box[before] = (first - low, last + high)
    return box


def in_bytes(array: NDArray, ranges: Box) -> tuple[list[int], list[int], list[int]]:
    """Return sizes, extents and starts of a part of an array in bytes, of few axes.

    Axes of which the part has all are one with the axis before: MPI copies long runs faster.
    """
    sizes = [*array.shape, array.itemsize]
    counts = [*(stop - start for start, stop in ranges), array.itemsize]
    starts = [*(start for start, _ in ranges), 0]
    while len(sizes) > 1 and counts[-1] == sizes[-1]:
        whole = sizes.pop()
        for numbers in (counts, starts):
            numbers.pop()
        for numbers in (sizes, counts, starts):
            numbers[-1] *= whole
    return sizes, counts, starts


def needs(domain: Domain, use: ArrayUse) -> bool:
    """Return whether a kernel reads ghost points of an array."""
    ranks = domain.decomposition.ranks
    return any(count > 1 and any(use.reach[axis]) for axis, count in enumerate(ranks))

"""The exchange of ghost layers: a message a neighbour for all fields that a kernel reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tikgen.grid import mailboxes
from tikgen.grid.boxes import Box, Layers, Message, layer_at
from tikgen.grid.domain import Domain
from tikgen.grid.field import Field
from tikgen.program.team import Job, Work
from tikgen.template.grid_use import ArrayUse

NDArray = npt.NDArray[Any]


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
        self.team = domain.processes
        self.arrays = tuple(field.array for field in fields)
        self._layers = [
            Layers(use.first_axis, use.reach, use.is_diagonal) for use in fields.values()
        ]

    def made_for(self, arrays: Sequence[NDArray]) -> Job:
        """Return the exchange of the ghost layers of some arrays."""
        axes = [axis for axis, count in enumerate(self._domain.decomposition.ranks) if count > 1]
        is_diagonal = any(layers.is_diagonal for layers in self._layers)
        stages = [self._messages(arrays, axis) for axis in axes]
        if not is_diagonal:
            stages = [[message for stage in stages for message in stage]]
        processes = self._domain.processes
        if mailboxes.problem(processes):
            return processes.messages(stages, arrays)
        return mailboxes.Mailboxes(processes, stages, arrays).job

    def _messages(self, arrays: Sequence[NDArray], axis: int) -> list[Message]:
        """Return the messages over the sides of an axis."""
        found = []
        for is_upper in (False, True):
            other = self._domain.neighbour(axis, is_upper)
            if other is None:
                continue
            # What goes up is what comes from below.
            up, down = 2 * axis, 2 * axis + 1
            for is_ghost in (True, False):
                tag = up if is_upper is not is_ghost else down
                pieces = self._pieces(arrays, axis, is_upper, is_ghost)
                if pieces:
                    found.append(Message(other, tag, not is_ghost, pieces))
        return found

    def _pieces(
        self, arrays: Sequence[NDArray], axis: int, is_upper: bool, is_ghost: bool
    ) -> tuple[tuple[int, Box], ...]:
        """Return the layers of all arrays at a side."""
        inner = [(each.start, each.stop) for each in self._domain.inner]
        found = []
        for number, (array, layers) in enumerate(zip(arrays, self._layers, strict=True)):
            box = layer_at(inner, self._domain.ghosts, layers, axis, is_upper, is_ghost)
            if box[axis][0] < box[axis][1]:
                first = layers.first_axis
                ranges = [(0, extent) for extent in array.shape]
                ranges[first : first + len(box)] = box
                found.append((number, ranges))
        return tuple(found)

    def described(self, names: Sequence[str]) -> str:
        """Return it in words."""
        return f"exchange ghost layers of {', '.join(names)}"


def needs(domain: Domain, use: ArrayUse) -> bool:
    """Return whether a kernel reads ghost points of an array."""
    ranks = domain.decomposition.ranks
    return any(count > 1 and any(use.reach[axis]) for axis, count in enumerate(ranks))

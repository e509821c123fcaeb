"""The exchange of ghost layers: a message a neighbour for all fields that a kernel reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tikgen.grid import mailboxes
from tikgen.grid.boxes import Box, Layers, Message, layer_at
from tikgen.grid.domain import Domain
from tikgen.grid.field import Field
from tikgen.grid.memory import Memory
from tikgen.grid.messages import by_messages, in_turn
from tikgen.grid.processes import Processes
from tikgen.grid.transports import Carrier
from tikgen.program.team import Job, Work
from tikgen.template.grid_use import ArrayUse


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
        self._made: dict[tuple[int, ...], tuple[Job, Job]] = {}

    def made_for(self, arrays: Sequence[Any]) -> Job:
        """Return the exchange of the ghost layers of some arrays."""
        return in_turn(*self.halves_for(arrays))

    def halves_for(self, arrays: Sequence[Any]) -> tuple[Job, Job]:
        """Return the begin of the exchange for some arrays, and its end; all processes make it."""
        key = tuple(map(id, arrays))
        if key not in self._made:
            domain = self._domain
            stages = self._stages(arrays)
            self._made[key] = halves_of(
                domain.processes, domain.carrier, domain.memory, stages, arrays
            )
        return self._made[key]

    def halves(self) -> tuple[Work, Work]:
        """Return its begin and its end, as parts of a program of their own."""
        return _Half(self, is_end=False), _Half(self, is_end=True)

    def _stages(self, arrays: Sequence[Any]) -> list[list[Message]]:
        """Return the messages of this process, those of one stage after the other."""
        axes = [axis for axis, is_divided in enumerate(self._domain.divided) if is_divided]
        stages = [self._messages(arrays, axis) for axis in axes]
        if not any(layers.is_diagonal for layers in self._layers):
            return [[message for stage in stages for message in stage]]
        return stages

    def _messages(self, arrays: Sequence[Any], axis: int) -> list[Message]:
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
        self, arrays: Sequence[Any], axis: int, is_upper: bool, is_ghost: bool
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


def halves_of(
    processes: Processes,
    carrier: Carrier,
    memory: Memory,
    stages: Sequence[Sequence[Message]],
    arrays: Sequence[Any],
) -> tuple[Job, Job]:
    """Return the begin of an exchange and its end, by mailboxes where processes have them.

    Args:
        processes: the processes, all of which make it.
        carrier: what carries their messages elsewhere.
        memory: where the arrays lie.
        stages: the messages of this process, those of one stage after the other.
        arrays: the arrays whose boxes they hold.
    """
    if memory.is_host and not mailboxes.problem(processes):
        return mailboxes.Mailboxes(processes, stages, arrays).halves
    return by_messages(carrier, memory, stages, arrays)


class _Half(Work):
    """The begin of an exchange, or its end.

    Args:
        whole: the exchange.
        is_end: which half.
    """

    def __init__(self, whole: Exchange, is_end: bool) -> None:
        self._whole, self._is_end = whole, is_end
        self.arrays = whole.arrays

    def made_for(self, arrays: Sequence[Any]) -> Job:
        """Return the half for some arrays."""
        return self._whole.halves_for(arrays)[self._is_end]

    def described(self, names: Sequence[str]) -> str:
        """Return it in words."""
        return f"{'end' if self._is_end else 'begin'}: {self._whole.described(names)}"


def needs(domain: Domain, use: ArrayUse) -> bool:
    """Return whether a kernel reads ghost points of an array."""
    axes = zip(domain.divided, use.reach, strict=True)
    return any(is_divided and any(pair) for is_divided, pair in axes)

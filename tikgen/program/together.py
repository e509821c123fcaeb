"""Checkpoints of programs that several processes run: whole arrays, by the process of rank 0."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tikgen.program import checkpoints
from tikgen.program.problems import agreed, exchanging
from tikgen.program.slots import Slots, dtype_of
from tikgen.program.state import State
from tikgen.program.team import Team
from tikgen.program.walk import Walk
from tikgen.taichi import arrays


def save(walk: Walk, slots: Slots, team: Team, path: str | os.PathLike[str], about: str) -> None:
    """Write the state into a file, as one process would; see :func:`checkpoints.save`.

    Raises:
        ProgramError: if the file cannot be written, on all processes.
    """
    with agreed(team) as problems, problems.of(path, "written"):
        if team.rank == 0:
            _whole(slots)  # There is room for them: others wait until theirs are taken.
    whole = {}
    with exchanging(team):
        for name, number in slots.names.items():
            standing = walk.standing(number)
            held = slots.held.get(standing)
            values = arrays.to_host(slots.arrays[standing]) if held is None else held.gathered()
            if team.rank == 0:
                whole[name] = np.asarray(values)
    with agreed(team) as problems, problems.of(path, "written"):
        if team.rank == 0:
            checkpoints.save(State(walk.steps, whole), path, about)


def load(walk: Walk, slots: Slots, team: Team, path: str | os.PathLike[str]) -> None:
    """Go back to the state in a file, whatever number of processes wrote it.

    Raises:
        ProgramError: if the file cannot be read, is no checkpoint, or has other arrays; on all
            processes.
    """
    state = State(0, {})
    with agreed(team) as problems, problems.of(path, "read"):
        if team.rank == 0:
            state = checkpoints.load(path, _whole(slots))
    with exchanging(team):
        for name, number in slots.names.items():
            held, values = slots.held.get(number), state.arrays.get(name)
            if held is not None:
                held.scatter(values)
            elif not arrays.is_read_only(slots.arrays[number]):
                arrays.write(slots.arrays[number], team.shared(values))
    walk.steps, walk.at = team.shared(state.steps), walk.plan.first


def _whole(slots: Slots) -> Slots:
    """Return slots with whole arrays of the same names."""
    named: dict[str, Any] = {}
    for name, number in slots.names.items():
        held, array = slots.held.get(number), slots.arrays[number]
        shape = array.shape if held is None else held.whole_shape
        named[name] = np.empty(tuple(shape), dtype_of(array).numpy)
    return Slots(named)

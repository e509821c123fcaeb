"""Writes and reads checkpoints: each kind by what knows it, on one process or several."""

from __future__ import annotations

from tikgen.program import checkpoints, together, zarr_checkpoints
from tikgen.program import state as states
from tikgen.program.checkpoints import PathLike
from tikgen.program.slots import Slots
from tikgen.program.team import Team
from tikgen.program.walk import Walk


def save(walk: Walk, slots: Slots, team: Team | None, path: PathLike, about: str) -> None:
    """Write the state of a program into a file; see :meth:`Program.save`."""
    if zarr_checkpoints.is_store(path):
        zarr_checkpoints.save(walk, slots, team, path, about)
    elif team is not None:
        together.save(walk, slots, team, path, about)
    else:
        checkpoints.save(states.view_of(walk, slots), path, about)


def load(walk: Walk, slots: Slots, team: Team | None, path: PathLike, missing_ok: bool) -> bool:
    """Go back to the state in a file; see :meth:`Program.load`."""
    if missing_ok:
        is_there = zarr_checkpoints.exists(path)
        if not (is_there if team is None else team.shared(is_there)):
            return False
    if zarr_checkpoints.is_store(path):
        zarr_checkpoints.load(walk, slots, team, path)
    elif team is not None:
        together.load(walk, slots, team, path)
    else:
        states.restore(walk, slots, checkpoints.load(path, slots))
    return True

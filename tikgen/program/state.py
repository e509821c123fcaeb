"""The state of a program: in memory, and in a file from which another process goes on."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen import untrusted
from tikgen.disk import why
from tikgen.errors import ProgramError, near
from tikgen.program.slots import Slots, dtype_of
from tikgen.program.walk import Walk
from tikgen.taichi import arrays
from tikgen.version import __version__

NDArray = npt.NDArray[Any]
_ABOUT = "tikgen.json"
_FORMAT = 1
# Bytes of a member of a checkpoint beside the elements of its array.
_MOST_HEADER = 1 << 16


@dataclass(frozen=True, eq=False)
class State:
    """The values of a program's arrays after a step.

    Attributes:
        steps: how many steps the program had run.
        arrays: copies of the values by name.
    """

    steps: int
    arrays: Mapping[str, NDArray]


def state_of(walk: Walk, slots: Slots) -> State:
    """Return copies of the values of every name."""
    found = {}
    for name, number in slots.names.items():
        found[name] = np.array(arrays.to_host(slots.arrays[walk.standing(number)]))
    return State(walk.steps, found)


def restore(walk: Walk, slots: Slots, state: State) -> None:
    """Write the values of every name into the array of that name, and go on from there.

    Raises:
        ProgramError: if the state has other arrays than the program.
    """
    _check_names(slots, state.arrays)
    for name, number in slots.names.items():
        _check_array(name, slots.arrays[number], state.arrays[name])
    for name, number in slots.names.items():
        array, values = slots.arrays[number], state.arrays[name]
        if not arrays.is_read_only(array):
            arrays.write(array, values)
    walk.steps, walk.at = state.steps, walk.plan.first


def settle(walk: Walk, slots: Slots) -> None:
    """Move the values of every name into the array of that name."""
    moved = [n for n in slots.names.values() if walk.standing(n) != n]
    values = {n: np.array(arrays.to_host(slots.arrays[walk.standing(n)])) for n in moved}
    for number, value in values.items():
        arrays.write(slots.arrays[number], value)
    walk.at = walk.plan.first


def save(state: State, path: str | os.PathLike[str], about: str) -> None:
    """Write a state into a file of NumPy's format npz, which is replaced in one step.

    Raises:
        ProgramError: if the file cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    text = json.dumps(
        {"format": _FORMAT, "tikgen": __version__, "steps": state.steps, "program": about}
    )
    try:
        try:
            with temporary.open("wb") as file:
                with zipfile.ZipFile(file, "w") as archive:
                    archive.writestr(_ABOUT, text)
                    for name, values in state.arrays.items():
                        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                            np.lib.format.write_array(member, values, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ProgramError(
            f"the checkpoint {str(path)!r} cannot be written: {why(error)}"
        ) from None


def load(path: str | os.PathLike[str], slots: Slots) -> State:
    """Return the state in a file that :func:`save` wrote.

    Args:
        path: the file.
        slots: the arrays of the program; nothing larger is read.

    Raises:
        ProgramError: if the file cannot be read, is no checkpoint, or has other arrays.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, slots)
    except OSError as error:
        raise ProgramError(f"the checkpoint {str(path)!r} cannot be read: {why(error)}") from None
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError) as error:
        raise ProgramError(f"{str(path)!r} is no checkpoint of a program: {error}") from None


def _read(archive: zipfile.ZipFile, slots: Slots) -> State:
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    if sizes.get(_ABOUT, _MOST_HEADER) >= _MOST_HEADER:
        raise ValueError(f"it has no {_ABOUT}")
    about = untrusted.from_json(archive.read(_ABOUT))
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise ValueError("it has another format")
    steps = about.get("steps")
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
        raise ValueError("it has no number of steps")
    members = {name.removesuffix(".npy"): name for name in sizes if name != _ABOUT}
    _check_names(slots, members)
    found = {}
    for name, number in slots.names.items():
        array = slots.arrays[number]
        most = int(np.prod(array.shape)) * dtype_of(array).numpy.itemsize + _MOST_HEADER
        if sizes[members[name]] > most:
            raise ProgramError(f"the checkpoint has a larger array {name!r} than the program")
        with archive.open(members[name]) as member:
            values = np.lib.format.read_array(member, allow_pickle=False)
        _check_array(name, array, values)
        found[name] = values
    return State(steps, found)


def _check_names(slots: Slots, names: Mapping[str, Any]) -> None:
    missing = [name for name in slots.names if name not in names]
    further = [name for name in names if name not in slots.names]
    if missing or further:
        parts = [f"has no {', '.join(missing)}"] if missing else []
        hint = near(further[0], slots.names) if further else ""
        parts += [f"has {', '.join(further)}, which the program has not.{hint}"] if further else []
        raise ProgramError(f"the state {' and '.join(parts)}")


def _check_array(name: str, array: Any, values: Any) -> None:
    wanted = dtype_of(array).numpy, tuple(array.shape)
    if not isinstance(values, np.ndarray) or (values.dtype, values.shape) != wanted:
        got = f"{values.dtype} of shape {values.shape}" if hasattr(values, "dtype") else "no array"
        raise ProgramError(
            f"the state's {name!r} takes {wanted[0]} of shape {wanted[1]}; it is {got}"
        )
    if arrays.is_read_only(array) and not np.array_equal(array, values, equal_nan=True):
        raise ProgramError(f"array {name!r} is read-only and differs from that of the state")

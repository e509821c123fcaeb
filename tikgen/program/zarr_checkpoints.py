"""Checkpoints as stores of Zarr: each process writes and reads what it owns, at the same time.

A store is written beside the last one, in a folder of its own name, and replaces it when it is
whole. The last one has another name for a moment then; if the process of rank 0 is killed in it,
the next save or load gives it its name back. What else a killed save leaves, the next one removes.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.errors import ProgramError
from tikgen.program import about as abouts
from tikgen.program import zarr_arrays
from tikgen.program.checkpoints import PathLike, resolved
from tikgen.program.problems import agreed, exchanging, told
from tikgen.program.slots import Slots, dtype_of
from tikgen.program.state import check_array, check_kind, check_names
from tikgen.program.team import Held, Team
from tikgen.program.walk import Walk
from tikgen.program.zarr_arrays import Box, Layout
from tikgen.taichi import arrays

NDArray = npt.NDArray[Any]
_GROUP, _ABOUT = ".zgroup", ".zattrs"


def is_store(path: PathLike) -> bool:
    """Return whether a checkpoint of that name is a store of Zarr."""
    return Path(path).suffix.lower() == ".zarr"


def exists(path: PathLike) -> bool:
    """Return whether there is a checkpoint, or something that cannot be read."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return is_store(path) and _aside(resolved(path)).is_dir()
    except OSError:  # load() says why: a run that began anew would replace it.
        return True
    return True


def check_writable(path: PathLike) -> None:
    """Raise ProgramError if a store cannot be written there."""
    with told(path, "written"):
        folder = resolved(path)
        _check_replaceable(folder)
        temporary = _temporary(folder)
        temporary.mkdir()
        temporary.rmdir()


def save(walk: Walk, slots: Slots, team: Team | None, path: PathLike, about: str) -> None:
    """Write the state into a store, which is replaced in one step; all processes must call it.

    Args:
        walk: which array has the values of each name, and the number of steps.
        slots: the arrays.
        team: the processes; None for this one alone.
        path: the store; that of rank 0 counts.
        about: the program in words.

    Raises:
        ProgramError: if it cannot be written, on all processes.
    """
    is_first = team is None or team.rank == 0
    layouts = {name: _layout(slots, number) for name, number in slots.names.items()}
    folder = temporary = Path()
    with agreed(team) as problems, problems.of(path, "written"):
        if is_first:
            folder = resolved(path)
            _recover(folder)
            _check_replaceable(folder)
            _clear(folder)
            temporary = _temporary(folder)
            text = abouts.text_about(walk.steps, about, _descriptions(layouts))
            _begin(temporary, layouts, text)
    temporary = _shared(team, temporary)
    try:
        with agreed(team) as problems:
            for name, number in slots.names.items():
                standing = walk.standing(number)
                held, layout = slots.held.get(standing), layouts[name]
                # All processes go on, also those that cannot write.
                with exchanging(team):
                    box, values = _share(slots.arrays[standing], held, layout, is_first)
                with problems.of(path, "written"):
                    zarr_arrays.write(temporary / name, layout, box, values)
        with agreed(team) as problems, problems.of(path, "written"):
            if is_first:
                _replace(folder, temporary)
    except BaseException as error:
        if is_first:
            shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, ProgramError):  # Of all: no process ends the others before.
            _shared(team, None)
        raise


def load(walk: Walk, slots: Slots, team: Team | None, path: PathLike) -> None:
    """Go back to the state in a store, whatever number of processes wrote it.

    Raises:
        ProgramError: if it cannot be read, is no checkpoint, or has other arrays; on all processes.
    """
    folder, steps = Path(), 0
    layouts: dict[str, Layout] = {}
    with agreed(team) as problems, problems.of(path, "read"):
        if team is None or team.rank == 0:
            folder = resolved(path)
            _recover(folder)
            steps, layouts = _opened(folder, slots)
    folder, steps, layouts = _shared(team, (folder, steps, layouts))
    found = {}
    with agreed(team) as problems, problems.of(path, "read"):
        for name, number in slots.names.items():
            held, layout = slots.held.get(number), layouts[name]
            box = _everything(layout) if held is None else held.box
            found[name] = zarr_arrays.read(folder / name, layout, box)
            if held is None:
                check_array(name, slots.arrays[number], found[name])
    with exchanging(team):
        for name, number in slots.names.items():
            held, array = slots.held.get(number), slots.arrays[number]
            if held is not None:
                if found[name].size:  # None of an idle process.
                    held.from_numpy(found[name])
            elif not arrays.is_read_only(array):
                arrays.write(array, found[name])
    walk.steps, walk.at = steps, walk.plan.first


def _layout(slots: Slots, number: int) -> Layout:
    array, held = slots.arrays[number], slots.held.get(number)
    shape = _whole_shape(slots, number)
    parts = (1,) * len(shape) if held is None else held.divided
    return zarr_arrays.layout_for(shape, np.dtype(dtype_of(array).numpy), parts)


def _whole_shape(slots: Slots, number: int) -> tuple[int, ...]:
    held = slots.held.get(number)
    return tuple(slots.arrays[number].shape if held is None else held.whole_shape)


def _share(array: Any, held: Held | None, layout: Layout, is_first: bool) -> tuple[Box, NDArray]:
    """Return what this process writes of an array: where it lies, and the elements."""
    if held is not None:
        return held.shared_out(layout.shares(held.divided))
    values = np.asarray(arrays.to_host(array))
    # All processes have an array that belongs to no grid.
    return (_everything(layout) if is_first else [(0, 0)] * values.ndim), values


def _everything(layout: Layout) -> list[tuple[int, int]]:
    return [(0, extent) for extent in layout.shape]


def _begin(temporary: Path, layouts: dict[str, Layout], about: str) -> None:
    """Make a store without elements."""
    temporary.mkdir()
    try:
        for name, text in {_GROUP: '{"zarr_format": 2}', _ABOUT: about}.items():
            (temporary / name).write_text(text, encoding="utf-8")
        for name, layout in layouts.items():
            zarr_arrays.describe(temporary / name, layout)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _opened(folder: Path, slots: Slots) -> tuple[int, dict[str, Layout]]:
    """Return the steps and the arrays of a store, which have to be those of a program."""
    folder.lstat()  # A store that is missing is no damaged one.
    text, name_of_text = zarr_arrays.text_of(folder / _ABOUT), f"{folder.name}/{_ABOUT}"
    steps = abouts.steps_in(text, name_of_text)
    # One of the program's that has lost its description is no array of another program.
    its = (
        each for each in folder.iterdir() if each.name in slots.names or zarr_arrays.is_array(each)
    )
    check_names(slots, sorted(each.name for each in its))
    layouts = {}
    for name, number in slots.names.items():
        layouts[name] = layout = zarr_arrays.described(folder / name)
        shape = _whole_shape(slots, number)
        check_kind(name, slots.arrays[number], shape, layout.dtype, layout.shape)
    abouts.check(text, name_of_text, _descriptions(layouts))
    return steps, layouts


def _descriptions(layouts: dict[str, Layout]) -> dict[str, Any]:
    """Return the descriptions of arrays that a checksum covers."""
    return {n: (each.shape, each.dtype.str, each.chunk) for n, each in layouts.items()}


def _temporary(folder: Path) -> Path:
    """Return a new name beside a store."""
    return folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")


def _aside(folder: Path) -> Path:
    """Return the name that the last store has while the next one takes its place."""
    return folder.with_name(f".{folder.name}.old")


def _check_replaceable(folder: Path) -> None:
    """Raise OSError where something else than a checkpoint has the name of one."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    try:
        abouts.steps_in(zarr_arrays.text_of(folder / _ABOUT), _ABOUT)
    except ValueError:
        raise OSError("there is a folder that is no checkpoint, and it is not replaced") from None


def _replace(folder: Path, temporary: Path) -> None:
    """Give a new store its name."""
    aside = _aside(folder)
    if folder.exists():
        folder.rename(aside)
    temporary.rename(folder)
    _remove(aside)


def _recover(folder: Path) -> None:
    """Finish what a process did not that was killed while a store replaced another one."""
    aside = _aside(folder)
    if not aside.is_dir():
        return
    if folder.exists():
        _remove(aside)
    else:
        aside.rename(folder)


def _remove(aside: Path) -> None:
    """Remove a store, of which no part has its name at any time."""
    if aside.is_dir():
        temporary = aside.with_name(f"{aside.stem}.{secrets.token_hex(4)}.tmp")
        aside.rename(temporary)
        shutil.rmtree(temporary, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Remove what saves left that were killed."""
    left = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}\.tmp")
    for path in folder.parent.iterdir():
        if left.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def _shared(team: Team | None, value: Any) -> Any:
    """Return the value that the process of rank 0 has."""
    return value if team is None else team.shared(value)

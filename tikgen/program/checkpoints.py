"""Checkpoints: files from which another process goes on, of NumPy's format npz or of HDF5."""

from __future__ import annotations

import importlib
import io
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tikgen.disk import path_of, why
from tikgen.errors import ProgramError, near
from tikgen.program.about import steps_in, text_about
from tikgen.program.problems import told
from tikgen.program.replacing import check_plain, check_replaceable, replaced
from tikgen.program.slots import Slots, dtype_of
from tikgen.program.state import State, check_array, check_names

NDArray = npt.NDArray[Any]
PathLike = str | os.PathLike[str]
_ABOUT = "tikgen.json"
# Bytes of a member of a checkpoint beside the elements of its array.
_MOST_HEADER = 1 << 16
_HDF5 = (".h5", ".hdf5")
# What a name of a file to write may end in; a name without an ending is one of npz.
_ENDINGS = ("", ".", ".npz", *_HDF5, ".zarr")
# Behind what is HDF5's own, which drops it from a file that it changes: the CRC-32 of all before.
_SEAL, _DIGITS = b"\ntikgen crc32 ", 8
_PIECE = 1 << 20
# Bytes at the beginning of a file of HDF5 that say where it ends.
_SUPERBLOCK = 52


def save(state: State, path: PathLike, about: str) -> None:
    """Write a state into a file, which is replaced in one step.

    Args:
        state: what to write.
        path: the file, of HDF5 if its name ends in ``.h5`` or ``.hdf5``.
        about: the program in words.

    Raises:
        ProgramError: if the file cannot be written.
    """
    path = Path(path)
    write = _write_hdf5 if _is_hdf5(path) else _write_npz
    text = text_about(state.steps, about)
    with told(path, "written"), replaced(resolved(path)) as file:
        write(file, state, text)


def check_path(path: Any, where: str) -> None:
    """Raise ProgramError unless something is the path of a file."""
    path_of(path, lambda problem: ProgramError(f"{where} {problem}"))


def check_new(path: Any, where: str) -> None:
    """Raise ProgramError unless something is the path of a file whose ending says its format."""
    check_path(path, where)
    if (ending := Path(path).suffix.lower()) not in _ENDINGS:
        known = [each for each in _ENDINGS if len(each) > 1]
        raise ProgramError(
            f"{where} writes no file whose name ends in {ending!r}.{near(ending, known)} Known: "
            f"{', '.join(known)}, as in {Path(path).name + '.npz'!r}"
        )


def name_of(path: Any) -> str:
    """Return what processes compare of a path: the name, as each may have a folder of its own."""
    return Path(path).name if isinstance(path, str | os.PathLike) else str(path)


def check_writable(path: PathLike) -> None:
    """Raise ProgramError if a checkpoint cannot be written there."""
    path = Path(path)
    with told(path, "written"):
        if _is_hdf5(path):
            _h5py()
        check_replaceable(resolved(path))


def resolved(path: PathLike) -> Path:
    """Return where a checkpoint lies, if its name is that of a link as well.

    Raises:
        ProgramError: if the path ends in no name.
    """
    if not Path(path).name:
        raise ProgramError(f"a checkpoint needs the name of a file; got {str(path)!r}")
    return Path(os.path.realpath(path))


def load(path: PathLike, slots: Slots) -> State:
    """Return the state in a file that :func:`save` wrote.

    Args:
        path: the file.
        slots: the arrays of the program; nothing larger is read.

    Raises:
        ProgramError: if the file cannot be read, is no checkpoint, or has other arrays.
    """
    path = Path(path)
    with told(path, "read"):
        check_plain(path)
        with path.open("rb"):
            pass
        return (_read_hdf5 if _is_hdf5(path) else _read_npz)(path, slots)


def _write_npz(file: BinaryIO, state: State, about: str) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_ABOUT, about)
        for name, values in state.arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)


def _read_npz(path: Path, slots: Slots) -> State:
    with _opened_zip(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
        if sizes.get(_ABOUT, _MOST_HEADER) >= _MOST_HEADER:
            raise ValueError(f"it has no {_ABOUT}")
        steps = steps_in(archive.read(_ABOUT), _ABOUT)
        members = {name.removesuffix(".npy"): name for name in sizes if name != _ABOUT}

        def read(name: str, most: int) -> NDArray:
            if sizes[members[name]] > most + _MOST_HEADER:
                raise _too_large(name)
            with archive.open(members[name]) as member:
                return np.asarray(np.lib.format.read_array(member, allow_pickle=False))

        return State(steps, _arrays(slots, list(members), read))


def _opened_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:  # The list of its members is at the end.
        with path.open("rb") as file:
            is_zip = file.read(2) == b"PK"
        raise ValueError("it is damaged or cut off" if is_zip else "it is no npz") from error


def _write_hdf5(file: BinaryIO, state: State, about: str) -> None:
    # HDF5 writes late, in part when a dataset is freed, where h5py passes over what fails: it
    # writes into memory here, and with all datasets open.
    image = io.BytesIO()
    with _h5py().File(image, "w") as hdf5:
        hdf5.attrs[_ABOUT] = about
        kept = [hdf5.create_dataset(name, data=values) for name, values in state.arrays.items()]
        hdf5.flush()
        del kept
    with image.getbuffer() as content:
        file.write(content)
        file.write(_seal(zlib.crc32(content)))


def _seal(checksum: int) -> bytes:
    return _SEAL + f"{checksum:0{_DIGITS}x}".encode()


def _check_seal(path: Path) -> None:
    """Raise ValueError if a file of HDF5 is cut off, or damaged, as far as a checksum tells."""
    with path.open("rb") as file:
        end = _end_of_hdf5(file.read(_SUPERBLOCK))
        size = file.seek(0, os.SEEK_END)
        left = size - len(_SEAL) - _DIGITS
        file.seek(max(0, left))
        seal = file.read()
        if not seal.startswith(_SEAL):
            if end is not None and size < end:
                raise ValueError(f"it is damaged: it is cut off, with {size:,} of {end:,} bytes")
            if end is not None and size > end:
                raise ValueError("it is damaged: its checksum is cut off or changed")
            return  # Of an earlier version, or changed by other programs, which drop the checksum.
        file.seek(0)
        checksum = 0
        while piece := file.read(min(left, _PIECE)):
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
        if seal != _seal(checksum):
            raise ValueError("it is damaged: its checksum is another one")


def _end_of_hdf5(start: bytes) -> int | None:
    """Return where HDF5 says that a file ends; None if it begins as no checkpoint does.

    Source: "The Superblock" in the HDF5 File Format Specification, version 3.
    """
    if len(start) < _SUPERBLOCK or not start.startswith(b"\x89HDF\r\n\x1a\n"):
        return None
    version, wide = start[8], start[13] if start[8] < 2 else start[9]
    at = {0: 40, 1: 44, 2: 28, 3: 28}.get(version)
    return None if at is None or wide != 8 else int.from_bytes(start[at : at + 8], "little")


def _read_hdf5(path: Path, slots: Slots) -> State:
    h5py = _h5py()
    _check_seal(path)  # First: damage can end the process in the library of HDF5.
    if not h5py.is_hdf5(path):
        raise ValueError("it is no HDF5")
    try:
        with h5py.File(path, "r") as file:
            return _state_in(file, slots, h5py)
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(f"it is damaged, says HDF5: {why(error)}") from error


def _state_in(file: Any, slots: Slots, h5py: Any) -> State:
    about = file.attrs.get(_ABOUT, "")
    steps = steps_in(about.encode() if isinstance(about, str) else b"", _ABOUT)

    def read(name: str, most: int) -> NDArray:
        found = file.get(name, getlink=True)
        data = file[name] if isinstance(found, h5py.HardLink) else None
        # Elements in another file are no part of a checkpoint.
        if not isinstance(data, h5py.Dataset) or data.external or data.is_virtual:
            raise ValueError(f"{name} holds no elements")
        if data.nbytes > most:
            raise _too_large(name)
        return np.asarray(data[()])

    return State(steps, _arrays(slots, [str(name) for name in file], read))


def _arrays(
    slots: Slots, names: list[str], read: Callable[[str, int], NDArray]
) -> dict[str, NDArray]:
    """Return the values of a program's arrays; ``read`` takes a name, and the most bytes."""
    check_names(slots, names)
    found = {}
    for name, number in slots.names.items():
        array = slots.arrays[number]
        found[name] = read(name, int(np.prod(array.shape)) * dtype_of(array).numpy.itemsize)
        check_array(name, array, found[name])
    return found


def _too_large(name: str) -> ProgramError:
    return ProgramError(f"the checkpoint has a larger array {name!r} than the program")


def _is_hdf5(path: Path) -> bool:
    return path.suffix.lower() in _HDF5


def _h5py() -> Any:
    try:
        return importlib.import_module("h5py")
    except ImportError:
        raise ProgramError("HDF5 needs h5py; pip install tikgen[hdf5]") from None

"""Arrays in Zarr's format 2, of which each process writes and reads a part of its own.

Each chunk is a file: the CRC-32 of its elements, Zarr's codec ``crc32``, and the elements.
The format is written without Zarr's package. That takes a missing chunk for zeros, and obeys what
the description of a chunk says, such as to unpickle it; here both are refused.

Source: the specification of Zarr's format 2, https://zarr-specs.readthedocs.io.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.program.about import from_json

NDArray = npt.NDArray[Any]
# For each axis the first point and the one behind the last.
Box = Sequence[tuple[int, int]]
# Bytes of a chunk at most: those that another number of processes reads have no more than it needs.
MOST = 1 << 24
_DESCRIPTION = ".zarray"
_CODEC = {"id": "crc32"}
_CODEC_BYTES = 4
_MOST_TEXT = 1 << 20


@dataclass(frozen=True)
class Layout:
    """An array in chunks.

    Attributes:
        shape: the extents of the array.
        dtype: the type of its elements.
        chunk: the extents of a chunk; those at the end of an axis may reach beyond it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: tuple[int, ...]

    def shares(self, parts: Sequence[int]) -> tuple[int, ...]:
        """Return how many points a process writes along each axis: those of whole chunks.

        Args:
            parts: number of processes along each axis.
        """
        each = zip(self.shape, parts, self.chunk, strict=True)
        return tuple(-(-_most(points, count) // size) * size for points, count, size in each)


def layout_for(shape: tuple[int, ...], dtype: np.dtype[Any], parts: Sequence[int]) -> Layout:
    """Return an array whose chunks no two processes need to share.

    Args:
        shape: the extents of the array.
        dtype: the type of its elements.
        parts: number of processes along each axis.
    """
    chunk = [_most(points, count) for points, count in zip(shape, parts, strict=True)]
    for axis, points in enumerate(chunk):
        rest = dtype.itemsize * math.prod(chunk) // points
        pieces = _most(points, max(1, MOST // rest))
        chunk[axis] = _most(points, pieces)
    return Layout(shape, dtype, tuple(chunk))


def _most(points: int, count: int) -> int:
    """Return how many points the largest of equal parts has."""
    return max(1, -(-points // count))


def describe(folder: Path, layout: Layout) -> None:
    """Make the folder of an array."""
    folder.mkdir()
    described = {
        "zarr_format": 2,
        "shape": layout.shape,
        "chunks": layout.chunk,
        "dtype": layout.dtype.str,
        "compressor": _CODEC,
        "fill_value": 0,
        "order": "C",
        "filters": None,
    }
    (folder / _DESCRIPTION).write_text(json.dumps(described, indent=4), encoding="utf-8")


def described(folder: Path) -> Layout:
    """Return what array a folder holds.

    Raises:
        ValueError: if it holds none, or one that no checkpoint has.
        OSError: if it cannot be read.
    """
    found = from_json(text_of(folder / _DESCRIPTION), f"{folder.name}/{_DESCRIPTION}")
    try:
        # Nothing but the codec above may say how to make elements of bytes.
        plain = (found["zarr_format"], found["compressor"], found["filters"], found["order"])
        separator = found.get("dimension_separator", ".")
        layout = Layout(tuple(found["shape"]), np.dtype(found["dtype"]), tuple(found["chunks"]))
        numbers = [*layout.shape, *layout.chunk]
        if any(type(number) is not int or number < 0 for number in numbers) or 0 in layout.chunk:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError, SyntaxError):
        raise ValueError(
            f"it is damaged: {folder.name}/{_DESCRIPTION} describes no array"
        ) from None
    if plain != (2, _CODEC, None, "C") or separator != "." or layout.dtype.hasobject:
        raise ValueError(f"{folder.name} is encoded otherwise")
    if len(layout.chunk) != len(layout.shape) or _bytes_of(layout) > max(MOST, 1 << 30):
        raise ValueError(f"{folder.name} has other chunks")
    return layout


def text_of(path: Path) -> bytes:
    """Return the bytes of a short file, which has to be one of the store itself.

    Raises:
        ValueError: if there is no such file.
        OSError: if it cannot be read.
    """
    size = _size(path)
    if size is None or size > _MOST_TEXT:
        raise ValueError(f"it has no {path.parent.name}/{path.name}")
    return path.read_bytes()


def is_array(folder: Path) -> bool:
    """Return whether a folder of a store holds an array."""
    return stat.S_ISDIR(folder.lstat().st_mode) and _size(folder / _DESCRIPTION) is not None


def write(folder: Path, layout: Layout, box: Box, values: NDArray) -> None:
    """Write elements into the chunks that begin in a box.

    Args:
        folder: where the array is.
        layout: what it is.
        box: the elements, all of each chunk.
        values: what they are.

    Raises:
        OSError: if they cannot be written.
    """
    for name, inside, outside in _chunks(layout, box):
        content = np.ascontiguousarray(values[outside])
        if content.shape != layout.chunk:
            content = np.zeros(layout.chunk, layout.dtype)
            content[inside] = values[outside]
        raw = content.reshape(-1).view(np.uint8).data
        with (folder / name).open("xb") as file:
            file.write(zlib.crc32(raw).to_bytes(_CODEC_BYTES, "little"))
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())


def read(folder: Path, layout: Layout, box: Box) -> NDArray:
    """Return the elements in a box.

    Args:
        folder: where the array is.
        layout: what it is.
        box: which elements.

    Raises:
        ValueError: if a chunk is missing or damaged.
        OSError: if one cannot be read.
    """
    values = np.empty([stop - start for start, stop in box], layout.dtype)
    raw = np.empty(_bytes_of(layout), np.uint8)
    for name, inside, outside in _chunks(layout, box):
        size = _size(folder / name)
        if size is None:
            raise ValueError(f"it has no {folder.name}/{name}")
        with (folder / name).open("rb") as file:
            kept = int.from_bytes(file.read(_CODEC_BYTES), "little")
            whole = size == _CODEC_BYTES + raw.size and file.readinto(raw.data) == raw.size
        if not whole or zlib.crc32(raw.data) != kept:
            raise ValueError(f"{folder.name}/{name} is damaged")
        values[outside] = raw.view(layout.dtype).reshape(layout.chunk)[inside]
    return values


def _chunks(layout: Layout, box: Box) -> Iterator[tuple[str, tuple[slice, ...], tuple[slice, ...]]]:
    """Yield the name of each chunk that meets a box, and where both meet in the chunk and in it."""
    ranges = [
        range(start // size, -(-stop // size)) if start < stop else range(0)
        for (start, stop), size in zip(box, layout.chunk, strict=True)
    ]
    for place in itertools.product(*ranges):
        inside, outside = [], []
        for number, size, (start, stop) in zip(place, layout.chunk, box, strict=True):
            first = number * size
            low, high = max(first, start), min(first + size, stop)
            inside.append(slice(low - first, high - first))
            outside.append(slice(low - start, high - start))
        yield ".".join(map(str, place)) or "0", tuple(inside), tuple(outside)


def _bytes_of(layout: Layout) -> int:
    return math.prod(layout.chunk) * layout.dtype.itemsize


def _size(path: Path) -> int | None:
    """Return the bytes of a file; None if there is none, or a link or device in its place."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None

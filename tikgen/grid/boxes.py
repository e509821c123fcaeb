"""Boxes of points: what a message over a side of a part holds, and where its elements lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# For each axis the first point and the one behind the last.
Box = list[tuple[int, int]]


@dataclass(frozen=True)
class Message:
    """Boxes of some arrays, for another process or from it.

    Attributes:
        other: the rank of the other process.
        tag: tells it from others between the same processes.
        is_sent: whether it is sent; else received.
        pieces: the number of each array, with the box of its elements.
    """

    other: int
    tag: int
    is_sent: bool
    pieces: tuple[tuple[int, Box], ...]


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


def in_bytes(array: Any, ranges: Box) -> tuple[list[int], list[int], list[int]]:
    """Return sizes, extents and starts of a part of an array in bytes, of few axes.

    Axes of which the part has all are one with the axis before: long runs are copied faster.
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


def count_of(ranges: Box) -> int:
    """Return how many elements a box has."""
    return math.prod(stop - start for start, stop in ranges)


def size_of(message: Message, arrays: Sequence[Any]) -> int:
    """Return the bytes of a message."""
    return sum(count_of(ranges) * arrays[n].itemsize for n, ranges in message.pieces)

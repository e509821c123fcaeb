"""What a message holds, in memory that can be sent as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.grid.boxes import Box, Message, count_of
from tikgen.grid.packing import moves
from tikgen.taichi import arrays

NDArray = npt.NDArray[Any]
Action = Callable[[], Any]
# Each box begins at a multiple of it, so that no element lies across.
_ALIGNED = 16


class Parcel(ABC):
    """The elements of a message, one behind the other.

    Attributes:
        message: which boxes of which arrays.
        buffer: its bytes, in memory that the transport takes.
    """

    message: Message
    buffer: Any

    @abstractmethod
    def pack(self) -> None:
        """Copy what is sent into the buffer, or begin to."""

    @abstractmethod
    def unpack(self) -> None:
        """Copy what was received out of the buffer, or begin to."""


class HostParcel(Parcel):
    """Boxes of arrays of NumPy: the buffer is the only box where it lies together, or a copy.

    Args:
        message: which boxes of which arrays.
        of: the arrays.
    """

    def __init__(self, message: Message, of: Sequence[NDArray]) -> None:
        self.message = message
        found = [of[n][_places(box)] for n, box in message.pieces]
        self._pairs: list[tuple[NDArray, NDArray]] = []
        if len(found) == 1 and found[0].flags.c_contiguous:
            self.buffer = found[0].reshape(-1).view(np.uint8)
            return
        starts, size = _starts([box.nbytes for box in found])
        self.buffer = np.zeros(size, np.uint8)
        for start, box in zip(starts, found, strict=True):
            part = self.buffer[start : start + box.nbytes]
            self._pairs.append((box, part.view(box.dtype).reshape(box.shape)))

    def pack(self) -> None:
        """Copy what is sent into the buffer."""
        for box, copy in self._pairs:
            copy[...] = box

    def unpack(self) -> None:
        """Copy what was received out of the buffer."""
        for box, copy in self._pairs:
            box[...] = copy


class DeviceParcel(Parcel):
    """Boxes of tensors of torch, of which generated kernels copy those that lie apart.

    Args:
        torch: the module.
        message: which boxes of which arrays.
        of: the arrays.
        takes_device: whether the transport takes memory of the device; else pinned memory of the
            host holds a copy.
    """

    def __init__(self, torch: Any, message: Message, of: Sequence[Any], takes_device: bool) -> None:
        self.message = message
        boxes = [(of[n][_places(box)], of[n], box) for n, box in message.pieces]
        self._moves: list[tuple[Action, Action]] = []
        if len(boxes) == 1 and boxes[0][0].is_contiguous():
            self._run = boxes[0][0].view(-1).view(torch.uint8)
        else:
            sizes = [view.nelement() * view.element_size() for view, *_ in boxes]
            starts, size = _starts(sizes)
            self._run = torch.zeros(size, dtype=torch.uint8, device=boxes[0][0].device)
            for start, count, (view, array, box) in zip(starts, sizes, boxes, strict=True):
                run = self._run[start : start + count].view(view.dtype)
                self._moves.append(moves(array, run, _dtype(array), box))
        self._pinned = None
        self.buffer = self._run
        if not takes_device:
            is_cuda = self._run.is_cuda
            self._pinned = torch.zeros(self._run.shape, dtype=torch.uint8, pin_memory=is_cuda)
            self.buffer = self._pinned.numpy()

    def pack(self) -> None:
        """Begin to copy what is sent into the buffer."""
        for pack, _ in self._moves:
            pack()
        if self._pinned is not None:
            self._pinned.copy_(self._run, non_blocking=True)

    def unpack(self) -> None:
        """Begin to copy what was received out of the buffer."""
        if self._pinned is not None:
            self._run.copy_(self._pinned, non_blocking=True)
        for _, unpack in self._moves:
            unpack()


class TaichiParcel(Parcel):
    """Boxes of arrays of Taichi, which generated kernels copy into arrays of their own.

    Args:
        message: which boxes of which arrays.
        of: the arrays.
    """

    def __init__(self, message: Message, of: Sequence[Any]) -> None:
        self.message = message
        kinds = [DType.parse(_dtype(of[n])) for n, _ in message.pieces]
        counts = [count_of(box) for _, box in message.pieces]
        sizes = [n * kind.numpy.itemsize for n, kind in zip(counts, kinds, strict=True)]
        starts, size = _starts(sizes)
        self.buffer = np.zeros(size, np.uint8)
        self._parts: list[tuple[Action, Action, Any, NDArray]] = []
        each = zip(message.pieces, kinds, counts, sizes, starts, strict=True)
        for (n, box), kind, count, its, start in each:
            run = arrays.make_ndarray(kind.value, (count,))
            host = self.buffer[start : start + its].view(kind.numpy)
            self._parts.append((*moves(of[n], run, kind.value, box), run, host))

    def pack(self) -> None:
        """Copy what is sent into the buffer."""
        for pack, _, run, host in self._parts:
            pack()
            host[...] = run.to_numpy()

    def unpack(self) -> None:
        """Copy what was received out of the buffer."""
        for _, unpack, run, host in self._parts:
            run.from_numpy(np.array(host))
            unpack()


def _places(box: Box) -> tuple[slice, ...]:
    return tuple(slice(*each) for each in box)


def _starts(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return where runs of some bytes begin behind each other, and the bytes of all."""
    starts, end = [], 0
    for size in sizes:
        starts.append(-(-end // _ALIGNED) * _ALIGNED)
        end = starts[-1] + size
    return starts, end


def _dtype(array: Any) -> str:
    return DType.parse(str(array.dtype).removeprefix("torch.")).value

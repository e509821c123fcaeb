"""What a message holds, in memory that can be sent as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.grid.boxes import Message

NDArray = npt.NDArray[Any]


class Parcel:
    """The elements of a message, one behind the other.

    Args:
        message: which boxes of which arrays.
        arrays: the arrays.

    Attributes:
        buffer: its bytes: those of the only box where they lie together, or a copy.
    """

    def __init__(self, message: Message, arrays: Sequence[NDArray]) -> None:
        self.message = message
        boxes = [arrays[n][tuple(slice(*each) for each in box)] for n, box in message.pieces]
        self._pairs: list[tuple[NDArray, NDArray]] = []
        if len(boxes) == 1 and boxes[0].flags.c_contiguous:
            self.buffer = boxes[0].reshape(-1).view(np.uint8)
            return
        self.buffer = np.empty(sum(box.nbytes for box in boxes), np.uint8)
        end = 0
        for box in boxes:
            start, end = end, end + box.nbytes
            self._pairs.append((box, self.buffer[start:end].view(box.dtype).reshape(box.shape)))

    def pack(self) -> None:
        """Copy what is sent into the buffer."""
        if self.message.is_sent:
            for box, copy in self._pairs:
                copy[...] = box

    def unpack(self) -> None:
        """Copy what was received out of the buffer."""
        if not self.message.is_sent:
            for box, copy in self._pairs:
                box[...] = copy

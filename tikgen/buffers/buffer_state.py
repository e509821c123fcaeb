"""The states of a buffer, and its transfer counts."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class BufferState(enum.Enum):
    """Which side of a buffer holds its data.

    Attributes:
        UNINITIALIZED: neither; the buffer is not allocated, or was freed.
        HOST_ONLY: the host; there is no device side yet.
        DEVICE_ONLY: the device; there is no host side yet.
        SYNCHRONIZED: both.
        HOST_DIRTY: the host; the device side is out of date.
        DEVICE_DIRTY: the device; the host side is out of date.
    """

    UNINITIALIZED = enum.auto()
    HOST_ONLY = enum.auto()
    DEVICE_ONLY = enum.auto()
    SYNCHRONIZED = enum.auto()
    HOST_DIRTY = enum.auto()
    DEVICE_DIRTY = enum.auto()


@dataclass
class Transfers:
    """The number of copies between host and device, and of their bytes."""

    to_device: int = 0
    to_host: int = 0
    bytes_to_device: int = 0
    bytes_to_host: int = 0

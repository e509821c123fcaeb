"""Transports: what carries values and messages between the processes of a grid."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy.typing as npt

from tikgen.grid.boxes import Message

NDArray = npt.NDArray[Any]


class Requests(Protocol):
    """Messages that are sent and received again and again, between the same buffers."""

    def start(self) -> None:
        """Begin to send and to receive."""

    def wait(self) -> None:
        """Wait until all is sent and received."""


class Carrier(Protocol):
    """What carries messages of fields.

    Attributes:
        name: its name, for people.
        takes_device: whether it sends and receives the memory of a GPU.
        follows_streams: whether messages wait for what the current stream of the GPU has to do.
    """

    name: str
    takes_device: bool
    follows_streams: bool

    def requests(self, messages: Sequence[tuple[Message, Any]]) -> Requests:
        """Return messages that can be repeated, in the order in which they are given."""


class Transport(ABC):
    """What carries values and messages between processes.

    Attributes:
        name: its name, for people.
        rank: the number of this process, from 0.
        size: how many processes there are.
        takes_device: whether it sends and receives the memory of a GPU.
        follows_streams: whether messages wait for what the current stream of the GPU has to do.
        needs_own_gpu: whether no two processes may share a GPU.
        ends_all: whether :meth:`end` ends processes that wait in native code.
    """

    name: str
    rank: int
    size: int
    takes_device = False
    follows_streams = False
    needs_own_gpu = False
    ends_all = False

    @abstractmethod
    def all(self, value: Any, awaited: str = "") -> list[Any]:
        """Return the values that the processes have, in their order.

        Args:
            value: that of this process.
            awaited: a call that all make; a transport may say that it waits for others to do so.
        """

    @abstractmethod
    def shared(self, value: Any) -> Any:
        """Return the value that the process of rank 0 has."""

    @abstractmethod
    def all_bytes(self, own: NDArray, every: NDArray, awaited: str = "") -> None:
        """Write the bytes that each process has behind each other into ``every``."""

    @abstractmethod
    def send(self, array: NDArray, other: int) -> None:
        """Send a contiguous array of the host to another process."""

    @abstractmethod
    def receive(self, array: NDArray, other: int) -> None:
        """Receive a contiguous array of the host from another process."""

    @abstractmethod
    def requests(self, messages: Sequence[tuple[Message, Any]]) -> Requests:
        """Return messages that can be repeated, in the order in which they are given.

        Args:
            messages: each message with the buffer that holds its elements, as bytes.
        """

    @abstractmethod
    def end(self, status: int) -> None:
        """End all processes, with an exit status."""


class Alone(Transport):
    """One process, which has no others."""

    name, rank, size = "none", 0, 1

    def all(self, value: Any, awaited: str = "") -> list[Any]:
        """Return the value of this process."""
        return [value]

    def shared(self, value: Any) -> Any:
        """Return the value."""
        return value

    def all_bytes(self, own: NDArray, every: NDArray, awaited: str = "") -> None:
        """Copy the bytes."""
        every[...] = own

    def send(self, array: NDArray, other: int) -> None:
        """Refuse: there is no other process."""
        raise AssertionError

    receive = send

    def requests(self, messages: Sequence[tuple[Message, Any]]) -> Requests:
        """Refuse: there is no other process."""
        raise AssertionError

    def end(self, status: int) -> None:
        """End this process."""
        raise SystemExit(status)

"""Where fields lie: on the host, or on a device in tensors of torch or arrays of Taichi."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.errors import GridError
from tikgen.grid.boxes import Message
from tikgen.grid.parcels import DeviceParcel, HostParcel, Parcel, TaichiParcel
from tikgen.taichi import arrays, runtime

NDArray = npt.NDArray[Any]
Places = tuple[slice, ...]


class Mark(Protocol):
    """A point in what a device has to do."""

    def set(self) -> None:
        """Set it behind what the device was told so far."""

    def wait(self) -> None:
        """Wait until the device has got there."""


class Memory(ABC):
    """Where fields lie.

    Attributes:
        name: its name, for people.
        is_host: whether native code of the host can use it.
    """

    name: str
    is_host = False

    @abstractmethod
    def holding(self, values: NDArray) -> Any:
        """Return a new array that holds values of the host."""

    @abstractmethod
    def view(self, array: Any, places: Places) -> Any:
        """Return a view of a part of an array."""

    @abstractmethod
    def read(self, array: Any, places: Places) -> NDArray:
        """Return a copy of a part of an array on the host."""

    @abstractmethod
    def write(self, array: Any, places: Places, values: NDArray) -> None:
        """Write values of the host into a part of an array."""

    @abstractmethod
    def parcel(self, message: Message, of: Sequence[Any], takes_device: bool) -> Parcel:
        """Return what holds the elements of a message.

        Args:
            message: which boxes of which arrays.
            of: the arrays.
            takes_device: whether the transport takes memory of the device.
        """

    def mark(self) -> Mark | None:
        """Return what waits for a device that packs; None where packing is done at once."""
        return None


class Host(Memory):
    """Arrays of NumPy."""

    name, is_host = "the host", True

    def holding(self, values: NDArray) -> NDArray:
        """Return a copy."""
        return np.array(values, order="C")

    def view(self, array: NDArray, places: Places) -> NDArray:
        """Return a view of a part of an array."""
        found: NDArray = array[places]
        return found

    def read(self, array: NDArray, places: Places) -> NDArray:
        """Return a copy of a part of an array."""
        return np.array(array[places], order="C")

    def write(self, array: NDArray, places: Places, values: NDArray) -> None:
        """Write values into a part of an array."""
        array[places] = values

    def parcel(self, message: Message, of: Sequence[NDArray], takes_device: bool) -> Parcel:
        """Return what holds the elements of a message."""
        return HostParcel(message, of)


class Tensors(Memory):
    """Tensors of torch on the device that Taichi uses."""

    name = "the GPU, in tensors of torch"

    def __init__(self, device: str = "cuda:0") -> None:
        self._torch = importlib.import_module("torch")
        self._device = device

    def holding(self, values: NDArray) -> Any:
        """Return a tensor on the device."""
        return self._torch.tensor(values, device=self._device)

    def view(self, array: Any, places: Places) -> Any:
        """Return a view of a part of a tensor."""
        return array[places]

    def read(self, array: Any, places: Places) -> NDArray:
        """Return a copy of a part of a tensor on the host."""
        return np.ascontiguousarray(array[places].cpu().numpy())

    def write(self, array: Any, places: Places, values: NDArray) -> None:
        """Write values of the host into a part of a tensor."""
        array[places] = self._torch.tensor(np.ascontiguousarray(values), device=self._device)

    def parcel(self, message: Message, of: Sequence[Any], takes_device: bool) -> Parcel:
        """Return what holds the elements of a message: on the device, or in pinned memory."""
        return DeviceParcel(self._torch, message, of, takes_device)

    def mark(self) -> Mark | None:
        """Return what waits for the current stream of torch."""
        return _StreamMark(self._torch) if self._device != "cpu" else None


class _StreamMark:
    """A point in the current stream of torch, in which kernels are launched.

    Args:
        torch: the module.
    """

    def __init__(self, torch: Any) -> None:
        self._event = torch.cuda.Event()

    def set(self) -> None:
        """Set it behind what the device was told so far."""
        self._event.record()

    def wait(self) -> None:
        """Wait until the device has got there."""
        self._event.synchronize()


class TaichiArrays(Memory):
    """Arrays of Taichi on the device."""

    name = "the device, in arrays of Taichi"

    def holding(self, values: NDArray) -> Any:
        """Return a ``ti.ndarray``."""
        return arrays.to_ndarray(np.ascontiguousarray(values))

    def view(self, array: Any, places: Places) -> Any:
        """Refuse: arrays of Taichi have no views."""
        raise GridError(
            "an array of Taichi on the device has no views; take field.to_numpy() and "
            "field.from_numpy(values), or install torch, whose tensors have"
        )

    def read(self, array: Any, places: Places) -> NDArray:
        """Return a copy of a part of an array on the host."""
        return np.ascontiguousarray(arrays.to_host(array)[places])

    def write(self, array: Any, places: Places, values: NDArray) -> None:
        """Write values of the host into a part of an array."""
        whole = arrays.to_host(array)
        whole[places] = values
        arrays.write(array, whole)

    def parcel(self, message: Message, of: Sequence[Any], takes_device: bool) -> Parcel:
        """Return what holds the elements of a message."""
        return TaichiParcel(message, of)


def memory_for(on_device: bool | None) -> Memory:
    """Return where fields lie under the current ``ti.init``.

    Args:
        on_device: whether on the device; None for where Taichi runs on cuda.

    Raises:
        GridError: if there is no device.
    """
    arch = runtime.current_arch()
    if on_device is None:
        on_device = arch == "cuda"
    if not on_device:
        return Host()
    if arch in (None, "cpu"):
        runs = "Taichi runs on cpu" if arch else "ti.init was not called"
        raise GridError(f"device=True needs a device, and {runs}; call ti.init(arch=ti.cuda)")
    if arch == "cuda" and _has_torch():
        return Tensors()
    return TaichiArrays()


def _has_torch() -> bool:
    """Return whether torch is there and sees the GPU."""
    try:
        return bool(importlib.import_module("torch").cuda.is_available())
    except ImportError:
        return False


def zeros(memory: Memory, shape: tuple[int, ...], dtype: DType) -> Any:
    """Return a new array of zeros."""
    return memory.holding(np.zeros(shape, dtype.numpy))

"""The bytes of a launch: a slot for each argument, filled in place."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.aot import manifest
from tikgen.aot.running.c_engine import Engine
from tikgen.aot.running.device_array import DeviceArray
from tikgen.aot.running.packing import ARGUMENT_BYTES, Put, array_argument, scalar_put
from tikgen.dtypes import DType
from tikgen.errors import ArgumentError

# The number of packed host arrays that each slot keeps.
_MOST_PACKED = 256
# In a TiNamedArgument a pointer to the name comes first.
_NAME = struct.Struct("=Q")


class Slot:
    """One argument: its place in the bytes of all, or two places for a scalar of 64 bits."""

    def __init__(
        self, described: manifest.Argument, starts: Sequence[int], buffer: bytearray
    ) -> None:
        self.name = described.name
        self.dtype = DType(described.dtype)
        self.place = slice(starts[0], starts[0] + ARGUMENT_BYTES)
        self.element_axes = len(described.element)
        self.is_written = described.role != "in"
        # What a kernel does not write must survive the copies to the device and back.
        self.is_read = described.role != "out" or not described.covered
        is_scalar = described.kind == "scalar"
        self.put: Put | None = scalar_put(buffer, starts, self.dtype) if is_scalar else None
        # Host arrays by address and shape, packed.
        self._packed: dict[tuple[int, tuple[int, ...]], bytes] = {}

    def packed(self, array: np.ndarray[Any, Any], engine: Engine) -> bytes:
        """Return a host array as an argument, for a runtime on the processor."""
        key = array.ctypes.data, array.shape
        found = self._packed.get(key)
        if found is None:
            if len(self._packed) >= _MOST_PACKED:
                self._packed.clear()
            memory = engine.import_host(key[0], array.nbytes)
            found = array_argument(memory, self.dtype, array.shape, self.element_axes)
            self._packed[key] = found
        return found


class Frame:
    """The arguments of a launch in the library's layout, in graphs with their names.

    ``constants`` has dtype and value of fixed scalars, by name.
    """

    def __init__(
        self,
        arguments: Sequence[manifest.Argument],
        constants: Mapping[str, tuple[str, int | float]],
        is_named: bool,
    ) -> None:
        ahead = _NAME.size if is_named else 0
        stride = ahead + ARGUMENT_BYTES
        fixed = [
            manifest.Argument(name=name, kind="scalar", dtype=dtype)
            for name, (dtype, _) in constants.items()
        ]
        names = [part for argument in (*arguments, *fixed) for part in _names(argument)]
        self.count = len(names)
        self._buffer = buffer = bytearray(max(self.count, 1) * stride)
        self._names = [ctypes.create_string_buffer(name.encode()) for name in names]
        if is_named:
            for index, name in enumerate(self._names):
                _NAME.pack_into(buffer, index * stride, ctypes.addressof(name))
        places = iter(range(ahead, len(buffer), stride))
        slots = [
            Slot(argument, [next(places) for _ in _names(argument)], buffer)
            for argument in (*arguments, *fixed)
        ]
        for slot, (_, value) in zip(slots[len(arguments) :], constants.values(), strict=True):
            assert slot.put is not None
            slot.put(buffer, value)
        self.slots = slots[: len(arguments)]
        self._pinned = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        self.address = ctypes.addressof(self._pinned)

    def fill(self, values: Sequence[Any], engine: Engine) -> None:
        """Write the arguments, which were checked; the caller holds the engine's lock."""
        buffer = self._buffer
        for slot, value in zip(self.slots, values, strict=True):
            if slot.put is not None:
                slot.put(buffer, value)
            elif type(value) is DeviceArray:
                if not value.is_open:  # It was closed since.
                    raise ArgumentError(slot.name, value.problem())
                buffer[slot.place] = value.argument(slot.element_axes)
            else:
                buffer[slot.place] = slot.packed(value, engine)


def _names(argument: manifest.Argument) -> list[str]:
    """Return the names of an argument in the library, two for a scalar of 64 bits."""
    if argument.kind == "scalar" and DType(argument.dtype).bits == 64:
        return [f"{argument.name}.low", f"{argument.name}.high"]
    return [argument.name]

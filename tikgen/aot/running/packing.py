"""Arguments as the bytes that Taichi's C library reads: ``TiArgument``."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from tikgen.aot.running.c_library import DTYPES, F32, I32, NDARRAY
from tikgen.dtypes import DType

ARGUMENT_BYTES = 160

_MOST_AXES = 16
# Type, memory, number of axes and extents, the same of the elements, element type.
_ARRAY = struct.Struct(f"=I4xQI{_MOST_AXES}II{_MOST_AXES}II4x")
_VALUE_AT = 8
_TYPE = struct.Struct("=I")
# How each dtype fills its word, or its two words.
_LETTERS = {
    "i8": "i",
    "i16": "i",
    "i32": "i",
    "i64": "q",
    "u8": "I",
    "u16": "I",
    "u32": "I",
    "u64": "Q",
    "f16": "e2x",
    "f32": "f",
    "f64": "d",
}

Put = Callable[[bytearray, Any], None]


def array_argument(memory: int, dtype: DType, shape: Sequence[int], element_axes: int) -> bytes:
    """Return an array as an argument; its last axes may be those of vectors or matrices."""
    axes = len(shape) - element_axes
    dims = [*shape[:axes], *(0,) * (_MOST_AXES - axes)]
    element = [*shape[axes:], *(0,) * (_MOST_AXES - element_axes)]
    return _ARRAY.pack(NDARRAY, memory, axes, *dims, element_axes, *element, DTYPES[dtype.value])


def scalar_put(buffer: bytearray, starts: Sequence[int], dtype: DType) -> Put:
    """Mark the type of a scalar at its start or starts, and return a function that writes it."""
    for start in starts:
        _TYPE.pack_into(buffer, start, F32 if dtype is DType.f32 else I32)
    places = [start + _VALUE_AT for start in starts]
    packing = struct.Struct("=" + _LETTERS[dtype.value])
    is_float = dtype.is_float

    def put(buffer: bytearray, value: Any) -> None:
        try:
            made = packing.pack(float(value) if is_float else value)
        except OverflowError:  # Beyond the range of the dtype, which NumPy makes infinite.
            made = packing.pack(dtype.highest if value > 0 else dtype.lowest)
        for number, place in enumerate(places):
            buffer[place : place + 4] = made[4 * number : 4 * number + 4]

    return put

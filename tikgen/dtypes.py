"""The element types of kernels, with their equivalents in NumPy and Taichi and their limits."""

from __future__ import annotations

import ctypes
import functools
import math
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from tikgen.errors import ConversionError

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

# The type of an element in C, by the name of its dtype.
C_TYPES: dict[str, Any] = {
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "f16": ctypes.c_uint16,  # Its bits: ctypes has no type for it.
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


class DType(str, Enum):
    """An element type; its value is Taichi's name for it.

    ``DType.parse`` takes types of Taichi and NumPy, and so does every parameter of this type.
    """

    i8 = "i8"
    i16 = "i16"
    i32 = "i32"
    i64 = "i64"
    u8 = "u8"
    u16 = "u16"
    u32 = "u32"
    u64 = "u64"
    f16 = "f16"
    f32 = "f32"
    f64 = "f64"

    @classmethod
    def parse(cls, value: object) -> DType:
        """Return the dtype that ``value`` names.

        Args:
            value: ``"f32"``, ``ti.f32``, ``np.float32``, ``"float32"`` or ``np.dtype("f4")``.

        Raises:
            ConversionError: if ``value`` is not an element type of kernels.
        """
        if isinstance(value, cls):
            return value
        found = None
        if isinstance(value, str):
            found = cls.__members__.get(value) or _BY_NAME.get(value)
        elif isinstance(value, np.dtype):
            found = _BY_NUMPY.get(value)
        elif isinstance(value, type):
            found = _BY_TYPE.get(value)
        elif type(value).__module__.split(".")[0] == "taichi":
            found = cls.__members__.get(str(value))  # Taichi's types print as their own names.
        if found is None:
            is_named = isinstance(value, str | type | np.dtype)
            is_truth = is_named and value in ("bool", bool, np.bool_, np.dtype(bool))
            advice = "; truth values are u8, and array.view(np.uint8) has them" * is_truth
            known = ", ".join(cls.__members__)
            raise ConversionError(f"{value!r:.80} is not one of {known}{advice}")
        return found

    @classmethod
    def _missing_(cls, value: object) -> DType:
        return cls.parse(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> CoreSchema:
        from pydantic_core import core_schema  # Not needed to run bundles.

        return core_schema.no_info_plain_validator_function(cls.parse)

    @functools.cached_property
    def numpy(self) -> np.dtype[Any]:
        """Return the NumPy dtype, in native byte order."""
        return np.dtype({"i": "int", "u": "uint", "f": "float"}[self.value[0]] + self.value[1:])

    @functools.cached_property
    def taichi(self) -> str:
        """Return the dtype in generated code, such as ``ti.f32``."""
        return f"ti.{self.value}"

    @functools.cached_property
    def bits(self) -> int:
        """Return the width in bits."""
        return int(self.value[1:])

    @functools.cached_property
    def is_float(self) -> bool:
        """Return whether the dtype is a floating-point type."""
        return self.value[0] == "f"

    @functools.cached_property
    def is_signed(self) -> bool:
        """Return whether the dtype includes negative numbers."""
        return self.value[0] != "u"

    @functools.cached_property
    def wide(self) -> np.dtype[Any]:
        """Return the NumPy dtype in which references compute: wider floats, 64-bit integers."""
        if self is DType.f64:
            return np.dtype(np.longdouble)
        return np.dtype({"i": np.int64, "u": np.uint64, "f": np.float64}[self.value[0]])

    @functools.cached_property
    def working(self) -> DType:
        """Return the dtype in which kernels compute, of at least 32 bits."""
        if self.bits >= 32:
            return self
        return DType.f32 if self.is_float else DType.i32

    @functools.cached_property
    def computed(self) -> DType:
        """Return the dtype in which expressions compute: f32 for f16, else the dtype itself."""
        return DType.f32 if self is DType.f16 else self

    @functools.cached_property
    def eps(self) -> float:
        """Return the distance from 1 to the next larger number; 0 for integers."""
        return float(np.finfo(self.numpy).eps) if self.is_float else 0.0

    @functools.cached_property
    def tiny(self) -> float:
        """Return the smallest normal number; 0 for integers."""
        return float(np.finfo(self.numpy).tiny) if self.is_float else 0.0

    @functools.cached_property
    def lowest(self) -> int | float:
        """Return the smallest value: minus infinity for floats."""
        return -np.inf if self.is_float else int(np.iinfo(self.numpy).min)

    @functools.cached_property
    def highest(self) -> int | float:
        """Return the greatest value: infinity for floats."""
        return np.inf if self.is_float else int(np.iinfo(self.numpy).max)

    def holds(self, value: object) -> bool:
        """Return whether an element can hold a number, possibly rounded."""
        if not isinstance(value, int | float | np.integer | np.floating):
            return False
        try:
            if not self.is_float:
                return bool(self.lowest <= value <= self.highest and value == int(value))
            with np.errstate(over="ignore"):
                return bool(np.isinf(self.numpy.type(value))) == math.isinf(value)
        except OverflowError:  # An integer beyond any float.
            return False

    def literal(self, value: int | float) -> str:
        """Return generated code for a constant of this dtype, always typed.

        Raises:
            ValueError: if an integer dtype cannot represent ``value``, or a finite number is
                infinite in a floating-point one.
        """
        if not self.is_float:
            if value != int(value) or not self.lowest <= value <= self.highest:
                raise ValueError(f"{value!r} does not fit {self.value}")
            # Taichi cannot parse a literal beyond i64, or the smallest i64, except as a difference.
            if self is DType.u64 and value > int(np.iinfo(np.int64).max):
                return f"ti.cast(ti.i64({int(value) - 2**64 + 1}) - ti.i64(1), ti.u64)"
            if value == np.iinfo(np.int64).min:
                return f"(ti.i64({int(value) + 1}) - ti.i64(1))"
            return f"{self.taichi}({int(value)})"
        if value == value and not self.holds(value):
            raise ValueError(f"{value!r} does not fit {self.value}, where it is infinite")
        number = float(value)
        if number != number:
            return f"ti.cast(ti.math.nan, {self.taichi})"
        if number in (np.inf, -np.inf):
            return f"ti.cast({'-' if number < 0 else ''}ti.math.inf, {self.taichi})"
        return f"{self.taichi}({number!r})"

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return repr(self.value)


_BY_NUMPY = {member.numpy: member for member in DType}
_BY_NAME = {dtype.name: member for dtype, member in _BY_NUMPY.items()}
_BY_TYPE = {dtype.type: member for dtype, member in _BY_NUMPY.items()}
_BY_TYPE |= {int: DType.i64, float: DType.f64}

INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f16", "f32", "f64")
ALL_DTYPES = INTS + FLOATS

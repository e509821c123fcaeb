"""The struct in which the tasks of a kernel find their arguments, in ctypes and in LLVM's words."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from tikgen.dtypes import C_TYPES, DType

# (dtype, number of axes) of an array, (dtype, None) of a scalar.
Kind = tuple[DType, "int | None"]


class ArrayUse(NamedTuple):
    """What a kernel does with its arrays, of which none that is written overlaps another one.

    Attributes:
        read: slots of arrays that it only reads.
        same: slots of two arrays that may be the very same nevertheless, one of which is only read.
    """

    read: frozenset[int]
    same: tuple[tuple[int, int], ...]


def array_use(kinds: Sequence[Kind], read: Collection[int], inplace: Collection[int]) -> ArrayUse:
    """Return what a kernel does with its arrays.

    Args:
        kinds: dtype and number of axes of each argument.
        read: slots of arrays that it only reads.
        inplace: slots of arrays that may be the very same as one of those, of the same kind.
    """
    pairs = ((one, other) for one in sorted(inplace) for other in sorted(read))
    return ArrayUse(frozenset(read), tuple((i, j) for i, j in pairs if kinds[i] == kinds[j]))


_LLVM = {"f16": "half", "f32": "float", "f64": "double"}
_FORMATS = dict(zip(C_TYPES, "bhiqBHIQHfd", strict=True))


def problem(kinds: Sequence[Kind]) -> str:
    """Return why no struct can be made for arguments, or an empty string."""
    if any(ndim == 0 for _, ndim in kinds):
        return "takes an array without axes"
    return "" if kinds else "takes no arguments"


def llvm_type(kinds: Sequence[Kind]) -> str:
    """Return the struct as LLVM writes it: ``{ float, { { i32, i32 }, float* } }``."""
    fields = []
    for dtype, ndim in kinds:
        name = _LLVM.get(dtype.value, f"i{dtype.bits}")
        shape = "{ " + ", ".join(["i32"] * (ndim or 0)) + " }"
        fields.append(name if ndim is None else f"{{ {shape}, {name}* }}")
    return "{ " + ", ".join(fields) + " }"


def c_type(kinds: Sequence[Kind]) -> type[ctypes.Structure]:
    """Return the struct as a class: ``a0``, ``a1`` ..., arrays with ``shape`` and ``data``."""
    fields = []
    for number, (dtype, ndim) in enumerate(kinds):
        kind: Any = None if ndim is not None else C_TYPES[dtype.value]
        if ndim is not None:
            inner = [("shape", ctypes.c_int32 * ndim), ("data", ctypes.c_void_p)]
            kind = type(f"Array{ndim}", (ctypes.Structure,), {"_fields_": inner})
        fields.append((f"a{number}", kind))
    return type("Arguments", (ctypes.Structure,), {"_fields_": fields})


def address_offsets(kinds: Sequence[Kind]) -> dict[int, int]:
    """Return where in the struct the address of each array lies, in bytes, by its slot."""
    made = c_type(kinds)
    arrays = (number for number, (_, ndim) in enumerate(kinds) if ndim is not None)
    places = ((number, getattr(made, f"a{number}")) for number in arrays)
    return {number: place.offset + place.size - 8 for number, place in places}


def packer(kinds: Sequence[Kind]) -> struct.Struct:
    """Return what packs all fields of the struct: scalars, and extents and address of arrays."""
    made, at, form = c_type(kinds), 0, "="
    for number, (dtype, ndim) in enumerate(kinds):
        field = getattr(made, f"a{number}")
        form += f"{field.offset - at}x"
        if ndim is None:
            form += _FORMATS[dtype.value]
        else:
            # The address is aligned to 8 bytes.
            form += f"{ndim}i{4 * (ndim % 2)}xQ"
        at = field.offset + field.size
    return struct.Struct(form)


def c_value(dtype: DType, value: Any) -> Any:
    """Return a scalar as its field in the struct takes it; beyond the dtype floats are infinite."""
    if dtype is DType.f16:
        with np.errstate(over="ignore"):
            return int(np.float16(value).view(np.uint16))
    return ctypes.c_float(value).value if dtype is DType.f32 else value

"""Taichi's arrays and fields: their epoch and layout, how they are made and copied."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import taichi as ti
from taichi.lang import impl
from taichi.lang._ndarray import Ndarray, ScalarNdarray
from taichi.lang.field import Field, ScalarField
from taichi.lang.matrix import MatrixField

from tikgen.taichi import patches

TaichiArray = (Ndarray, Field)
TiScalarNdarray, TiScalarField = ScalarNdarray, ScalarField


def is_stale(array: Any) -> bool:
    """Return whether a Taichi array or field was made before the last ``ti.init``."""
    made = getattr(array, "_tikgen_epoch", patches.epoch_at_import)
    return made is not impl.pytaichi or made.prog is None


def is_fresh(array: Any) -> bool:
    """Return True if a quick test shows that an array is not stale; False proves nothing."""
    return getattr(array, "_tikgen_epoch", None) is impl.pytaichi


def is_field(value: object) -> bool:
    """Return whether a value is a field of Taichi's, of any kind."""
    return isinstance(value, Field)


def is_placed(field: Any) -> bool:
    """Return whether a field has a shape, its own or that of its place in a tree."""
    return is_stale(field) or field.vars[0].ptr.snode() is not None


def field_layout(field: Any) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return dtype, shape and element shape of a field that ``ti.field`` can make again.

    Raises:
        ValueError: if the field is of another kind; the message names it.
    """
    if not isinstance(field, ScalarField | MatrixField):
        raise ValueError("is a field of structs; make a field of each of their members")
    if is_stale(field):
        raise ValueError("belongs to an earlier ti.init; make it again")
    if not is_placed(field):
        raise ValueError("has no shape yet")
    for variable in field.vars:
        node = variable.ptr.snode()
        above = [node.parent, node.parent.parent]
        if [str(n.type) for n in above] != ["SNodeType.dense", "SNodeType.root"]:
            raise ValueError("is sparse or of several levels; make it with ti.field(dtype, shape)")
        if any(node.offset):
            raise ValueError("has an offset; make it without")
    shape = (field.n, field.m)[: field.ndim] if isinstance(field, MatrixField) else ()
    return str(field.dtype), tuple(field.shape), shape


def primitive(dtype: str) -> Any:
    """Return Taichi's object for a dtype; there is one of each."""
    return getattr(ti, dtype)


def make_ndarray(dtype: str, shape: tuple[int, ...]) -> Any:
    """Return a new zeroed ``ti.ndarray``."""
    return ti.ndarray(primitive(dtype), shape)


def is_on_host(array: Any) -> bool:
    """Return whether Taichi copies ``array`` to the device and back."""
    return not isinstance(array, Ndarray | Field)


def is_copied(array: Any) -> bool:
    """Return whether a GPU cannot use the memory of ``array``: a NumPy array, a tensor on cpu."""
    return isinstance(array, np.ndarray) or getattr(array, "is_cuda", True) is False


def is_read_only(array: Any) -> bool:
    """Return whether ``array`` is a NumPy array that cannot be written."""
    return isinstance(array, np.ndarray) and not array.flags.writeable


def to_host(array: Any) -> Any:
    """Return the elements of a Taichi array, a field or a torch tensor as a NumPy array."""
    if isinstance(array, TaichiArray):
        return array.to_numpy()
    return array.detach().cpu().numpy() if hasattr(array, "data_ptr") else array


def copy_of(array: Any) -> Any:
    """Return a copy of an array of any kind but a field, where the array is."""
    if isinstance(array, Ndarray):
        return to_ndarray(array)
    if isinstance(array, np.ndarray):
        return np.array(array, order="C")
    return array.detach().clone()


def stand_in(array: Any) -> Any:
    """Return a ``ti.ndarray`` of one element, for which the same code is compiled."""
    host = to_host(array)
    return make_ndarray(f"{host.dtype.kind}{8 * host.dtype.itemsize}", (1,) * host.ndim)


def to_ndarray(array: Any) -> Any:
    """Return a NumPy array or a torch tensor copied into a new ``ti.ndarray``."""
    host = to_host(array)
    made = make_ndarray(f"{host.dtype.kind}{8 * host.dtype.itemsize}", host.shape)
    # CUDA copies the array back.
    made.from_numpy(host.copy() if is_read_only(host) else host)
    return made


def copy_back(made: Any, array: Any) -> None:
    """Copy a ``ti.ndarray`` into the NumPy array or torch tensor that it was copied from."""
    if isinstance(array, np.ndarray):
        array[...] = made.to_numpy()
    else:
        array.copy_(array.new_tensor(made.to_numpy()))


_byte_of: Any = ctypes.c_char.from_buffer


def address_of(array: Any) -> tuple[int, int]:
    """Return the address of an array that a processor can access, and its size in bytes."""
    if isinstance(array, np.ndarray):
        try:  # This takes a fifth of the time of `array.ctypes.data`.
            return ctypes.addressof(_byte_of(array)), array.nbytes
        except (TypeError, ValueError):  # It cannot be written, or is empty.
            return array.ctypes.data, array.nbytes
    if isinstance(array, Ndarray):
        made = array.arr
        address = impl.pytaichi.prog.get_ndarray_data_ptr_as_int(made)
        return address, made.nelement() * made.element_size()
    if hasattr(array, "data_ptr"):
        return array.data_ptr(), array.element_size() * array.nelement()
    raise TypeError(f"{type(array).__name__} has no address")


def size_of(value: Any) -> int:
    """Return the bytes of an array of any kind that is no field, and 0 for anything else."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Ndarray):
        return int(value.arr.nelement() * value.arr.element_size())
    return value.element_size() * value.nelement() if hasattr(value, "data_ptr") else 0


def bytes_of(array: Any) -> int:
    """Return how many bytes a Taichi array frees; those of a field stay until ``ti.init``."""
    if not isinstance(array, Ndarray) or is_stale(array):
        return 0
    return int(array.arr.nelement() * array.arr.element_size())


def write(array: Any, values: Any) -> None:
    """Write a NumPy array of the same shape and dtype into an array of any kind."""
    if isinstance(array, TaichiArray):
        array.from_numpy(np.ascontiguousarray(values))
    elif isinstance(array, np.ndarray):
        array[...] = values
    else:
        array.copy_(array.new_tensor(values))

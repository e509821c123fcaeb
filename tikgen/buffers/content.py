"""What goes into a buffer: values that its elements can hold, and the content of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.errors import ArgumentError
from tikgen.template.argument_checks import hidden_problem

if TYPE_CHECKING:
    from tikgen.buffers.memory_pool import MemoryPool


def holds_all(dtype: DType, array: np.ndarray[Any, Any]) -> bool:
    """Return whether elements can hold the values of an array without overflow."""
    if not _is_of_kind(dtype, array):
        return False
    if not array.size or np.can_cast(array.dtype, dtype.numpy):
        return True
    if not dtype.is_float:
        return bool(dtype.lowest <= int(array.min()) and int(array.max()) <= dtype.highest)
    with np.errstate(over="ignore"):
        overflowed = np.isinf(array.astype(dtype.numpy)) & np.isfinite(array)
    return not overflowed.any()


def _is_of_kind(dtype: DType, array: np.ndarray[Any, Any]) -> bool:
    """Return whether the dtype of an array needs no other kind of number."""
    is_whole = array.dtype.kind in "iub"
    return is_whole or not array.size or np.can_cast(array.dtype, dtype.numpy, "same_kind")


def fitting(what: str, dtype: DType, data: Any) -> np.ndarray[Any, Any]:
    """Return data as an array.

    Raises:
        ArgumentError: if elements cannot hold the values, or its memory does not hold them.
    """
    if problem := hidden_problem("data", data):
        raise ArgumentError("UnifiedBuffer", problem)
    array = np.asarray(data)
    if not holds_all(dtype, array):
        how = " with values beyond it" if _is_of_kind(dtype, array) else ", which does not fit it"
        problem = f"{what} takes {dtype.numpy}; got {array.dtype}{how}"
        raise ArgumentError("UnifiedBuffer", problem)
    return array


def made_again(
    make: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: str,
    content: np.ndarray[Any, Any] | None,
    pool: MemoryPool | None = None,
) -> Any:
    """Return a buffer with the content of another one, on the host."""
    made = make(shape, dtype, pool=pool)
    if content is not None:
        made.copy_from(content)
    return made

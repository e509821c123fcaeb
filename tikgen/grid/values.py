"""Numbers that users give for fields, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.errors import GridError

NDArray = npt.NDArray[Any]


def array_of(values: Any, what: str) -> NDArray:
    """Return the array that NumPy makes of values; raise GridError if it makes none."""
    try:
        return np.asarray(values)
    except ValueError:
        raise GridError(
            f"{what} takes numbers in one array; got a {type(values).__name__} of parts of "
            "different shapes"
        ) from None


def numbers_of(values: Any, dtype: DType, what: str) -> NDArray:
    """Return numbers that a dtype holds; raise GridError where some do not fit.

    Floats are rounded, and fractions cut off for integers, as NumPy does.

    Args:
        values: what NumPy takes for an array.
        dtype: the dtype.
        what: what takes them, in words.
    """
    found = array_of(values, what)
    if found.dtype.kind not in "biuf":
        got = type(values).__name__ if found.dtype.kind == "O" else found.dtype.name
        raise GridError(f"{what} takes real numbers; got {'None' if values is None else got}")
    if found.dtype != dtype.numpy and not dtype.is_float and found.size:
        limits = np.iinfo(dtype.numpy)
        least, most = found.min().item(), found.max().item()
        if not (limits.min <= least and most <= limits.max):
            raise GridError(
                f"{what} takes numbers of {dtype}, from {limits.min} to {limits.max}; got numbers "
                f"from {least} to {most}"
            )
    return found


def spread(values: Any, dtype: DType, shape: tuple[int, ...], what: str) -> NDArray:
    """Return numbers of a shape; raise GridError where they do not fit, or do not broadcast."""
    found = numbers_of(values, dtype, what)
    try:
        return np.broadcast_to(found, shape)
    except ValueError:
        raise GridError(
            f"{what} takes an array of shape {shape}, or one that broadcasts; got {found.shape}"
        ) from None


def hint_of_components(shape: tuple[int, ...], points: tuple[int, ...]) -> str:
    """Return how to make a field of an array with components at each point, or nothing.

    Args:
        shape: the shape of the array.
        points: the number of points along each axis.
    """
    if shape[1:] == points:
        return f"; one with {shape[0]} components takes components={shape[0]}"
    if shape[:-1] == points:
        return f"; one with {shape[-1]} components takes components={shape[-1]}, layout='last'"
    return ""

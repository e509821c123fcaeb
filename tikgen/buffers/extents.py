"""The shapes, dtypes and sizes that arrays of buffers may have."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tikgen.buffers.errors import InvalidConfigurationError
from tikgen.dtypes import DType
from tikgen.template.shapes import MOST_ELEMENTS

MIB = 1024 * 1024
# Taichi copies no array of more axes.
MOST_AXES = 12


def sound_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple."""
    try:
        axes = tuple(map(operator.index, shape if np.iterable(shape) else (shape,)))
    except TypeError:
        problem = "a shape is an integer or a tuple of integers"
        raise InvalidConfigurationError("shape", shape, problem) from None
    if min(axes, default=1) < 1:
        raise InvalidConfigurationError("shape", shape, "each axis has one element at least")
    if len(axes) > MOST_AXES:
        problem = f"an array has {MOST_AXES} axes at most"
        raise InvalidConfigurationError("shape", shape, problem)
    if math.prod(axes) > MOST_ELEMENTS:
        problem = f"an array has {MOST_ELEMENTS} elements at most"
        raise InvalidConfigurationError("shape", shape, problem)
    return axes


def sound_dtype(dtype: Any) -> DType:
    """Return a dtype by its name in NumPy, Taichi or tikgen."""
    try:
        return DType.parse(dtype)
    except ValueError as error:
        problem = str(error).removeprefix(f"{dtype!r} ")
    try:
        return DType.parse(np.dtype(dtype))
    except (TypeError, ValueError):
        raise InvalidConfigurationError("dtype", dtype, problem) from None


def bytes_in(name: str, size_mb: object) -> int:
    """Return a setting in MiB as bytes."""
    if not isinstance(size_mb, int | float) or isinstance(size_mb, bool):
        raise InvalidConfigurationError(name, size_mb, "takes a number of MiB")
    if not 0 <= size_mb < math.inf:
        raise InvalidConfigurationError(name, size_mb, "takes a finite number of MiB, 0 or more")
    return int(size_mb * MIB)

"""Why a kernel over buffers cannot take an argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.dtypes import DType
from tikgen.taichi import arrays, runtime
from tikgen.template.argument_checks import hidden_problem
from tikgen.units import counted

_TAKEN = frozenset([np.dtype(bool), *(dtype.numpy for dtype in DType)])


def problem_with(name: str, value: Any, kind: str, is_written: bool) -> str:
    """Return why Taichi cannot take a value for an argument, or an empty text.

    Args:
        name: of the argument, for the advice.
        value: anything but a buffer that is taken as an array.
        kind: of the argument, as ``tikgen.taichi.kernels.kernel_arguments`` says.
        is_written: whether the kernel may write to it.
    """
    if isinstance(value, arrays.TaichiArray) and arrays.is_stale(value):
        return "was made before the last ti.init and is stale"
    if isinstance(value, UnifiedBuffer):
        return "takes a number; got a UnifiedBuffer"
    is_array = isinstance(value, (np.ndarray, *arrays.TaichiArray)) or hasattr(value, "data_ptr")
    if kind == "array" and not is_array:
        got = f"{type(value).__name__} {value!r:.40}"
        return f"takes an array; got {got}. Annotate the parameter to take a number: `n: int`"
    if problem := hidden_problem(name, value):
        return problem
    return _numpy_problem(name, value, is_written) if isinstance(value, np.ndarray) else ""


def axes_problem(value: Any, axes: int) -> str:
    """Return that the loop over an array does not fit its axes, or an empty text."""
    shape = getattr(value, "shape", None)
    if shape is None or len(shape) == axes:
        return ""
    return f"takes {counted(axes, 'axis')}, as the kernel loops over it; got shape {tuple(shape)}"


def _numpy_problem(name: str, array: np.ndarray[Any, Any], is_written: bool) -> str:
    if 0 in array.shape:
        return f"is empty (shape {array.shape}), which Taichi cannot take"
    if array.dtype not in _TAKEN:
        known = ", ".join(sorted(dtype.name for dtype in _TAKEN))
        native = array.dtype.newbyteorder("=")
        hint = f"; pass {name}.astype(np.{native.name})" if native in _TAKEN else ""
        return f"takes an array of one of {known}; got {array.dtype}{hint}"
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        back = f", and write it back: {name}[...] = copy" if is_written else ""
        copy = f"np.ascontiguousarray({name})"
        return f"is not contiguous (strides {array.strides}); pass {copy}{back}"
    if is_written and not array.flags.writeable:
        return "is read-only, and the kernel may write to it; pass a copy"
    return ""


def own_copy(value: Any) -> Any:
    """Return a copy of a read-only array if Taichi would copy it back, else the value itself."""
    if not arrays.is_read_only(value):
        return value
    return value if value.flags.c_contiguous and not runtime.writes_inputs() else value.copy("C")

"""Tensors among the arguments of a bound kernel: whether they are as they were when checked.

NumPy refuses to resize an array that is bound. A tensor can get other memory at any time:
``module.to()`` of torch assigns ``tensor.data``, and ``resize_`` may keep the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tikgen.errors import ArgumentError


def tensors_among(kernel: str, names: Sequence[str], values: Sequence[Any]) -> Tensors | None:
    """Return the tensors among arguments, or None if there are none.

    Args:
        kernel: name of the kernel, for messages.
        names: name of each argument.
        values: the arguments.
    """
    given = zip(names, values, strict=True)
    found = [(name, value) for name, value in given if hasattr(value, "data_ptr")]
    return Tensors(kernel, found) if found else None


class Tensors:
    """Tensors by name, with address, shape, strides and dtype of each."""

    def __init__(self, kernel: str, given: Sequence[tuple[str, Any]]) -> None:
        self._kernel = kernel
        self._known = [(name, one, one.data_ptr(), *_layout(one)) for name, one in given]

    def are_elsewhere(self) -> bool:
        """Return whether one of them has other memory now, so that all must be checked again.

        Raises:
            ArgumentError: if one has another shape, other strides or another dtype.
        """
        is_elsewhere = False
        for name, tensor, address, shape, strides, dtype in self._known:
            if tensor.shape != shape or tensor.stride() != strides or tensor.dtype != dtype:
                self._refuse(name, tensor)
            if tensor.data_ptr() != address:
                is_elsewhere = True
        return is_elsewhere

    def _refuse(self, name: str, tensor: Any) -> None:
        shape, strides, dtype = _layout(tensor)
        raise ArgumentError(
            self._kernel,
            f"array {name!r} was freed, moved or resized since it was bound, and is "
            f"{dtype} of shape {tuple(shape)} and strides {tuple(strides)} now; bind it again",
        )


def _layout(tensor: Any) -> tuple[Any, Any, Any]:
    return tensor.shape, tensor.stride(), tensor.dtype

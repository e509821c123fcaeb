"""Refuses what Taichi hands to LLVM unchecked, which ends the process: misuse of vectors.

Taichi compares the shapes of a value and of what it is assigned to only if both are vectors or
matrices. A vector that is assigned to a number, or counts the turns of a loop, passes, and LLVM
aborts. A literal index outside of a vector ends the process too, or reads what lies beside it.
Plain kernels of Taichi get the errors as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import taichi as ti
from taichi.lang import impl
from taichi.lang.exception import TaichiIndexError

_ATOMIC = ("add", "sub", "mul", "min", "max", "bit_and", "bit_or", "bit_xor")


def mend() -> None:
    """Let Taichi raise TaichiTypeError, with the line, instead of compiling such a kernel."""
    core = ti._lib.core
    _check_before(core.ASTBuilder, "expr_assign", _check_assigned)
    _check_before(core.ASTBuilder, "begin_frontend_range_for", _check_turns)
    _check_before(impl, "validate_subscript_index", _check_index)
    for name in _ATOMIC:
        _check_before(core, f"expr_atomic_{name}", _check_shapes)


def _check_before(owner: Any, name: str, check: Callable[..., None]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def checked(*args: Any) -> Any:
        check(*args)
        return original(*args)

    setattr(owner, name, checked)


def _check_assigned(builder: Any, target: Any, value: Any, *_: Any) -> None:
    if value.is_tensor() and not target.is_tensor():
        _refuse(target, value)


def _check_shapes(target: Any, value: Any) -> None:
    both = value.is_tensor() and target.is_tensor()  # Taichi refuses a vector added to a number.
    if both and value.get_shape() != target.get_shape():
        _refuse(target, value)


def _check_index(value: Any, indices: Any) -> None:
    # Taichi's function then calls itself with each index alone.
    if isinstance(indices, tuple) and isinstance(value, impl.Expr) and value.is_tensor():
        for axis, (given, extent) in enumerate(zip(indices, value.get_shape(), strict=False)):
            # Taichi takes every index of a slice, also beyond the extent.
            index = given.stop - 1 if isinstance(given, slice) and given.stop else given
            if isinstance(index, int | np.integer) and index >= extent:
                problem = f"index {index} is out of bounds for axis {axis} with size {extent}"
                raise TaichiIndexError(problem)


def _check_turns(builder: Any, index: Any, begin: Any, end: Any, *_: Any) -> None:
    for bound in (begin, end):
        if bound.is_tensor():
            raise ti.TaichiTypeError(f"range takes integers; got '{_type_of(bound)}'")


def _refuse(target: Any, value: Any) -> None:
    # As Taichi words it.
    raise ti.TaichiTypeError(f"cannot assign '{_type_of(value)}' to '{_type_of(target)}'")


def _type_of(value: Any) -> str:
    return str(value.get_rvalue_type().to_string())

"""Checks the arguments of a bundle's kernel: NumPy arrays and device arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.aot import manifest
from tikgen.aot.running.c_engine import Engine
from tikgen.aot.running.device_array import DeviceArray
from tikgen.dtypes import DType
from tikgen.template.argument_checks import Check, Rules, kind_of
from tikgen.template.arguments import Argument, Array, Scalar


def argument_of(described: manifest.Argument) -> Array | Scalar:
    """Return an argument of a manifest as one of a template; axes of elements come last."""
    dtype = DType(described.dtype)
    if described.kind == "scalar":
        return Scalar(described.name, dtype)
    return Array(
        described.name,
        dtype,
        (*described.shape, *described.element),
        described.role,
        covered=described.covered,
        inplace=described.inplace,
    )


class Signature(Rules):
    """The arguments of a bundle's kernel, in order, and the checks of a call."""

    device_kind = DeviceArray
    apart_kinds = DeviceArray

    def __init__(self, engine: Engine, name: str, arguments: tuple[Argument, ...]) -> None:
        self._engine = engine
        super().__init__(name, arguments)

    def _made_check(self, argument: Array | Scalar) -> Check:
        return _BundleCheck(self._engine, argument, self.symbols)

    def suits(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether names, dtypes, numbers of axes and baked extents fit."""
        if len(args) + len(kwargs) != len(self.names) or not kwargs.keys() <= {*self.names}:
            return False
        values = self.order(args, kwargs)
        return all(
            isinstance(check, _BundleCheck) and check.suits(value)
            for check, value in zip(self.checks, values, strict=True)
        )


class _BundleCheck(Check):
    def __init__(self, engine: Engine, argument: Array | Scalar, symbols: tuple[str, ...]) -> None:
        super().__init__(argument, symbols)
        self._engine = engine

    def takes_fresh(self, array: Any) -> bool:
        """Return whether a :class:`DeviceArray` fits, on the fast path."""
        return (
            array.dtype is self.dtype
            and array.engine is self._engine
            and array.is_open
            and not self.is_scalar
        )

    def suits(self, value: Any) -> bool:
        if self.is_scalar:
            return not self.scalar_problem(value)
        if not isinstance(value, np.ndarray | DeviceArray) or len(value.shape) != self.ndim:
            return False
        dtype = value.dtype.numpy if isinstance(value, DeviceArray) else value.dtype
        return dtype == self.numpy and all(
            symbol >= 0 or extent == baked
            for (symbol, baked), extent in zip(self.extents, value.shape, strict=True)
        )

    def array_problem(self, value: Any) -> str:
        """Return what is wrong with an array that is no plain NumPy array, or nothing."""
        if isinstance(value, np.ndarray):
            return self.numpy_problem(value)
        if not isinstance(value, DeviceArray):
            what = f"takes a NumPy array or a DeviceArray; got {kind_of(value)}"
        elif value.dtype is not self.dtype:
            what = f"takes dtype {self.dtype}; got {value.dtype}"
        elif problem := value.problem():
            what = problem
        elif value.engine is not self._engine:
            what = "is a DeviceArray of another runtime; make it with this one"
        else:
            return ""
        return f"argument {self.name!r} {what}"

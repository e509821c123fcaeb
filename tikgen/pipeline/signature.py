"""Checks the arguments of a call before they reach Taichi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.taichi import arrays
from tikgen.template.argument_checks import Check, Rules, hidden_problem, is_tensor, kind_of
from tikgen.template.arguments import Argument, Array, Opaque, Scalar, split_extent
from tikgen.units import counted

_STALE = "argument {name!r} was made before the last ti.init and is stale"
_TAKES = "takes a NumPy array, a ti.ndarray or a torch tensor"
_TORCH_NAMES = {f"torch.{dtype.numpy.name}": dtype for dtype in DType}


class Signature(Rules):
    """The ordered arguments of a kernel, and the rules for a call."""

    device_kind = arrays.TiScalarNdarray
    apart_kinds = arrays.TaichiArray

    def sizes_of(self, values: Mapping[str, Any]) -> dict[str, int]:
        """Return the value of each size symbol, from the shapes of ``values``.

        Raises:
            ArgumentError: if an array has the wrong number of axes, or is too small for a size.
        """
        sizes: dict[str, int] = {}
        for argument, check in zip(self.arguments, self.checks, strict=True):
            if isinstance(argument, Array) and argument.name in values:
                shape = np.shape(values[argument.name])
                if len(shape) != argument.ndim:
                    problem = f"takes {counted(argument.ndim, 'axis')}; got shape {shape}"
                    raise self._error(f"argument {argument.name!r} {problem}")
                for declared, extent in zip(argument.shape, shape, strict=True):
                    symbol, more = split_extent(declared)
                    if symbol is not None:
                        if extent <= more > 0 and check is not None:
                            raise self._error(check.wrong_size(shape, symbol))
                        sizes.setdefault(symbol, extent - more)
        return sizes

    def change_of_roles(self, newer: Signature) -> str:
        """Return which array of the same name has another role in newer code, or nothing."""
        roles = {a.name: a.role for a in self.arguments if isinstance(a, Array)}
        for argument in newer.arguments:
            role = getattr(argument, "role", None)
            if role is not None and roles.get(argument.name, role) != role:
                was = roles[argument.name]
                return f"argument {argument.name!r} is bound with the role {was!r}, not {role!r}"
        return ""

    def on_host(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments by name, with the elements of every array as a NumPy array.

        Raises:
            ArgumentError: if the memory of an array does not hold its elements.
        """
        for name, value in given.items():
            if problem := hidden_problem(name, value):
                raise self._error(f"argument {name!r} {problem}")
        return {name: arrays.to_host(value) for name, value in given.items()}

    def _made_check(self, argument: Array | Scalar) -> Check:
        return _TaichiCheck(argument, self.symbols)

    def _opaque_problem(self, argument: Argument, value: Any) -> str:
        name = argument.name
        if isinstance(value, arrays.TaichiArray) and arrays.is_stale(value):
            return _STALE.format(name=name)  # It could kill the process.
        if isinstance(argument, Opaque) and argument.is_template:
            return _template_problem(name, value)
        if problem := hidden_problem(name, value):
            return f"argument {name!r} {problem}"
        if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
            return f"argument {name!r} is not C-contiguous; pass np.ascontiguousarray({name})"
        if not isinstance(argument, Opaque):
            return ""
        dtype = argument.dtype
        if dtype and isinstance(value, np.ndarray) and value.dtype != dtype.numpy:
            return f"argument {name!r} takes dtype {dtype}; got {value.dtype}"
        return _elements_problem(argument, value)


def _template_problem(name: str, value: Any) -> str:
    """Return why a value cannot be passed as a ``ti.template()``, or nothing."""
    takes = f"argument {name!r} is a ti.template(), which takes fields, numbers and other constants"
    if isinstance(value, np.ndarray) or is_tensor(value):
        return f"{takes}; got {kind_of(value)}; declare {name}: ti.types.ndarray() for arrays"
    try:
        hash(value)
    except TypeError:
        hint = "; pass a tuple" if isinstance(value, list) else ""
        return f"{takes}; got {kind_of(value)}, which has no hash{hint}"
    return ""


def _elements_problem(argument: Opaque, value: Any) -> str:
    """Return how the shape of an array of vectors or matrices is wrong, or nothing."""
    name, axes, elements = argument.name, argument.axes, argument.elements
    if not elements:
        return ""
    if not hasattr(value, "shape"):
        return f"argument {name!r} {_TAKES}; got {kind_of(value)}"
    shape = tuple(value.shape)
    own = ("...",) if axes is None else tuple(f"{name}_{axis}" for axis in range(axes))
    if isinstance(value, arrays.TaichiArray):
        if value.element_shape == elements and axes in (None, len(shape)):
            return ""
        takes = f"{_tuple(own)} with elements of shape {elements}"
        return f"argument {name!r} takes shape {takes}; got {shape} with {value.element_shape}"
    # Elements of other arrays lie along their last axes.
    count = len(shape) - len(elements)
    if shape[max(0, count) :] == elements and axes in (None, count):
        return ""
    return f"argument {name!r} takes shape {_tuple((*own, *elements))}; got {shape}"


def _tuple(extents: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, extents))}{',' * (len(extents) == 1)})"


class _TaichiCheck(Check):
    """The rules for one argument."""

    def __init__(self, argument: Array | Scalar, symbols: tuple[str, ...]) -> None:
        super().__init__(argument, symbols)
        self.taichi = arrays.primitive(argument.dtype.value)

    def takes_fresh(self, array: Any) -> bool:
        return self.takes_host and array.dtype is self.taichi and arrays.is_fresh(array)

    def array_problem(self, value: Any) -> str:
        if self.takes_field:
            if not isinstance(value, arrays.TiScalarField):
                return f"argument {self.name!r} takes a ti.field of scalars; got {kind_of(value)}"
            if not arrays.is_placed(value):
                return f"argument {self.name!r} is a field that is not placed; give it a shape"
            found = str(value.dtype)
        elif isinstance(value, arrays.TiScalarNdarray):
            found = str(value.dtype)
        elif isinstance(value, np.ndarray):
            return self.numpy_problem(value)
        elif is_tensor(value):
            if problem := hidden_problem(self.name, value):
                return f"argument {self.name!r} {problem}"
            found = str(_TORCH_NAMES.get(str(value.dtype), value.dtype))
            if not (value.is_contiguous() or self.takes_view(value)):
                copy = f"{self.name}.contiguous()"
                return self.layout_problem("contiguous", value, copy)
            if value.requires_grad:
                return (
                    f"argument {self.name!r} requires a gradient, which a kernel does not record;"
                    f" pass {self.name}.detach()"
                )
        else:
            hint = f"; pass torch.from_dlpack({self.name})" if hasattr(value, "__dlpack__") else ""
            hint = getattr(type(value), "hint_for_kernels", hint)
            return f"argument {self.name!r} {_TAKES}; got {kind_of(value)}{hint}"
        if not hasattr(value, "data_ptr") and arrays.is_stale(value):
            return _STALE.format(name=self.name)
        if found != self.dtype.value:
            return f"argument {self.name!r} takes dtype {self.dtype}; got {found}"
        return ""

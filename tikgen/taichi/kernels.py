"""Taichi's kernels: their declared arguments, their Python source, their compiled instances."""

from __future__ import annotations

import types
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import taichi as ti
from taichi.lang import impl, kernel_impl
from taichi.lang.field import ScalarField
from taichi.lang.matrix import MatrixField, MatrixType
from taichi.lang.util import to_taichi_type
from taichi.types import primitive_types
from taichi.types.annotations import template as template_annotation
from taichi.types.ndarray_type import NdarrayType

from tikgen.taichi import arrays

TAICHI_FOLDER = str(Path(ti.__file__).parent)


def is_kernel(value: object) -> bool:
    """Return whether ``value`` is a function decorated with ``ti.kernel``."""
    return bool(getattr(value, "_is_wrapped_kernel", False))


def kernel_arguments(kernel: Any) -> list[tuple[str, str, str | None, int]]:
    """Return (name, kind, dtype, ndim) of each argument; kind is array, field, scalar or other."""
    found = []
    for argument in kernel._primal.arguments:
        annotation = argument.annotation
        if isinstance(annotation, NdarrayType):
            dtype = None if annotation.dtype is None else str(annotation.dtype)
            found.append((argument.name, "array", dtype, annotation.ndim or 0))
        elif isinstance(annotation, template_annotation):
            found.append((argument.name, "field", None, 0))
        elif id(annotation) in primitive_types.type_ids:
            found.append((argument.name, "scalar", str(annotation), 0))
        else:
            found.append((argument.name, "other", str(annotation), 0))
    return found


def elements_of(kernel: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of the elements of each array of vectors or matrices that declares it."""
    found = {}
    for argument in kernel._primal.arguments:
        dtype = getattr(argument.annotation, "dtype", None)
        if isinstance(dtype, MatrixType) and None not in dtype.get_shape():
            found[argument.name] = dtype.get_shape()
    return found


class Written(NamedTuple):
    """A kernel or a ``ti.func`` as its author wrote it.

    Attributes:
        function: the Python function.
        decorator: ``ti.kernel``, ``ti.func``, ``ti.real_func``, or nothing.
        parameters: name, annotation and default of each, without that of ``owner``.
        returns: the declared return type, or None.
        owner: of a method, the name of its first parameter and its object.
    """

    function: Any
    decorator: str
    parameters: tuple[tuple[str, Any, Any], ...]
    returns: Any
    owner: tuple[str, Any] | None


def written(value: Any) -> Written | None:
    """Return the source of a kernel or a ``ti.func``, or None for anything else."""
    if isinstance(value, kernel_impl._BoundedDifferentiableMethod):
        made, decorator = value._primal, "ti.kernel"
        bound = () if getattr(value, "_is_staticmethod", False) else (value._kernel_owner,)
    elif is_kernel(value) or isinstance(value, kernel_impl.Kernel):
        made, decorator, bound = getattr(value, "_primal", value), "ti.kernel", ()
    elif getattr(value, "_is_taichi_function", False):
        made, bound = value.func, (value.__self__,) if isinstance(value, types.MethodType) else ()
        decorator = "ti.real_func" if made.is_real_function else "ti.func"
    else:
        return None
    names = [argument.name for argument in made.arguments]
    owner = (names[0], bound[0]) if bound else None
    parameters = [(a.name, a.annotation, a.default) for a in made.arguments]
    returns = made.return_type
    if isinstance(returns, list | tuple) and len(returns) == 1:
        returns = returns[0]
    return Written(made.func, decorator, tuple(parameters[len(bound) :]), returns, owner)


def is_gradient(kernel: Any) -> bool:
    """Return whether a kernel, as a ``CallHook`` reports it, is the derivative of another."""
    none = kernel_impl.AutodiffMode.NONE
    return bool(getattr(kernel, "autodiff_mode", none) != none)


def shown_signature(kernel: Any, features: Sequence[Any] | None) -> str:
    """Return the template signature of an instance as text, such as ``x: f32[2d], n: i32``."""
    shown = []
    for argument, feature in zip(kernel.arguments, features or (), strict=False):
        annotation = argument.annotation
        if isinstance(annotation, NdarrayType):
            dtype, ndim = feature[0], feature[1]
            shown.append(f"{argument.name}: {_shown_array(dtype, ndim)}")
        elif isinstance(annotation, template_annotation):
            shown.append(f"{argument.name}: {_shown_template(feature)}")
        else:
            shown.append(f"{argument.name}: {getattr(annotation, '__name__', annotation)}")
    return ", ".join(shown)


def _shown_array(dtype: Any, ndim: int) -> str:
    """Return a kind of array as text, with its library, for each of which Taichi compiles anew."""
    if isinstance(dtype, ti._lib.core.DataType):  # A ti.ndarray.
        return f"{dtype}[{ndim}d]"
    library = "NumPy" if isinstance(dtype, np.dtype) else type(dtype).__module__
    return f"{to_taichi_type(dtype)}[{ndim}d] {library}"


def _shown_template(feature: Any) -> str:
    value = feature() if isinstance(feature, weakref.ref) else feature
    if isinstance(value, int | float | bool | str | None):
        return repr(value)
    shown = type(value).__name__
    kind = {ScalarField: "field", MatrixField: "matrix field"}.get(type(value))
    if kind and not arrays.is_stale(value) and arrays.is_placed(value):
        shown = f"{value.dtype} {kind} {value.shape}"
    return f"{shown} at {id(value):#x}"


def signatures(kernel: Any) -> list[str]:
    """Return the template signature of each instance of a ``ti.kernel``, oldest first."""
    primal = kernel._primal
    made = {instance for _, instance, _ in primal.compiled_kernels}
    return [
        shown_signature(primal, features)
        for features, instance in primal.mapper.mapping.items()
        if instance in made
    ]


def returns_value(kernel: Any) -> bool:
    """Return whether a kernel returns a value."""
    return kernel._primal.return_type is not None


def is_plain_launch(kernel: Any) -> bool:
    """Return whether a compiled kernel neither returns a value nor prints."""
    primal = kernel._primal
    return primal.return_type is None and not primal.has_print


def is_compiled(kernel: Any, values: Sequence[Any] | None = None) -> bool:
    """Return whether ``kernel`` is compiled for ``values``, or for any arguments if None."""
    primal = kernel._primal
    if values is None:
        return bool(primal.compiled_kernels)
    instance = primal.mapper.mapping.get(primal.mapper.extract(values))
    return (primal.func, instance, primal.autodiff_mode) in primal.compiled_kernels


def ensure_compiled(kernel: Any, values: Sequence[Any]) -> tuple[Any, Any]:
    """Compile ``kernel`` for ``values`` without a launch; return the C++ kernel and its code."""
    primal = kernel._primal
    instance = primal.compiled_kernels[primal.ensure_compiled(*values)]
    program = impl.pytaichi.prog
    return instance, program.compile_kernel(program.config(), program.get_device_caps(), instance)

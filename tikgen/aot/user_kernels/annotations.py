"""The arguments of a user's own kernel, from its annotations and the values of open ones."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import taichi as ti

from tikgen.aot import manifest
from tikgen.aot.exporting.kernel_texts import element_type
from tikgen.aot.user_kernels.value_text import (
    MatrixType,
    Writer,
    array_code,
    element_of,
    type_code,
)
from tikgen.dtypes import DType
from tikgen.errors import ExportError, near
from tikgen.pipeline.one_off import only_read
from tikgen.taichi import arrays, kernels, runtime


@dataclass(frozen=True)
class Signature:
    """The parameters of a function in its text."""

    code: str
    names: tuple[str, ...]
    returns: str = ""  # The annotation of the result, with its arrow.
    fixed: dict[str, Any] = field(default_factory=dict)  # Parameters that the text lacks.
    templates: dict[str, Any] = field(default_factory=dict)  # Open arguments, for JSON.
    declared: tuple[manifest.Argument, ...] = ()  # Of a kernel, with each array as written.

    def arguments(self, text: str, function: str) -> tuple[manifest.Argument, ...]:
        """Return the arguments of the kernel named ``function`` in ``text``."""
        kept = only_read(text, function)
        return tuple(
            msgspec.structs.replace(argument, role="in")
            if argument.kind == "array" and argument.name in kept
            else argument
            for argument in self.declared
        )


class _Kind(NamedTuple):
    """The type of an array, as far as it is known."""

    dtype: str | None
    ndim: int | None
    element: tuple[int, ...]

    @property
    def is_open(self) -> bool:
        return self.dtype is None or self.ndim is None

    def __str__(self) -> str:
        return f"{self.dtype}{'x'.join(['', *map(str, self.element)])}[{self.ndim}d]"


def of_function(written: kernels.Written, writer: Writer) -> Signature:
    """Return the signature of a function that a kernel calls."""
    parts = []
    for name, annotation, default in written.parameters:
        part = name
        if annotation is not inspect.Parameter.empty:
            part += f": {_annotation(written, annotation)}"
        if default is not inspect.Parameter.empty:
            code = writer.code(default, name)
            if code is None:
                raise ExportError(
                    written.function.__name__, f"the default of {name} cannot be written as text"
                )
            part += f" = {code}" if ":" in part else f"={code}"
        parts.append(part)
    names = tuple(name for name, _, _ in written.parameters)
    fixed = dict([written.owner] if written.owner else [])
    return Signature(", ".join(parts), names, _returns(written), fixed)


def _annotation(written: kernels.Written, annotation: Any) -> str:
    code = annotation.__name__ if _is_python(annotation) else type_code(annotation)
    if code is None:
        raise ExportError(
            written.function.__name__,
            f"the annotation {annotation!r} cannot be written as text; take a struct without "
            "methods, or ti.template()",
        )
    return code


def _returns(written: kernels.Written) -> str:
    if written.returns is None:
        return ""
    if isinstance(written.returns, list | tuple):
        return f" -> ({', '.join(_annotation(written, item) for item in written.returns)})"
    return f" -> {_annotation(written, written.returns)}"


def of_kernel(written: kernels.Written, given: Mapping[str, Any], writer: Writer) -> Signature:
    """Return the signature of a kernel, with ``given`` values of open arguments."""
    kernel = written.function.__name__
    if written.returns is not None:
        raise ExportError(
            kernel,
            "it returns a value, which Taichi's C library does not return; write it to an "
            "array of one element",
        )
    _check_names(kernel, given, [name for name, _, _ in written.parameters])
    parts, declared = [], []
    fixed = dict([written.owner] if written.owner else [])
    templates: dict[str, Any] = {}
    open_arguments = []
    for name, annotation, _ in written.parameters:
        if isinstance(annotation, ti.template):
            if name not in given:
                open_arguments.append(f"{name!r} (a number, a dtype, a field or another constant)")
                continue
            fixed[name] = given[name]
            templates[name] = _as_json(given[name], name, writer)
        elif isinstance(annotation, ti.types.ndarray):
            kind = _kind_of(kernel, name, annotation, given)
            if kind.is_open:
                open_arguments.append(f"{name!r} (an array as an example)")
                continue
            declared.append(_array(kernel, name, kind))
            parts.append(f"{name}: {array_code(_dtype_code(kind), kind.ndim, annotation.boundary)}")
            if _kind(annotation).is_open:
                templates[name] = str(kind)
        else:
            if name in given:
                raise ExportError(kernel, f"{name!r} is a scalar, which each call passes anew")
            declared.append(_scalar(kernel, name, annotation))
            parts.append(f"{name}: ti.{declared[-1].dtype}")
    if open_arguments:
        raise ExportError(
            kernel, f"give template_args for the open arguments {' and '.join(open_arguments)}"
        )
    names = tuple(argument.name for argument in declared)
    return Signature(", ".join(parts), names, "", fixed, templates, tuple(declared))


def _check_names(kernel: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            raise ExportError(
                kernel,
                f"template_args names {name!r}, which is no argument."
                f"{near(name, names)} It takes {', '.join(names) or 'nothing'}",
            )


def _as_json(value: Any, name: str, writer: Writer) -> Any:
    """Return a number or a name unchanged, and other constants as code."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    code = writer.code(value, name) or type(value).__name__
    return code.removeprefix("ti.").removeprefix('FIELDS["').removesuffix('"]')


def _kind_of(kernel: str, name: str, annotation: Any, given: Mapping[str, Any]) -> _Kind:
    """Return the declared type of an array argument, completed by the given example."""
    declared = _kind(annotation)
    if annotation.needs_grad:
        raise ExportError(kernel, f"the array {name!r} needs a gradient, which no bundle holds")
    if name not in given:
        return declared
    example = given[name]
    if isinstance(example, ti.types.ndarray):
        kind = _kind(example)
    elif hasattr(example, "dtype") and hasattr(example, "shape"):
        kind = _kind_of_array(example, declared)
    else:
        raise ExportError(
            kernel,
            f"template_args has {type(example).__name__} for the array {name!r}; give an array or "
            "ti.types.ndarray(dtype=..., ndim=...)",
        )
    known = _Kind(declared.dtype or kind.dtype, declared.ndim or kind.ndim, declared.element)
    if declared.dtype is None or 0 in declared.element:
        known = known._replace(element=kind.element)
    if known != kind:
        raise ExportError(kernel, f"{name!r} is declared as {known}, and template_args has {kind}")
    return known


def _kind(annotation: Any) -> _Kind:
    """Return the type of an annotation; open extents of its elements are 0."""
    dtype = annotation.dtype
    element: tuple[int, ...] = ()
    if isinstance(dtype, MatrixType):
        element, dtype = element_of(dtype), dtype.dtype
    is_open = dtype is None or 0 in element
    return _Kind(None if is_open else dtype_name(dtype), annotation.ndim, element)


def _kind_of_array(array: Any, declared: _Kind) -> _Kind:
    """Return the type of an array; the last axes of a host array may be those of elements."""
    shape = tuple(array.shape)
    element = getattr(array, "element_shape", None)
    if element is None:
        axes = len(shape) - len(declared.element)
        shape, element = shape[:axes], shape[axes:]
    return _Kind(dtype_name(array.dtype), len(shape), tuple(element))


def _is_python(value: Any) -> bool:
    """Return whether a type is Python's ``int`` or ``float``; types of NumPy equal these."""
    return value is int or value is float


def dtype_name(dtype: Any) -> str:
    """Return Taichi's name for a dtype of Python, Taichi, NumPy or torch."""
    if _is_python(dtype):
        return runtime.default_types()["default_ip" if dtype is int else "default_fp"]
    text = str(dtype).rpartition(".")[2]
    try:
        return DType.parse(text).value
    except ValueError:
        return text


def _array(kernel: str, name: str, kind: _Kind) -> manifest.Argument:
    assert kind.dtype is not None and kind.ndim is not None
    _check_dtype(kernel, name, kind.dtype)
    if not kind.ndim:
        raise ExportError(kernel, f"{name!r} is an array without axes; take one of one element")
    return manifest.Argument(
        name=name,
        kind="array",
        dtype=kind.dtype,
        shape=tuple(f"{name}_{axis}" for axis in range(kind.ndim)),
        element=kind.element,
        role="inout",
        covered=False,
        inplace=True,
    )


def _dtype_code(kind: _Kind) -> Any:
    assert kind.dtype is not None
    return element_type(kind.element, arrays.primitive(kind.dtype))


def _scalar(kernel: str, name: str, annotation: Any) -> manifest.Argument:
    if not _is_python(annotation) and not isinstance(annotation, type(ti.f32)):
        kind = type(annotation).__name__.removesuffix("Type")
        what = "a " + kind.lower() if kind in ("Vector", "Matrix", "Struct") else f"a {kind}"
        raise ExportError(
            kernel,
            f"{name!r} is {what} by value, which bundles do not pass; take scalars or an array",
        )
    dtype = dtype_name(annotation)
    _check_dtype(kernel, name, dtype)
    return manifest.Argument(name=name, kind="scalar", dtype=dtype)


def _check_dtype(kernel: str, name: str, dtype: str) -> None:
    if dtype not in DType.__members__:
        raise ExportError(
            kernel, f"{name!r} is of {dtype}; bundles take {', '.join(DType.__members__)}"
        )

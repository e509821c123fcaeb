"""Values that a kernel finds in Python, written as the code that makes them again."""

from __future__ import annotations

import builtins
import inspect
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import taichi as ti

from tikgen.dtypes import DType
from tikgen.errors import ExportError
from tikgen.taichi import arrays

# Arrays of more elements belong into arguments: Taichi unrolls whatever reads them.
_MOST_ELEMENTS = 4096
# Where names such as sin and vec3 are looked up.
_KNOWN = {"ti": ti, "ti.math": ti.math, "ti.types": ti.types, "np": np, "math": math}
_PACKAGES = ("taichi", "numpy", "math")

_Vector: Any = type(ti.types.vector(2, ti.f32))
MatrixType: Any = _Vector.__mro__[1]
_Struct: Any = type(ti.types.struct(x=ti.f32))


@dataclass(frozen=True)
class FieldDecl:
    """A field that a kernel uses.

    Attributes:
        name: its name in the text.
        dtype: element type.
        shape: its shape.
        element: shape of each element, of a field of vectors or matrices.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    element: tuple[int, ...] = ()


def unused(wanted: str, taken: set[str]) -> str:
    """Return ``wanted``, or where that is taken ``wanted_2``, ``wanted_3`` and so on."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name


def is_module(value: Any) -> bool:
    """Tell whether ``value`` is a module that any process can import: Taichi's, NumPy's, math."""
    return isinstance(value, types.ModuleType) and value.__name__.split(".")[0] in _PACKAGES


class Writer:
    """Writes values as code, and notes the fields among them, each under one name.

    Args:
        kernel: for whom, for messages.
        scope: global names of that kernel, after which fields are named where they stand there.
    """

    def __init__(self, kernel: str, scope: Mapping[str, Any]) -> None:
        self.kernel = kernel
        self._scope = scope
        self.fields: dict[str, FieldDecl] = {}
        self.sources: dict[str, Any] = {}

    def code(self, value: Any, name: str) -> str | None:
        """Return code that makes ``value`` again, None where there is none.

        Args:
            value: a number, a dtype, a type, a vector, a small array, a field, a name of Taichi's,
                or a tuple, list or dict of these.
            name: what it is called, after which a field is named.

        Raises:
            ExportError: if it is a field that no other process can make, or a huge array.
        """
        if isinstance(value, arrays.TaichiArray):
            return self._field(value, name)
        if type(value) in (tuple, list, dict):
            return self._container(value, name)
        return (
            _number(value) or type_code(value) or self._array(value, name) or _known(value) or None
        )

    def field_name(self, field: Any, wanted: str) -> str:
        """Return the one name of a field: what it is called globally, else ``wanted``.

        Raises:
            ExportError: if it is sparse, of several levels or of structs, has no shape or an
                offset.
        """
        for name, source in self.sources.items():
            if source is field:
                return name
        try:
            dtype, shape, element = arrays.field_layout(field)
        except ValueError as error:
            raise ExportError(self.kernel, f"the field {wanted} {error}") from None
        if dtype not in DType.__members__:
            known = ", ".join(DType.__members__)
            raise ExportError(self.kernel, f"the field {wanted} is of {dtype}; take {known}")
        known_as = next((name for name, value in self._scope.items() if value is field), wanted)
        name = unused(known_as, set(self.fields))
        self.fields[name] = FieldDecl(name, dtype, shape, element)
        self.sources[name] = field
        return name

    def _field(self, value: Any, name: str) -> str:
        if not hasattr(value, "snode"):
            raise ExportError(
                self.kernel,
                f"{name} is a ti.ndarray, which a kernel takes as an argument; pass it as one",
            )
        return f'FIELDS["{self.field_name(value, name)}"]'

    def _container(self, value: Any, name: str) -> str | None:
        self._check_size(len(value), name)
        if isinstance(value, Mapping):
            pairs = [(self.code(k, name), self.code(v, f"{name}_{k}")) for k, v in value.items()]
            if any(None in pair for pair in pairs):
                return None
            return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
        parts = [self.code(item, f"{name}_{index}") for index, item in enumerate(value)]
        if None in parts:
            return None
        inner = ", ".join(map(str, parts))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(parts) == 1 else f"({inner})"

    def _array(self, value: Any, name: str) -> str | None:
        if isinstance(value, ti.Matrix):
            return f"ti.{'Vector' if value.ndim == 1 else 'Matrix'}({_number(value.to_list())})"
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            return None
        self._check_size(value.size, name)
        if not value.size:
            return f"np.zeros({value.shape}, dtype=np.{value.dtype.name})"
        return f"np.array({_number(value.tolist())}, dtype=np.{value.dtype.name})"

    def _check_size(self, size: int, name: str) -> None:
        if size > _MOST_ELEMENTS:
            raise ExportError(
                self.kernel,
                f"{name} holds {size} elements, which would be unrolled; pass an array as an "
                f"argument, or take at most {_MOST_ELEMENTS}",
            )


def _number(value: Any) -> str | None:
    """Return a number, a text, None or nested lists of them as code."""
    if value is None or isinstance(value, bool) or type(value) is str:
        return repr(value)
    if isinstance(value, np.generic):
        plain = value.item()
        return f"np.{value.dtype.name}({_number(plain)})" if value.dtype.kind in "biuf" else None
    if isinstance(value, int):
        return int.__repr__(value)  # Also of an IntEnum.
    if isinstance(value, float):
        return float.__repr__(value) if math.isfinite(value) else f'float("{float(value)}")'
    if isinstance(value, range):
        return repr(value)
    if type(value) is list:
        return "[" + ", ".join(str(_number(item)) for item in value) + "]"
    return None


def type_code(value: Any) -> str | None:
    """Return one of Taichi's types as code: a dtype, a vector, a matrix, a struct, an array."""
    if isinstance(value, MatrixType):
        inner = None if value.dtype is None else type_code(value.dtype)
        if isinstance(value, _Vector):
            return f"ti.types.vector({value.n}, {inner})"
        return f"ti.types.matrix({value.n}, {value.m}, {inner})"
    if isinstance(value, _Struct):
        members = {name: type_code(member) for name, member in value.members.items()}
        if value.methods or None in members.values():
            return None
        return f"ti.types.struct({', '.join(f'{n}={m}' for n, m in members.items())})"
    if isinstance(value, ti.types.ndarray):
        return array_code(value.dtype, value.ndim, value.boundary)
    if isinstance(value, ti.template):
        return "ti.template()"
    if isinstance(value, type(ti.f32)) and getattr(ti, str(value), None) == value:
        return f"ti.{value}"
    if type(value).__name__ == "RefType":
        return f"ti.ref({type_code(value.tp)})"
    return None


def element_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a vector or matrix type, 0 for each extent that it leaves open."""
    return tuple(n or 0 for n in (value.n, value.m)[: value.ndim])


def array_code(dtype: Any, ndim: int | None, boundary: Any) -> str:
    """Return the annotation of an array argument as code."""
    parts = [] if dtype is None else [f"dtype={type_code(dtype)}"]
    parts += [] if ndim is None else [f"ndim={ndim}"]
    if "UNSAFE" not in str(boundary).upper():
        parts.append(f'boundary="{str(boundary).rpartition(".")[2].lower()}"')
    return f"ti.types.ndarray({', '.join(parts)})"


def _known(value: Any) -> str | None:
    """Return how code names what Taichi, NumPy, math or Python itself offers."""
    name = getattr(value, "__name__", None)
    if not isinstance(name, str):
        return None
    if getattr(builtins, name, None) is value:
        return name
    for prefix, module in _KNOWN.items():
        if getattr(module, name, None) is value and not inspect.ismodule(value):
            return f"{prefix}.{name}"
    return None

"""Kernels and fields made anew from what an export says of them, in a process of tikgen's own."""

from __future__ import annotations

import linecache
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import taichi as ti

from tikgen.aot.exporting.halves import FUNCTIONS
from tikgen.pipeline.loader import entry_of
from tikgen.pipeline.rendering import code_of
from tikgen.taichi import arrays

_ACCESSORS = """\
import taichi as ti

field = FIELDS["field"]


@ti.kernel
def read(array: {annotation}):
    for {indices} in field:
        array[{indices}] = field[{indices}]


@ti.kernel
def write(array: {annotation}):
    for {indices} in field:
        field[{indices}] = array[{indices}]
"""
_WITHOUT_AXES = """\
import taichi as ti

field = FIELDS["field"]


@ti.kernel
def read(array: {annotation}):
    array[0] = field[None]


@ti.kernel
def write(array: {annotation}):
    field[None] = array[0]
"""


def init_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return options of ``ti.init`` that name types, as Taichi takes them."""
    return {name: arrays.primitive(dtype) for name, dtype in options.items()}


def element_type(element: Sequence[int], dtype: Any) -> Any:
    """Return the type of a vector or a matrix."""
    if len(element) == 1:
        return ti.types.vector(element[0], dtype)
    return ti.types.matrix(*element, dtype)


def make_field(said: Mapping[str, Any]) -> Any:
    """Return a new field with the dtype, shape and element that ``said`` tells."""
    dtype, shape, element = arrays.primitive(said["dtype"]), said["shape"], said.get("element", ())
    if not element:
        return ti.field(dtype, tuple(shape))
    if len(element) == 1:
        return ti.Vector.field(element[0], dtype, tuple(shape))
    return ti.Matrix.field(*element, dtype, tuple(shape))


def accessors(said: Mapping[str, Any], field: Any) -> tuple[Any, Any]:
    """Return the kernels that copy a field to an array and back; without axes the array has one."""
    ndim, element, dtype = len(said["shape"]), said.get("element", ()), f"ti.{said['dtype']}"
    if element:
        kind = "vector" if len(element) == 1 else "matrix"
        dtype = f"ti.types.{kind}({', '.join(map(str, element))}, {dtype})"
    text = _ACCESSORS if ndim else _WITHOUT_AXES
    indices = ", ".join("ijklmnop"[:ndim])
    annotation = f"ti.types.ndarray(dtype={dtype}, ndim={max(ndim, 1)})"
    text = text.format(annotation=annotation, indices=indices)
    return tuple(
        load_text(f"{said['name']}.{what}", text, what, {"field": field})
        for what in ("read", "write")
    )


def load_text(name: str, text: str, function: str, fields: Mapping[str, Any]) -> Any:
    """Return the kernel that ``text`` defines: one of its own, never seen with other arguments."""
    filename = f"tikgen-export:{name}:{len(linecache.cache)}"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    module = types.ModuleType("exported")
    # What texts that were loaded live may use as it is; others import it.
    vars(module).update({"ti": ti, "np": np, "tm": ti.math, "FIELDS": dict(fields), **FUNCTIONS})
    exec(code_of(text, filename), vars(module))
    return entry_of(module, function)

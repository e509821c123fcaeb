"""Makes kernels and fields from their descriptions, in the child processes of an export.

Taichi's C library cannot pass scalars of 64 bits: each is passed as two halves of 32 bits.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import taichi as ti

from tikgen.pipeline.loader import entry_of
from tikgen.pipeline.rendering import code_of
from tikgen.taichi import arrays

# Begins the names of the functions that put the halves together, by dtype.
_PREFIX = "tikgen_whole_"
LOW, HIGH = "low", "high"
WIDE = ("i64", "u64", "f64")


@ti.func
def _u64(low, high):  # type: ignore[no-untyped-def]
    return (ti.cast(ti.cast(high, ti.u32), ti.u64) << 32) | ti.cast(ti.cast(low, ti.u32), ti.u64)


@ti.func
def _i64(low, high):  # type: ignore[no-untyped-def]
    return ti.cast(_u64(low, high), ti.i64)


@ti.func
def _f64(low, high):  # type: ignore[no-untyped-def]
    return ti.bit_cast(_u64(low, high), ti.f64)


# Global names of a text that was split.
_WHOLE: Mapping[str, Any] = {
    f"{_PREFIX}u64": _u64,
    f"{_PREFIX}i64": _i64,
    f"{_PREFIX}f64": _f64,
}

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
    """Return options of ``ti.init`` with types in place of their names."""
    return {name: arrays.primitive(dtype) for name, dtype in options.items()}


def element_type(element: Sequence[int], dtype: Any) -> Any:
    """Return the type of a vector or a matrix."""
    if len(element) == 1:
        return ti.types.vector(element[0], dtype)
    return ti.types.matrix(*element, dtype)


def make_field(said: Mapping[str, Any]) -> Any:
    """Return a new field of a given dtype, shape and element."""
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
    """Return a new instance of the kernel that ``text`` defines."""
    filename = f"tikgen-export:{name}:{len(linecache.cache)}"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    module = types.ModuleType("exported")
    # Texts that were loaded live may use these names; others import them.
    vars(module).update({"ti": ti, "np": np, "tm": ti.math, "FIELDS": dict(fields), **_WHOLE})
    exec(code_of(text, filename), vars(module))
    return entry_of(module, function)


def split(text: str, function: str, wide: Mapping[str, str]) -> str:
    """Return the text of a kernel that takes halves for its ``wide`` scalars, dtypes by name."""
    if not wide:
        return text
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            _Splitter(wide).split(node)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


class _Splitter(ast.NodeTransformer):
    def __init__(self, wide: Mapping[str, str]) -> None:
        self._wide = wide

    def split(self, function: ast.FunctionDef) -> None:
        """Make a kernel take halves, and put them together where it uses the scalar."""
        arguments = []
        for argument in function.args.args:
            halves = [argument]
            if argument.arg in self._wide:
                halves = [
                    ast.arg(f"{argument.arg}_{half}", ast.parse("ti.i32", mode="eval").body)
                    for half in (LOW, HIGH)
                ]
            arguments += halves
        function.args.args = arguments
        function.body = [self.visit(statement) for statement in function.body]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a scalar of 64 bits that is read by its two halves, put together."""
        if node.id not in self._wide or not isinstance(node.ctx, ast.Load):
            return node
        halves = f"{node.id}_{LOW}, {node.id}_{HIGH}"
        return ast.parse(f"{_PREFIX}{self._wide[node.id]}({halves})", mode="eval").body

"""Kernels without a template folder: from a text, and element by element from an expression."""

from __future__ import annotations

import ast
import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import create_model

from tikgen.dtypes import DType
from tikgen.errors import ExpressionError, ParameterError, RenderError
from tikgen.expression import Assignments, Expression, Reducing
from tikgen.expression.equations import sympy_text
from tikgen.pipeline.builder import build, kernel_of
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.rendering import Source, Variant, render_variant
from tikgen.taichi import kernels
from tikgen.template.arguments import Argument, Array, Opaque, Role, Scalar
from tikgen.template.base import BUILTIN_FOLDER, Template
from tikgen.template.parameters import (
    Identifier,
    ParameterModel,
    ProblemModel,
    ScheduleModel,
    is_reserved,
    make_model,
    plain,
)
from tikgen.template.reserved import RESERVED

NAME = "one_off"


class OneOff(Template):
    """A kernel from a string."""

    def __init__(self, text: str, problem: type[ParameterModel], name: str = NAME) -> None:
        self.folder = BUILTIN_FOLDER / NAME
        self.name = name
        self.text = text
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.code_fingerprint = ""
        self.Problem = problem  # type: ignore[assignment, misc]

    def arguments(self, p: Any) -> tuple[Argument, ...]:
        """Return nothing: the rendered kernel declares the arguments."""
        return ()

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        """Return every parameter under its own name."""
        return dict(p)


def elementwise(expr: str | Expression | Assignments, dtype: Any = "f32", **params: Any) -> Kernel:
    """Return the kernel that computes ``expr`` at every element: ``build("map", expr=expr, ...)``.

    Args:
        expr: assignments such as ``"z = a*x + y"``, or one expression, whose value is written to
            ``out``. ``rr = sum(r*r)`` is a reduction, whose result has one element. The names a,
            b, c, alpha, beta, gamma and scale are scalars by default.
        dtype: element type of every array and scalar.
        params: further parameters of the template ``map``, such as ``dim`` and ``scalars``.

    Raises:
        ParameterError: if ``expr`` uses unsupported syntax, or a parameter is wrong.
        UnsupportedOnArch: if Taichi runs on an arch that cannot run the kernel.
    """
    return build("map", expr=expr, dtype=dtype, **params)


def reduce(expr: str | Reducing, dtype: Any = "f32", **params: Any) -> Kernel:
    """Return the kernel that reduces arrays in one pass: ``build("map", expr=expr, ...)``.

    Args:
        expr: reductions such as ``"rr = sum(r*r); top = max(abs(r))"``, or one, whose result is
            written to ``out``. Results are arrays of one element.
        dtype: element type of every array and scalar.
        params: further parameters of the template ``map``, such as ``dim`` and ``scalars``.

    Raises:
        ParameterError: if ``expr`` writes to an array, uses unsupported syntax, or a parameter is
            wrong.
        UnsupportedOnArch: if Taichi runs on an arch that cannot run the kernel.
    """
    try:
        program = Reducing.parse(expr)
    except ExpressionError as error:
        raise ParameterError("map", {"expr": f"cannot be used: {error}"}) from None
    for name in program.written:
        problem = f"assigns {name}, which is no reduction such as sum(x); tikgen.elementwise does"
        raise ParameterError("map", {"expr": problem})
    return build("map", expr=program, dtype=dtype, **params)


def update(
    equations: Any, dim: int | None = None, scalars: str | Sequence[str] = (), **params: Any
) -> Kernel:
    """Return the kernel that computes equations over fields: ``build("update", ...)``.

    Args:
        equations: such as ``"u' = u + dt*lap(u)"``, one a line or separated by semicolons; ``u'``
            is the next value of ``u``, the argument ``u_next``. Or equations of SymPy: an ``Eq``,
            a list of them or of pairs (left, right), or a dict.
        dim: number of axes of every array; 2 by default, and for SymPy that of the fields.
        scalars: names that are numbers of a call, such as ``"dt c"``; symbols of SymPy that are
            no fields are numbers without being named here.
        params: further parameters of the template ``update``, such as ``boundary``, ``dtype``,
            ``order`` and ``spacing``.

    Raises:
        ParameterError: if the equations do not fit, with the line quoted, or a parameter is wrong.
        UnsupportedOnArch: if Taichi runs on an arch that cannot run the kernel.
    """
    try:
        read = sympy_text(equations)
    except ExpressionError as error:
        raise ParameterError("update", {"equations": f"cannot be used: {error}"}) from None
    if read is not None:
        equations = read.text
        if dim is not None and read.dim not in (None, dim):
            raise ParameterError("update", {"dim": f"is {dim}, and the fields have {read.dim}"})
        dim = read.dim if dim is None else dim
        named = scalars.replace(",", " ").split() if isinstance(scalars, str) else [*scalars]
        known = {*named, *(params.get("constants") or ())}
        scalars = (*named, *(name for name in read.numbers if name not in known))
        if read.arrays:
            params["types"] = _types(read.arrays, known, params)
    if dim is not None:
        params["dim"] = dim
    return build("update", equations=equations, scalars=scalars, **params)


def _types(arrays: Iterable[str], known: Iterable[str], params: Mapping[str, Any]) -> Any:
    """Return ``types`` with arrays whose names would mean something else without them."""
    own = params.get("dtype", "f32")
    named = {name: "u8" if name == params.get("mask") else own for name in arrays}
    given = {name: dtype for name, dtype in named.items() if name not in {*known}}
    return given | dict(params.get("types") or {})


def from_string(text: str, /, **params: Any) -> Kernel:
    """Return the kernel that a Jinja2 text renders to.

    The text is a Python module that defines one ``@ti.kernel``; it may use ``#%`` statements
    and the shared macros as templates do. Arguments are checked against their annotations; those
    that the kernel only reads may be read-only.

    Args:
        text: the template.
        params: values for its names: numbers, bools, dtypes, identifiers, expressions, or
            tuples of these.

    Raises:
        ParameterError: if a value is of another type, and so could carry code.
        RenderError: if the text is malformed or uses a name that is not given.
        KernelCompileError: if it defines no kernel, or several.
    """
    return kernel_of(source_of(text, params), declared_arguments)


def source_of(text: str, params: Mapping[str, Any], name: str = NAME) -> Source:
    """Return the source that a Jinja2 text renders to; see :func:`from_string`."""
    if not isinstance(text, str) or not text.strip():
        raise RenderError(name, f"takes a non-empty text; got {type(text).__name__}")
    values = {key: _safe(key, value, name) for key, value in params.items()}
    reserved = RESERVED | {"p", "s", "arguments", "workspace"}
    for key in values:
        if key in reserved or is_reserved(key):
            listed = f"{', '.join(sorted(reserved))}, and those of pydantic's models, such as copy"
            raise ParameterError(name, {key: f"has a reserved name; these are {listed}"})
    fields = {key: (_annotation(value), value) for key, value in values.items()}
    model = create_model("Problem", __base__=ProblemModel, **fields)  # type: ignore[call-overload]
    template = OneOff(text, model, name)
    from tikgen.pipeline.jinja_run import names_used  # Jinja2 takes a while to import.

    used = names_used(template)
    for key in values if "p" not in used else ():
        if key not in used:
            raise ParameterError.unknown(name, key, sorted(used))
    problem = make_model(model, values, name)
    return render_variant(Variant(template, problem, ScheduleModel()))


def _safe(name: str, value: Any, template: str) -> Any:
    """Return ``value`` as one of the types that may reach generated code."""
    value = plain(value)
    if value is None or isinstance(value, bool | int | float | DType | Expression):
        return value
    if isinstance(value, tuple):
        return tuple(_safe(name, v, template) for v in value)
    for parse in (DType.parse, Identifier.parse, Expression.parse):
        with contextlib.suppress(ValueError, TypeError, ExpressionError):
            return parse(value)
    takes = "takes a number, a dtype, an identifier, an expression, or a tuple of these"
    raise ParameterError(template, {name: f"{takes}; got {value!r}"})


def _annotation(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple[tuple(_annotation(v) for v in value)]  # type: ignore[misc]
    return type(value)


def declared_arguments(kernel: Any, text: str) -> tuple[Argument, ...]:
    """Return the arguments that the annotations of a ``ti.kernel`` declare."""
    read_only = only_read(text, kernel.__name__)
    elements = kernels.elements_of(kernel)
    found: list[Argument] = []
    for name, kind, dtype, ndim in kernels.kernel_arguments(kernel):
        if kind == "scalar" and dtype in DType.__members__:
            found.append(Scalar(name, DType(dtype)))
        elif kind == "array" and dtype in DType.__members__ and ndim:
            extents = tuple(f"{name}_{axis}" for axis in range(ndim))
            role: Role = "in" if name in read_only else "inout"
            found.append(
                Array(name, DType(dtype), extents, role, covered=False, inplace=True, assumed=True)
            )
        else:
            known = DType(dtype) if kind == "array" and dtype in DType.__members__ else None
            shape, is_template = elements.get(name, ()), kind == "field"
            found.append(Opaque(name, ndim or None, shape, known, is_template))
    return tuple(found)


def only_read(text: str, function: str) -> set[str]:
    """Return the arguments of which the kernel ``function`` only loads elements or the shape."""
    functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
    definition = next(node for node in functions if node.name == function)
    names = {argument.arg for argument in definition.args.args}
    harmless: set[ast.Name] = set()
    written: set[str] = set()
    for node in ast.walk(definition):
        loads = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        if loads or (isinstance(node, ast.Attribute) and node.attr == "shape"):
            assert isinstance(node, ast.Subscript | ast.Attribute)
            if isinstance(node.value, ast.Name):
                harmless.add(node.value)
        elif isinstance(node, ast.Call):  # Functions such as ti.atomic_add write to x[i].
            given = [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
            written |= {_array_of(value) for each in given for value in _elements_of(each)}
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            written.add(_array_of(node))  # Such as x[i].y = 1, which loads x[i].
    used = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and n not in harmless}
    return names - used - written


def _elements_of(node: ast.expr) -> list[ast.expr]:
    """Return the elements of a tuple or a list, however deep, or the expression itself."""
    if isinstance(node, ast.Starred):
        return _elements_of(node.value)
    if isinstance(node, ast.Tuple | ast.List):
        return [found for each in node.elts for found in _elements_of(each)]
    return [node]


def _array_of(node: ast.expr) -> str:
    """Return the array of which an expression may be an element, or an empty string."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            return ""
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""

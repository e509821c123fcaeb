"""Expressions and programs: parsed, checked, and translated to Taichi and NumPy code.

A text is parsed with ``ast`` and converted to a tree of :class:`Node`, which contains only numbers,
names and the allowed operations. All code is printed from that tree, so that no character of a
user's text ever reaches a kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.errors import ExpressionError, near
from tikgen.expression.code import Code, NumpyCode, TaichiCode
from tikgen.expression.constants import fold, fold_assignments
from tikgen.expression.helpers import helper_functions
from tikgen.expression.reader import free_output, parse_assignments, parse_expression
from tikgen.expression.rounding import Bounded, bound, exact, gap, stored
from tikgen.expression.text import Text, once_for_dtype
from tikgen.expression.tree import (
    LITERALS,
    Node,
    folded_problem,
    literal_value,
    suitability_problem,
)
from tikgen.expression.vector_math import vector_functions

NDArray = npt.NDArray[Any]

_MARK = "\x02"  # No name has it.

# Functions that have no value below 0, or for some numbers there.
PARTIAL = frozenset({"log", "log10", "log2", "pow", "sqrt"})
# A power with a literal whole exponent is multiplied out, and is not "pow".
_NO_F64_ON_VULKAN = frozenset(
    {"acos", "asin", "atan2", "cos", "exp", "log", "pow", "sin", "tan", "tanh"}
)


class Expression(Text):
    """One expression over named values, such as ``where(x > 0, a*x, 0)``.

    :meth:`parse` makes one from a text. The constructor takes what a parser has read.

    It may contain ``+ - * / // % **``, comparisons, ``and or not``, ``a if c else b``, for integers
    ``& | ^ ~ << >>``, the constants ``pi`` and ``e``, and the functions ``abs acos acosh asin asinh
    atan atan2 atanh ceil clip cos cosh exp expm1 floor hypot isnan log log10 log1p log2 max min pow
    round sign sin sinh sqrt tan tanh where``. As in NumPy, ``min`` and ``max`` ignore NaN,
    ``round`` rounds halves to even, integers wrap around, the least integer is its own ``abs``,
    integer ``//`` and ``%`` by zero give 0, and those of floats are exact.
    Operations on literals are computed in the dtype of the kernel, and f16 in f32. A constant that
    is infinite or not a number, such as ``1/0``, goes into comparisons, ``where``, ``min`` and
    ``max`` alone, for fast math has no such numbers. Lines may break within parentheses.
    Expressions that differ in white space only are equal.
    """

    __slots__ = ("names", "node")

    node: Node
    names: tuple[str, ...]

    def __init__(self, node: Node) -> None:
        if not isinstance(node, Node):
            problem = "is no tree; tikgen.Expression.parse(text) reads a text"
            raise ExpressionError(str(node)[:60], problem)
        super().__init__(node=node, names=node.names)

    def _printed(self) -> str:
        return Code().number(self.node)

    @classmethod
    def parse(cls, value: str | Expression) -> Expression:
        """Return ``value`` as an expression.

        Raises:
            ExpressionError: if it contains something that is not allowed.
        """
        return value if isinstance(value, Expression) else cls(parse_expression(value))

    def require(self, known: Iterable[str]) -> None:
        """Raise :class:`ExpressionError` if a name is not among ``known``."""
        names = tuple(known)
        for name in self.names:
            if name not in names:
                takes = f"It may use {', '.join(names) or 'none'}"
                problem = f"the name {name!r} is unknown.{near(name, names)} {takes}"
                raise ExpressionError(self.text, problem)

    @once_for_dtype
    def folded(self, dtype: DType) -> Expression:
        """Return the expression with operations on literals computed in ``dtype``.

        Raises:
            ExpressionError: if the expression cannot be computed in ``dtype``.
        """
        _refuse(self, suitability_problem(self.node, dtype))
        node = fold(self.node, dtype.computed.numpy)
        _refuse(self, folded_problem(node, dtype))
        return self._folded_to(node, dtype)

    def _folded_to(self, node: Node, dtype: DType) -> Expression:
        """Return a tree as an expression that is folded already, itself if it has the tree."""
        found = self if node is self.node else Expression(node)
        found._known[Expression.folded.__wrapped__, dtype] = found  # type: ignore[attr-defined]
        return found

    def taichi(self, values: Mapping[str, str], dtype: DType) -> str:
        """Return generated code for the value, a number of ``dtype``.

        Args:
            values: the code for each name, such as ``{"x": "x[i, j]"}``.
            dtype: element type of every name, of every literal and of the result. An f16 is
                computed in f32, and rounded once.

        Raises:
            ExpressionError: if the expression cannot be computed in ``dtype``.
        """
        folded = self.folded(dtype)
        node = folded.node
        if dtype.computed is dtype or node.op == "name":
            return "".join(
                values[part] if is_name else part for is_name, part in folded._parts(dtype)
            )
        if node.op in LITERALS:
            return dtype.literal(float(dtype.numpy.type(literal_value(node))))
        return f"ti.cast({self.term(values, dtype)}, {dtype.taichi})"

    @once_for_dtype
    def _parts(self, dtype: DType) -> list[tuple[bool, str]]:
        """Return generated code in parts, and whether each is a name that other code replaces."""
        marked = {name: f"{_MARK}{name}{_MARK}" for name in self.names}
        parts = TaichiCode(marked, dtype).number(self.node).split(_MARK)
        return [(bool(n % 2), part) for n, part in enumerate(parts)]

    def term(self, values: Mapping[str, str], dtype: DType) -> str:
        """Return generated code for the value as :meth:`taichi` does, an f16 not yet rounded."""
        if dtype.computed is dtype:
            return self.taichi(values, dtype)
        wide = {name: f"widened({code})" for name, code in values.items()}
        return TaichiCode(wide, dtype.computed).number(self.folded(dtype).node)

    def helpers(self, dtype: DType) -> str:
        """Return the definitions of each ``ti.func`` that the code of :meth:`taichi` calls."""
        return helper_functions([self.folded(dtype).node], dtype)

    def numpy_code(self) -> str:
        """Return NumPy code for the value, over its names, ``np`` and ``dtype``.

        ``dtype`` is the scalar type in which the code computes, such as ``np.float64``.
        """
        return NumpyCode().number(self.node)

    def evaluate(self, /, **values: Any) -> NDArray:
        """Return the value for arrays and scalars given by name, computed in their dtype."""
        arrays = _same_dtype(values)
        return _run(self.node, arrays, _shape(arrays))

    def error_bound(
        self,
        values: Mapping[str, Any],
        dtype: DType,
        errors: Mapping[str, Any] | None = None,
    ) -> NDArray:
        """Return a bound on the error of a kernel at each element, by running error analysis.

        The bound is infinite where the value is undetermined, such as next to a pole, and includes
        the other branch where a comparison is undecided (Higham 2002, section 3.3). It holds for
        the value of :meth:`evaluate` in wide precision, folded or not.

        Args:
            values: the arrays and scalars by name.
            dtype: the float dtype of the kernel; integers have no error. The last rounding of an
                f16, which is computed in f32, is not included.
            errors: absolute errors of the values, none by default.
        """
        known = _with_errors(values, dtype, errors)
        folded = self.folded(dtype)
        result = bound(folded.node, known, dtype.computed).spread(_shape(values))
        if folded.node == self.node:
            return result.error
        wide = _wide(values, dtype)
        return result.error + gap(self.evaluate(**wide), folded.evaluate(**wide))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.node,)  # The text may be longer than parse allows.


class Assignments(Text):
    """Assignments such as ``z = a*x + y; w = z*z``, executed in order at every element.

    :meth:`parse` makes them from a text. A semicolon or a line break ends each.
    After its assignment a name refers to the new value,
    which is rounded to f16 if the dtype is f16. A bare expression is assigned to ``out``, or to
    ``out1``, ``out2``, ... if it reads that. ``f(a, b) = a*b`` defines a function, which is written
    out where it is called.

    Attributes:
        assignments: (name, expression) in order.
        inputs: names read before they are assigned, in order of first use.
        outputs: names assigned, in order of first assignment.
    """

    __slots__ = ("_source", "assignments", "inputs", "outputs")

    assignments: tuple[tuple[str, Expression], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _source: str  # What a user wrote, of which errors quote lines; none after pickling.

    def __init__(self, assignments: tuple[tuple[str, Expression], ...]) -> None:
        is_listed = isinstance(assignments, tuple)
        if not is_listed or not all(isinstance(pair, tuple) for pair in assignments):
            problem = "is no tuple of pairs; tikgen.Assignments.parse(text) reads a text"
            raise ExpressionError(str(assignments)[:60], problem)
        inputs: dict[str, None] = {}
        outputs: dict[str, None] = {}
        for name, expression in assignments:
            inputs |= dict.fromkeys(n for n in expression.names if n not in outputs)
            outputs[name] = None
        super().__init__(
            assignments=assignments,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            _source="",
        )

    def _printed(self) -> str:
        return "; ".join(f"{name} = {expression}" for name, expression in self.assignments)

    @classmethod
    def parse(cls, value: str | Assignments | Expression) -> Assignments:
        """Return ``value`` as a program.

        Raises:
            ExpressionError: if it contains something that is not allowed.
        """
        if isinstance(value, Assignments):
            return value
        if isinstance(value, Expression):
            return cls(((free_output(value.node), value),))
        found = cls(tuple((name, Expression(node)) for name, node in parse_assignments(value)))
        object.__setattr__(found, "_source", value)
        return found

    def check(self, dtype: DType) -> None:
        """Raise :class:`ExpressionError` if it cannot be computed in ``dtype``."""
        try:
            self.folded(dtype)
        except ExpressionError:
            if self._source:
                self._read_in(dtype)  # Raises an error that quotes the line.
            raise

    def _read_in(self, dtype: DType) -> None:
        """Read what a user wrote again, and refuse what cannot be computed in ``dtype``."""
        parse_assignments(self._source, dtype)

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name: the inputs, then the other outputs."""
        return tuple(dict.fromkeys(self.inputs + self.outputs))

    @property
    def operations(self) -> int:
        """Return the number of operations for one element."""
        return sum(expression.node.operations for _, expression in self.assignments)

    @property
    def functions(self) -> frozenset[str]:
        """Return the operations in the program, functions by their names."""
        return frozenset().union(*(e.node.kinds for _, e in self.assignments))

    @once_for_dtype
    def folded(self, dtype: DType) -> Assignments:
        """Return the program with operations on literals computed in ``dtype``.

        Names that are assigned a literal are replaced by it.

        Raises:
            ExpressionError: if the program cannot be computed in ``dtype``.
        """
        for _, expression in self.assignments:
            _refuse(expression, suitability_problem(expression.node, dtype))
        nodes = [(name, expression.node) for name, expression in self.assignments]
        folded = fold_assignments(nodes, dtype.computed.numpy, dtype.numpy)
        found = []
        for (name, expression), (_, node) in zip(self.assignments, folded, strict=True):
            _refuse(expression, folded_problem(node, dtype))
            found.append((name, expression._folded_to(node, dtype)))
        return Assignments(tuple(found))

    @once_for_dtype
    def helpers(self, dtype: DType) -> str:
        """Return the definitions of each ``ti.func`` that the generated code calls."""
        nodes = [expression.node for _, expression in self.folded(dtype).assignments]
        return helper_functions(nodes, dtype)

    def vector_functions(self, dtype: DType) -> str:
        """Return the definitions of each ``ti.func`` that the code calls in vectors."""
        return vector_functions((e.node for _, e in self.folded(dtype).assignments), dtype)

    def evaluate(self, /, **values: Any) -> dict[str, NDArray]:
        """Return the value of each output, computed by NumPy in the dtype of the inputs."""
        known = _same_dtype(values)
        shape = _shape(known)
        for name, expression in self.assignments:
            known[name] = _run(expression.node, known, shape)
        return {name: known[name] for name in self.outputs}

    def error_bound(
        self,
        values: Mapping[str, Any],
        dtype: DType,
        errors: Mapping[str, Any] | None = None,
    ) -> dict[str, NDArray]:
        """Return a bound on the error of each output; see :meth:`Expression.error_bound`."""
        bounds = self._bounds(values, dtype, errors)
        found = {name: bounds[name].error for name in self.outputs}
        folded = self.folded(dtype)
        if folded == self:
            return found
        wide = _wide(values, dtype)
        one, other = self.evaluate(**wide), folded.evaluate(**wide)
        return {name: error + gap(one[name], other[name]) for name, error in found.items()}

    def masses(self, values: Mapping[str, Any], dtype: DType) -> dict[str, NDArray]:
        """Return how much each output adds to a sum, whose rounding errors it increases.

        It is the magnitude, or where the output is itself a sum, that of its terms times their
        number: fast math may add them to the other sum one by one.
        """
        found = {}
        for name, result in self._bounds(values, dtype, None).items():
            masses = np.abs(result.value) if result.magnitudes is None else result.magnitudes
            found[name] = np.broadcast_to(result.terms * masses, result.value.shape)
        return found

    def _bounds(
        self, values: Mapping[str, Any], dtype: DType, errors: Mapping[str, Any] | None
    ) -> dict[str, Bounded]:
        """Return each name with a bound on its error where it is computed in ``dtype``."""
        known = _with_errors(values, dtype, errors)
        for name, expression in self.folded(dtype).assignments:
            known[name] = stored(bound(expression.node, known, dtype.computed), dtype)
        return {name: known[name].spread(_shape(values)) for name in self.outputs}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.assignments,)


def lacks_on_vulkan(functions: Iterable[str], dtype: DType) -> str | None:
    """Return in words which of the ``functions`` Vulkan lacks in ``dtype``, or None."""
    missing = sorted(_NO_F64_ON_VULKAN.intersection(functions))
    if dtype is not DType.f64 or not missing:
        return None
    return f"{missing[0]} of an f64 does not work there; use dtype='f32', or cpu or cuda"


def _refuse(expression: Expression, problem: str | None) -> None:
    if problem:
        raise ExpressionError(expression.text, problem)


def _same_dtype(values: Mapping[str, Any]) -> dict[str, NDArray]:
    """Return ``values`` in the common dtype of those that have one."""
    typed = [v.dtype for v in values.values() if isinstance(v, np.ndarray | np.generic)]
    common = np.result_type(*(typed or list(values.values()) or [np.float64]))
    return {name: np.asarray(value, common) for name, value in values.items()}


def _shape(values: Mapping[str, Any]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(np.shape(value) for value in values.values()))


def _run(node: Node, values: Mapping[str, NDArray], shape: tuple[int, ...]) -> NDArray:
    dtype = next((v.dtype for v in values.values()), np.dtype(np.float64))
    # NumPy 1 would convert integer scalars to wider types; floats may be wider than Python's.
    code = NumpyCode().number(fold(node, dtype) if dtype.kind in "iu" else node)
    names: dict[str, Any] = {"np": np, "dtype": dtype.type, "__builtins__": {}, **values}
    with np.errstate(all="ignore"):
        result = eval(_compiled(code), names)
    return np.array(np.broadcast_to(result, shape), dtype)


@functools.lru_cache(maxsize=256)
def _compiled(code: str) -> Any:
    return compile(code, "<expression>", "eval")


def _wide(values: Mapping[str, Any], dtype: DType) -> dict[str, NDArray]:
    return {n: np.asarray(v, dtype.numpy).astype(dtype.wide) for n, v in values.items()}


def _with_errors(
    values: Mapping[str, Any], dtype: DType, errors: Mapping[str, Any] | None
) -> dict[str, Bounded]:
    known = {name: exact(np.asarray(value, dtype.numpy), dtype) for name, value in values.items()}
    for name, error in (errors or {}).items():
        known[name] = Bounded(known[name].value, np.asarray(error, dtype.wide))
    return known

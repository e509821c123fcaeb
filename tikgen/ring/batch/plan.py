"""Matches the arguments of a kernel with the fields of messages, before any launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tikgen.buffers import compute_kernel
from tikgen.buffers.array_problems import problem_with
from tikgen.dtypes import DType
from tikgen.errors import TaichiNotInitialised
from tikgen.pipeline.kernel import Kernel
from tikgen.ring.errors import ColumnError, InvalidConfigurationError
from tikgen.ring.messages.base import RingKernelMessage
from tikgen.ring.messages.columns import Column, columns_of
from tikgen.ring.messages.rules import is_integer, is_real
from tikgen.taichi import kernels, runtime
from tikgen.template.arguments import Argument, Array, Opaque, Scalar, split_extent
from tikgen.units import counted


@dataclass(frozen=True)
class Plan:
    """The columns that a kernel reads and writes.

    Attributes:
        arguments: of the kernel, in order; empty for a function.
        inputs: the columns of the input type.
        outputs: the columns of the output type.
        is_function: whether the kernel is a Python function of columns.
        is_plain: whether it is a ``ti.kernel``, which does not check its arguments.
    """

    arguments: tuple[Argument, ...]
    inputs: tuple[Column, ...]
    outputs: tuple[Column, ...]
    is_function: bool
    is_plain: bool

    @property
    def only_written(self) -> tuple[Column, ...]:
        """Return the columns of the output that are no columns of the input."""
        if self.is_function:
            return ()
        taken = {column.name for column in self.inputs}
        return tuple(column for column in self.outputs if column.name not in taken)

    def is_written(self, name: str) -> bool:
        """Return whether the kernel may write to a column."""
        array = self._array(name)
        return self.is_function or array is None or array.written

    def is_covered(self, name: str) -> bool:
        """Return whether the kernel writes every element of a column before it reads it."""
        array = self._array(name)
        return array is not None and array.role == "out" and array.covered

    def _array(self, name: str) -> Array | None:
        arrays = (a for a in self.arguments if isinstance(a, Array))
        return next((a for a in arrays if a.name == name), None)

    def launch(self, kernel: Any, columns: Mapping[str, Any], constants: Mapping[str, Any]) -> None:
        """Launch the kernel on columns and constants."""
        if self.is_plain and not runtime.is_initialised():
            raise TaichiNotInitialised(getattr(kernel, "__name__", "kernel"))
        values = {**constants, **columns}
        kernel(*(values[argument.name] for argument in self.arguments))


def plan_of(
    kernel: Any, input_type: type[Any], output_type: type[Any], constants: Mapping[str, Any]
) -> Plan:
    """Match a kernel with two message types and constants."""
    inputs = _columns("input_type", input_type)
    outputs = _columns("output_type", output_type)
    is_plain = not isinstance(kernel, Kernel) and kernels.is_kernel(kernel)
    if isinstance(kernel, Kernel):
        arguments = tuple(kernel.signature.arguments)
    elif is_plain:
        arguments = _arguments_of_plain(kernel, {c.name: c for c in (*outputs, *inputs)})
    elif callable(kernel):
        return Plan((), inputs, outputs, is_function=True, is_plain=False)
    else:
        raise InvalidConfigurationError(
            "kernel", kernel, "takes a tikgen.Kernel, a ti.kernel or a function of columns"
        )
    plan = Plan(arguments, inputs, outputs, is_function=False, is_plain=is_plain)
    problems = [
        *_problems_of_scalars(plan, kernel),
        *_problems(plan, constants),
        *(_problems_of_memory(kernel, constants) if is_plain else ()),
        *_problems_of_sizes(plan),
    ]
    if problems:
        raise InvalidConfigurationError(
            "kernel", _Named(kernel), "; ".join(problems) + _names(plan)
        )
    return plan


class _Named:
    """The name of a kernel, as its ``repr``."""

    def __init__(self, kernel: Any) -> None:
        self.name = getattr(kernel, "name", None) or getattr(kernel, "__name__", "kernel")

    def __repr__(self) -> str:
        return str(self.name)


def _columns(parameter: str, message_type: Any) -> tuple[Column, ...]:
    if not (isinstance(message_type, type) and issubclass(message_type, RingKernelMessage)):
        raise InvalidConfigurationError(
            parameter, message_type, "takes a message type: decorate the class with @message"
        )
    try:
        found = columns_of(message_type)
    except (ColumnError, TypeError) as error:
        raise InvalidConfigurationError(parameter, message_type, str(error)) from error
    if not found:
        raise InvalidConfigurationError(parameter, message_type, "has no field of its own")
    return found


def _arguments_of_plain(kernel: Any, columns: Mapping[str, Column]) -> tuple[Argument, ...]:
    found: list[Argument] = []
    for name, kind, dtype, ndim in kernels.kernel_arguments(kernel):
        column = columns.get(name)
        if kind == "scalar" and dtype in DType.__members__:
            found.append(Scalar(name, DType(dtype)))
        elif kind == "array" and (dtype in DType.__members__ or column is not None):
            known = DType(dtype) if dtype in DType.__members__ else columns[name].dtype
            axes = ndim or (len(column.shape(1)) if column is not None else 1)
            shape = tuple(f"{name}_{axis}" for axis in range(axes))
            found.append(Array(name, known, shape, role="inout", covered=False))
        else:
            found.append(Opaque(name))
    return tuple(found)


def _problems_of_scalars(plan: Plan, kernel: Any) -> list[str]:
    """Return the problem of fields that are scalars of the kernel."""
    scalars = [argument.name for argument in plan.arguments if isinstance(argument, Scalar)]
    fields = [column.name for column in (*plan.inputs, *plan.outputs)]
    both = [repr(name) for name in scalars if name in fields]
    if not both:
        return []
    hint = ""
    if hasattr(getattr(getattr(kernel, "variant", None), "problem", None), "scalars"):
        left = tuple(name for name in scalars if name not in fields)
        hint = f"; with scalars={left!r} the kernel takes arrays of that name"
    noun = "field" if len(both) == 1 else "fields"
    verb = "is a scalar" if len(both) == 1 else "are scalars"
    return [f"{noun} {', '.join(both)} {verb} of the kernel{hint}"]


def _problems(plan: Plan, constants: Mapping[str, Any]) -> list[str]:
    """Return the problems of single names."""
    inputs = {column.name: column for column in plan.inputs}
    outputs = {column.name: column for column in plan.outputs}
    arguments = {argument.name: argument for argument in plan.arguments}
    problems = [
        f"field {name!r} is no array of the kernel"
        for name in (*inputs, *(name for name in outputs if name not in inputs))
        if not isinstance(arguments.get(name), Array | Scalar)
    ]
    problems += [
        f"constant {name!r} is no argument of the kernel"
        if name not in arguments
        else f"constant {name!r} is a field of a message too"
        for name in constants
        if name not in arguments or name in inputs or name in outputs
    ]
    for name, argument in arguments.items():
        column = inputs.get(name) or outputs.get(name)
        if isinstance(argument, Array) and column is not None:
            problems += _problems_of_column(argument, column, name in inputs, name in outputs)
        elif column is not None and isinstance(argument, Scalar):
            continue  # See _problems_of_scalars.
        elif name not in constants:
            what = "scalar" if isinstance(argument, Scalar) else "array"
            problems.append(f"{what} {name!r} is neither a field nor one of the constants")
        else:
            problems += _problems_of_constant(argument, constants[name])
    return problems


def _problems_of_column(array: Array, column: Column, is_input: bool, is_output: bool) -> list[str]:
    name = array.name
    problems = []
    if array.storage == "field":
        problems.append(f"array {name!r} is a ti.field; build the kernel with storage='ndarray'")
    if array.dtype is not column.dtype:
        problem = f"field {name!r} is {column.dtype} and the array is {array.dtype}"
        problems.append(f"{problem}; annotate the field with {array.dtype}")
    if array.ndim != len(column.shape(1)):
        kind = "a vector" if column.length else "a number"
        problems.append(f"field {name!r} is {kind} and the array has {array.ndim} axes")
    if is_output and not array.written:
        problems.append(f"output field {name!r} is an array that the kernel only reads")
    if is_input and array.role == "out":
        problems.append(f"input field {name!r} is an array that the kernel only writes")
    return problems


def _problems_of_constant(argument: Argument, value: Any) -> list[str]:
    name = argument.name
    if isinstance(argument, Scalar):
        dtype = argument.dtype
        fits = is_real(value) if dtype.is_float else is_integer(value)
        if not fits or not (dtype.is_float or dtype.lowest <= value <= dtype.highest):
            return [f"constant {name!r} takes {dtype}; got {value!r:.60}"]
    if isinstance(argument, Array):
        if not hasattr(value, "shape"):
            return [f"constant {name!r} takes an array; got {value!r:.60}"]
        if len(value.shape) != argument.ndim:
            return [
                f"constant {name!r} takes {counted(argument.ndim, 'axis')}; got shape {value.shape}"
            ]
        if isinstance(value, np.ndarray) and value.dtype != argument.dtype.numpy:
            return [f"constant {name!r} takes {argument.dtype}; got {value.dtype}"]
    return []


def _problems_of_memory(kernel: Any, constants: Mapping[str, Any]) -> list[str]:
    """Return why a ``ti.kernel``, which checks nothing, cannot take the arrays of constants."""
    written = compute_kernel.kernel(kernel).written
    return [
        f"constant {name!r} {problem}"
        for name, value in constants.items()
        if (problem := problem_with(name, value, "", name in written))
    ]


def _problems_of_sizes(plan: Plan) -> list[str]:
    """Return the problems of the extents of the arrays that are columns."""
    columns = {column.name: column for column in (*plan.outputs, *plan.inputs)}
    problems: list[str] = []
    lengths: dict[str, tuple[str, int]] = {}
    firsts: dict[str, str] = {}
    for argument in plan.arguments:
        column = columns.get(argument.name)
        if not isinstance(argument, Array) or column is None:
            continue
        if argument.ndim != len(column.shape(1)):
            continue
        symbol, more = split_extent(argument.shape[0])
        if symbol is None or more:
            extent = argument.shape[0]
            problems.append(
                f"array {argument.name!r} has {extent} on its first axis, which has to be one row "
                "a message"
            )
        elif argument.covered or symbol != f"{argument.name}_0":  # Else its size is not declared.
            firsts[argument.name] = symbol
        if not column.length:
            continue
        symbol, more = split_extent(argument.shape[1])
        wanted = more if symbol is None else lengths.get(symbol, ("", column.length - more))[1]
        found = column.length if symbol is None else column.length - more
        if symbol is not None:
            lengths.setdefault(symbol, (argument.name, found))
        if wanted != found:
            other = "" if symbol is None else f", as field {lengths[symbol][0]!r} is"
            problems.append(
                f"field {argument.name!r} has {column.length} numbers and the array takes "
                f"{wanted + (more if symbol is not None else 0)}{other}"
            )
    if len(set(firsts.values())) > 1:
        listed = ", ".join(f"{name}: {symbol}" for name, symbol in firsts.items())
        problems.append(f"the first axes of the arrays have different sizes ({listed})")
    return problems


def _names(plan: Plan) -> str:
    takes, has, gives = (
        ", ".join(map(str, items)) for items in (plan.arguments, plan.inputs, plan.outputs)
    )
    return f". The kernel takes {takes}; the input has {has}; the output has {gives}"

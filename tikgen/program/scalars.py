"""Arithmetic on one-element arrays: assignments as parts of a program, and conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tikgen.dtypes import DType
from tikgen.errors import ProgramError, TikgenError
from tikgen.expression import Assignments, Expression
from tikgen.expression.tree import CONSTANTS
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.builder import build
from tikgen.program.slots import Slots, described, dtype_of
from tikgen.taichi import arrays, runtime

FLAG = "flag"
_Text = TypeVar("_Text", Assignments, Expression)


@dataclass(frozen=True, eq=False)
class Flag:
    """The value of a condition: an array of one element, and on cpu 8 bytes that hold it."""

    array: Any
    memory: Any

    @property
    def holds(self) -> bool:
        """Return whether the condition held when it was last computed."""
        return bool(arrays.to_host(self.array)[0])


def assigned(text: str, slots: Slots) -> BoundKernel:
    """Return the bound kernel of assignments such as ``alpha = rr / pq``.

    Raises:
        ProgramError: if a name is unknown, or is no one-element array or number.
    """
    what = f"the assignment {text!r}"
    if "=" not in re.sub("[=<>!]=", "", text):
        raise ProgramError(f"{what} has no =; write what it changes, as in 'n = n + 1'")
    parsed = _parsed(Assignments, text)
    _constants_in((expression for _, expression in parsed.assignments), what, slots)
    for name in parsed.outputs:
        if name in slots.constants:
            raise ProgramError(f"{what}: {name!r} is a number; only arrays can be assigned")
    return _bound(parsed, what, slots, {})


def condition(text: str, slots: Slots) -> tuple[BoundKernel, Flag]:
    """Return the bound kernel that computes a condition such as ``rr < tol``, and its value.

    Raises:
        ProgramError: if a name is unknown, or is no one-element array or number.
    """
    expression = check_condition(text)
    what = f"the condition {text!r}"
    if FLAG in expression.names:
        raise ProgramError(f"{what}: the name {FLAG!r} is used by the program; choose another")
    used = _constants_in([expression], what, slots)
    if slots.constants.keys() >= set(expression.names):
        told = "".join(f"; {name} is {CONSTANTS[name]:.6g} in every text" for name in used)
        raise ProgramError(f"{what} reads no array, so that it never changes{told}")
    flag = _made_flag(_dtype(expression.names, what, slots))
    parsed = Assignments(((FLAG, expression),))
    return _bound(parsed, what, slots, {FLAG: flag.array}), flag


def check_condition(text: Any) -> Expression:
    """Return the expression of a condition; raise ProgramError if it is none."""
    if not isinstance(text, str):
        raise ProgramError(
            "a condition is a text over one-element arrays and numbers by name, such as "
            f"'rr < 1e-8'; got {type(text).__name__}. Python code runs between steps, with "
            "every=n, call=f"
        )
    return _parsed(Expression, text)


def _parsed(kind: type[_Text], text: str) -> _Text:
    try:
        return kind.parse(text)
    except TikgenError as error:
        raise ProgramError(str(error)) from None


def _dtype(names: tuple[str, ...], what: str, slots: Slots) -> DType:
    """Return the dtype of the arrays of some names."""
    found: dict[str, DType] = {}
    for name in names:
        if name in slots.constants:
            continue
        try:
            number = slots.lookup(name)
        except ProgramError as error:
            raise ProgramError(f"{what}: {error}") from None
        array, held = slots.arrays[number], slots.held.get(number)
        if tuple(array.shape) != (1,):
            shown = f"a field of shape {held.whole_shape}" if held else described(array)
            raise ProgramError(
                f"{what} takes arrays of shape (1,), as reductions write them; {name!r} is {shown}"
            )
        found[name] = dtype_of(array)
    if not found:
        raise ProgramError(f"{what} reads no array, so that it never changes")
    if len(set(found.values())) > 1:
        kinds = ", ".join(f"{name} is {dtype}" for name, dtype in found.items())
        raise ProgramError(f"{what} takes arrays of one dtype; {kinds}")
    return next(iter(found.values()))


def _bound(parsed: Assignments, what: str, slots: Slots, own: dict[str, Any]) -> BoundKernel:
    known = tuple(name for name in parsed.names if name not in own)
    dtype = _dtype(known, what, slots)
    constants = {name: slots.constants[name] for name in parsed.inputs if name in slots.constants}
    given = {n: slots.arrays[slots.lookup(n)] for n in known if n not in constants}
    try:
        kernel = build("map", expr=parsed, dtype=dtype, scalars=tuple(constants))
        return kernel.bind(**given, **constants, **own)
    except TikgenError as error:
        raise ProgramError(f"{what}: {error}") from None


def _constants_in(expressions: Iterable[Expression], what: str, slots: Slots) -> list[str]:
    """Return the names of constants; raise ProgramError for one that may stand for an array."""
    nodes = (node for expression in expressions for node in expression.node.nodes)
    used = list(dict.fromkeys(str(node.value) for node in nodes if node.op == "constant"))
    try:
        for name in used:
            slots.check_constant(name)
    except ProgramError as error:
        raise ProgramError(f"{what}: {error}") from None
    return used


def _made_flag(dtype: DType) -> Flag:
    if runtime.current_arch() != "cpu":
        return Flag(arrays.make_ndarray(dtype.value, (1,)), None)
    memory = np.zeros(1, np.int64)
    return Flag(memory.view(dtype.numpy)[:1], memory)

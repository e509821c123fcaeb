"""Checks and packs the arguments of a call in one function, which is generated for a signature.

It makes every check that :meth:`Rules.check` makes, for the arguments that are met most often:
NumPy arrays, or tensors of torch on the device, and numbers of Python. Where one of them does not
fit, or is of another kind, it returns nothing, and the long way says what is wrong.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.pipeline.loop_steps import FEW_ELEMENTS
from tikgen.pipeline.signature import Signature
from tikgen.template.argument_checks import Check
from tikgen.template.shapes import MOST_ELEMENTS

# Takes the buffer into which the arguments are packed, the fields of scratch arrays by sizes, and
# the arguments. Returns how many bytes the arrays have, or None.
QuickCall = Callable[[Any, dict[tuple[int, ...], tuple[Any, ...]], Sequence[Any]], "int | None"]

# Bits of ``flags.num`` of a NumPy array.
_CONTIGUOUS, _WRITEABLE = 0x1, 0x400


def quick_call(
    signature: Signature,
    has_workspace: bool,
    pack_into: Callable[..., None],
    counted: Container[tuple[int, ...]],
    on_device: Container[int] | None = None,
) -> QuickCall | None:
    """Return the function, or None if an argument is of a kind that it cannot check.

    Args:
        signature: the arguments.
        has_workspace: whether scratch arrays follow them.
        pack_into: packs the fields of all arguments, and then those of scratch arrays: scalars,
            and extents and address of arrays.
        counted: the sizes of large arrays with which all loops can be counted.
        on_device: addresses that the first device can use, for tensors; None for NumPy arrays.
    """
    checks = [check for check in signature.checks if check is not None]
    if signature.is_opaque or signature.largest:
        return None
    if any(check.takes_field or check.dtype.value == "f16" for check in checks):
        return None
    given = {f"a{n}": check for n, check in enumerate(checks)}
    names: dict[str, Any] = {"pack_into": pack_into, "counted": counted, "on_device": on_device}
    names |= _names_of_numpy(given) if on_device is None else _names_of_torch(given)
    if any(value is None for name, value in names.items() if name != "on_device"):
        return None
    begin, find = (_numpy, _at_numpy) if on_device is None else (_torch, _at_torch)
    known: set[int] = set()
    lines = [f"{', '.join(given)}, = values"]
    for name, check in given.items():
        lines += (
            _scalar(name, check)
            if check.is_scalar
            else [*begin(name, check), *_shape(name, check, known), *find(name, check)]
        )
    for i, j in signature.apart:
        lines += _apart(f"a{i}", checks[i], f"a{j}", checks[j])
    sizes = "".join(f"n{n}, " for n in range(len(signature.symbols)))
    arrays = [name for name, check in given.items() if not check.is_scalar]
    fields = [field for name, check in given.items() for field in _fields(name, check)]
    if sizes:
        product = " * ".join(f"n{n}" for n in range(len(signature.symbols)))
        lines.append(f"if {product} >= {FEW_ELEMENTS} and ({sizes}) not in counted: return None")
    if has_workspace:
        lines += [f"work = scratch.get(({sizes}))", "if work is None: return None"]
        fields.append("*work")
    lines += [
        f"pack_into(buffer, 0, {', '.join(fields)})",
        f"return {' + '.join(f'{name}_bytes' for name in arrays) or '0'}",
    ]
    text = "def quick(buffer, scratch, values):\n" + "".join(f"    {line}\n" for line in lines)
    exec(compile(text, "<tikgen: quick call>", "exec", dont_inherit=True), names)
    made: QuickCall = names["quick"]
    return made


def _scalar(name: str, check: Check) -> list[str]:
    if check.is_float:
        # Infinities and NaN differ from themselves by NaN.
        fits = f"({check.lowest!r} <= {name} <= {check.highest!r} or {name} - {name} != 0)"
        is_number = f"(type({name}) is float or type({name}) is int)"
        return [f"if not ({is_number} and {fits}): return None"]
    fits = f"type({name}) is int and {check.lowest} <= {name} <= {check.highest}"
    return [f"if not ({fits}): return None"]


def _names_of_numpy(given: Mapping[str, Check]) -> dict[str, Any]:
    return {
        "ndarray": np.ndarray,
        "addressof": ctypes.addressof,
        "byte_of": ctypes.c_char.from_buffer,
        **{f"{name}_dtype": check.numpy for name, check in given.items()},
    }


def _names_of_torch(given: Mapping[str, Check]) -> dict[str, Any]:
    """Return the names; without torch, or a dtype of it, some are missing."""
    torch = sys.modules.get("torch")
    return {
        "Tensor": getattr(torch, "Tensor", None),
        **{f"{name}_dtype": getattr(torch, c.numpy.name, None) for name, c in given.items()},
    }


def _numpy(name: str, check: Check) -> list[str]:
    flags = _CONTIGUOUS | (_WRITEABLE if check.written else 0)
    return [
        f"if type({name}) is not ndarray or {name}.dtype is not {name}_dtype: return None",
        f"{name}_flags = {name}.flags.num",
        f"if {name}_flags & {flags} != {flags}: return None",
    ]


def _torch(name: str, check: Check) -> list[str]:
    """Return the checks of a tensor; its address tells the device, and sparse ones have none."""
    wrong = [
        f"type({name}) is not Tensor",
        f"{name}.dtype is not {name}_dtype",
        f"not {name}.is_contiguous()",
        f"{name}.requires_grad",
        f"{name}.is_neg()",
    ]
    return [f"if {' or '.join(wrong)}: return None"]


def _shape(name: str, check: Check, known: set[int]) -> list[str]:
    """Return the checks of a shape; ``known`` are the size symbols met so far."""
    extents = [f"{name}_{axis}" for axis in range(check.ndim)]
    lines = [
        f"{name}_shape = {name}.shape",
        f"if len({name}_shape) != {check.ndim}: return None",
        f"{', '.join(extents)}, = {name}_shape",
    ]
    for extent, (symbol, more) in zip(extents, check.extents, strict=True):
        if symbol < 0:
            lines.append(f"if {extent} != {more}: return None")
        elif symbol in known:
            lines.append(f"if {extent} != n{symbol} + {more}: return None")
        else:
            known.add(symbol)
            lines.append(f"n{symbol} = {extent} - {more}")
            if more > 0:
                lines.append(f"if n{symbol} < 1: return None")
    return [
        *lines,
        f"{name}_count = {' * '.join(extents)}",
        f"if not 0 < {name}_count <= {MOST_ELEMENTS}: return None",
        f"{name}_bytes = {name}_count * {check.numpy.itemsize}",
    ]


def _at_numpy(name: str, check: Check) -> list[str]:
    address = f"addressof(byte_of({name}))"
    if not check.written:  # A buffer cannot be taken of what is read-only.
        address += f" if {name}_flags & {_WRITEABLE} else {name}.ctypes.data"
    return [f"{name}_at = {address}"]


def _at_torch(name: str, check: Check) -> list[str]:
    return [f"{name}_at = {name}.data_ptr()", f"if {name}_at not in on_device: return None"]


def _apart(one: str, its: Check, other: str, others: Check) -> list[str]:
    """Return the check that two arrays share no memory, or are the same where that is allowed."""
    shared = f"{one}_at < {other}_at + {other}_bytes and {other}_at < {one}_at + {one}_bytes"
    if its.may_be(others):
        shared += f" and ({one}_at != {other}_at or {one}_shape != {other}_shape)"
    return [f"if {shared}: return None"]


def _fields(name: str, check: Check) -> list[str]:
    if check.is_scalar:
        return [name]
    return [*(f"{name}_{axis}" for axis in range(check.ndim)), f"{name}_at"]

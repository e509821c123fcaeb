"""Runs short pieces of PTX on the host: how many times a loop runs, from sizes and scalars."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tikgen.engines.ptx_text import Instruction, address

Registers = dict[str, int]
_KIND = re.compile(r"[bsu](?:8|16|32|64)$")
_VALUE = re.compile(r"%|-?\d")
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _divided(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _shifted_left(a: int, b: int) -> int:
    return a << min(b, 64)


_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul.lo": operator.mul,
    "mul.wide": operator.mul,
    "div": _divided,
    "rem": lambda a, b: a - b * _divided(a, b),
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": _shifted_left,
    "shr": lambda a, b: a >> min(b, 64),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "mov": operator.pos,
    "neg": operator.neg,
    "abs": abs,
    "not": operator.invert,
}


def can_run(made: Instruction) -> bool:
    """Return whether an instruction is known here."""
    name, _, kind = made.name.rpartition(".")
    if made.guard:
        return False
    if made.name == "ret":
        return True
    if name == "mov" and not _VALUE.match(made.operands[1]):  # The address of something.
        return False
    if kind == "pred":
        return name in ("and", "or", "xor", "not", "mov")
    if not _KIND.match(kind):
        return False
    if name.startswith("setp."):
        return name[5:] in _COMPARISONS and len(made.operands) == 3
    if name.startswith("cvt."):
        return bool(_KIND.match(name[4:]))
    known = ("ld.param", "st.param", "selp", "mad.lo", "mul.hi")
    return name in _BINARY or name in _UNARY or name in known


def run(
    instructions: Sequence[Instruction],
    memory: bytearray,
    special: Mapping[str, int] | None = None,
) -> Registers:
    """Run instructions one after the other; return what the registers hold in the end.

    Args:
        instructions: all of which :func:`can_run`.
        memory: what is passed by value; stores change it.
        special: values of registers such as ``%tid.x``.

    Raises:
        ZeroDivisionError: if they divide by zero.
    """
    held: Registers = dict(special or {})
    for made in instructions:
        if made.name != "ret":
            _step(made, held, memory)
    return held


def value(operand: str, held: Mapping[str, int], kind: str) -> int:
    """Return the value of a register or a number, as a kind such as ``s32`` or ``pred``."""
    found = held[operand] if operand.startswith("%") else int(operand.rstrip("U"), 0)
    return int(bool(found)) if kind == "pred" else _as(kind, found)


def _as(kind: str, number: int) -> int:
    bits = int(kind[1:])
    number &= (1 << bits) - 1
    return number - (1 << bits) if kind[0] == "s" and number >> (bits - 1) else number


def _step(made: Instruction, held: Registers, memory: bytearray) -> None:
    name, _, kind = made.name.rpartition(".")
    result, *sources = made.operands

    def get(index: int, of: str = kind) -> int:
        return value(sources[index], held, of)

    found: Any
    if name == "ld.param":
        start, size = _place(sources[0]), int(kind[1:]) // 8
        found = int.from_bytes(memory[start : start + size], "little", signed=kind[0] == "s")
    elif name == "st.param":
        start, size = _place(result), int(kind[1:]) // 8
        memory[start : start + size] = (get(0) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        return
    elif name.startswith("setp."):
        found = _COMPARISONS[name[5:]](get(0), get(1))
    elif name == "selp":
        found = get(0) if get(2, "pred") else get(1)
    elif name == "mad.lo":
        found = get(0) * get(1) + get(2)
    elif name == "mul.hi":
        found = (get(0) * get(1)) >> int(kind[1:])
    elif name in ("shl", "shr"):
        found = _BINARY[name](get(0), get(1, "u32"))
    elif name.startswith("cvt."):
        held[result] = _as(name[4:], get(0))
        return
    elif name in _UNARY:
        found = 1 - get(0) if (name, kind) == ("not", "pred") else _UNARY[name](get(0))
    else:
        found = _BINARY[name](get(0), get(1))
    if name == "mul.wide":
        kind = f"{kind[0]}{2 * int(kind[1:])}"
    is_truth = kind == "pred" or name.startswith("setp.")
    held[result] = int(bool(found)) if is_truth else _as(kind, found)


def _place(operand: str) -> int:
    found = address(operand)
    assert found is not None
    return found[1]

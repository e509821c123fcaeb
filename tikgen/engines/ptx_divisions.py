"""Divides by multiplication in PTX, where the host knows the divisor.

A loop over the elements of an array finds their indices by divisions by its extents. A GPU has no
instruction for them: loops over three axes were bound by some twenty for each, and took twice the
time of a copy. What a division by a known number takes is a factor and a shift (T. Granlund and
P. Montgomery, Division by Invariant Integers using Multiplication, 1994), which the host computes
once for each launch of other sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tikgen.engines import ptx_text
from tikgen.engines.ptx_text import Instruction, Task

SIZE = 8  # Bytes of a factor and a shift.
_LOADS = ("ld.param.u32", "ld.param.s32", "ld.param.b32")
_DIVISIONS = ("div.s32", "rem.s32")


def divisors(task: Task, known: Collection[int]) -> frozenset[int]:
    """Return where the arguments of a task hold numbers by which it divides.

    Args:
        task: the task.
        known: the places of numbers of 32 bits that the host knows.
    """
    held = _held(task, known)
    return frozenset(held[one.operands[2]] for one in task.instructions if _divides(one, held))


def by_multiplication(task: Task, places: Mapping[int, int]) -> Task:
    """Return a task that multiplies instead.

    Args:
        task: the task.
        places: for each of its divisors, where its arguments hold factor and shift.
    """
    held = _held(task, places)
    if not any(_divides(one, held) for one in task.instructions):
        return task
    param = f"{task.name}_param_0"
    lines = []
    for line in task.text.splitlines():
        made = ptx_text.instruction(line)
        if made is None or not _divides(made, held):
            lines.append(line)
            continue
        place = places[held[made.operands[2]]]
        lines.append(_product(made, f"{param}+{place}", f"{param}+{place + 4}"))
    return task._replace(text="\n".join(lines))


def factor(divisor: int) -> tuple[int, int]:
    """Return factor and shift: |n| * factor >> shift is |n / divisor|, for n of 32 bits."""
    magnitude = abs(divisor)
    if magnitude == 0:  # What a division by it gives is not defined.
        return 0, 0
    shift = 31 + (magnitude - 1).bit_length()
    return -(-(1 << shift) // magnitude), shift


def _held(task: Task, known: Collection[int]) -> dict[str, int]:
    """Return which registers hold a known number throughout a task, and where it is."""
    param = f"{task.name}_param_0"
    found: dict[str, int] = {}
    for made in task.instructions:
        if made.name in _LOADS and not made.guard:
            at = ptx_text.address(made.operands[1])
            if at and at[0] == param and at[1] in known:
                found[made.operands[0]] = at[1]
    set_by = [made.operands[0] for made in task.instructions if made.operands]
    return {name: place for name, place in found.items() if set_by.count(name) == 1}


def _divides(made: Instruction, held: Mapping[str, int]) -> bool:
    return made.name in _DIVISIONS and not made.guard and made.operands[2] in held


def _product(made: Instruction, factor: str, shift: str) -> str:
    """Return the PTX of a division towards zero, or of its remainder, by multiplication."""
    result, number, divisor = made.operands
    if made.name == "rem.s32":
        ending = f"mul.lo.s32 \t%sign, %quotient, {divisor};\n\tsub.s32 \t{result}, {number}, %sign"
    else:
        ending = f"mov.b32 \t{result}, %quotient"
    return f"""\
\t{{ // {made.name} {", ".join(made.operands)}
\t.reg .b32 \t%factor, %shift, %sign, %quotient;
\t.reg .b64 \t%product;
\tld.param.u32 \t%factor, [{factor}];
\tld.param.u32 \t%shift, [{shift}];
\tabs.s32 \t%quotient, {number};
\tmul.wide.u32 \t%product, %quotient, %factor;
\tshr.u64 \t%product, %product, %shift;
\tcvt.u32.u64 \t%quotient, %product;
\txor.b32 \t%sign, {number}, {divisor};
\tshr.s32 \t%sign, %sign, 31;
\txor.b32 \t%quotient, %quotient, %sign;
\tsub.s32 \t%quotient, %quotient, %sign;
\t{ending};
\t}}"""

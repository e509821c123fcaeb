"""A program in words: its parts, one a line, with the names of their arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tikgen.pipeline.bound import BoundKernel
from tikgen.program import parts
from tikgen.program.slots import Slots, is_array
from tikgen.program.team import Team, Work
from tikgen.template.arguments import Array
from tikgen.units import counted

# What stands for an array that has no name, as it is no part of the state.
_SCRATCH = "(scratch)"


def lines(
    listed: tuple[parts.Part, ...], slots: Slots, indent: str = "", *, shared: bool = False
) -> Iterator[str]:
    """Yield a line for each part, those within loops and conditions indented.

    Args:
        listed: the parts.
        slots: the arrays.
        indent: what a line begins with.
        shared: whether only that is meant which is the same on all processes that share a grid.
    """
    inner = f"{indent}    "
    for part in listed:
        match part:
            case str():
                yield f"{indent}{part}"
            case BoundKernel() | parts.Varying() if shared:
                pass  # It takes arrays that each process has for itself.
            case BoundKernel():
                yield f"{indent}{_launch(part, slots, {})}"
            case parts.Varying():
                yield f"{indent}{_launch(part.bound, slots, part.scalars)}"
            case parts.Swap():
                pairs = (f"{_name(a, slots)} <-> {_name(b, slots)}" for a, b in part.pairs)
                yield f"{indent}swap {', '.join(pairs)}"
            case parts.Copy():
                yield f"{indent}copy {_name(part.source, slots)} -> {_name(part.target, slots)}"
            case parts.Composite() if shared:
                yield f"{indent}{part.described}"
            case parts.Composite():
                yield from lines(part.parts, slots, indent)
            case Work():
                yield f"{indent}{part.described([_name(a, slots) for a in part.arrays])}"
            case parts.Loop():
                until = f", until {part.until}" if part.until is not None else ""
                yield f"{indent}{part.times} times{until}:"
                yield from lines(part.parts, slots, inner, shared=shared)
            case parts.When():
                yield f"{indent}when {part.condition}:"
                yield from lines(part.parts, slots, inner, shared=shared)
                if part.otherwise:
                    yield f"{indent}otherwise:"
                    yield from lines(part.otherwise, slots, inner, shared=shared)


def summary(listed: tuple[parts.Part, ...], how: str, team: Team | None) -> str:
    """Return how many parts a program has, what does its steps, and on how many processes."""
    on = f", on {team.size} processes" if team is not None and team.size > 1 else ""
    return f"{counted(len(listed), 'part')} by {how}{on}"


def _launch(bound: BoundKernel, slots: Slots, varying: Any) -> str:
    """Return a launch as ``name(x=u, a=2) -> y=un``."""
    written = {
        argument.name
        for argument in bound.signature.arguments
        if isinstance(argument, Array) and argument.role == "out"
    }
    shown = {}
    for name, value in bound.given.items():
        text = _name(value, slots) or _SCRATCH if is_array(value) else f"{value:.6g}"
        shown[name] = "by step" if name in varying else text
    takes = ", ".join(f"{name}={text}" for name, text in shown.items() if name not in written)
    gives = ", ".join(f"{name}={text}" for name, text in shown.items() if name in written)
    return f"{bound.kernel.name}({takes})" + (f" -> {gives}" if gives else "")


def _name(array: Any, slots: Slots) -> str:
    return slots.name_of(slots.number_of(array, "a part"))

"""Atomic operations in PTX, and the same on registers and among the threads of a warp."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tikgen.engines.ptx_text import Instruction

WARP = 32
_ATOMIC = re.compile(r"atom(?:\.global)?\.(add|min|max)\.([usf](?:32|64))$")
# The loop in which Taichi takes a maximum or a minimum of floats.
_EXTREME = re.compile(
    r"^(?P<label>\$\w+):.*\n(?:\s*//.*\n)*"
    r"\s*ld\.volatile\.(?P<kind>f32|f64)\s+(?P<old>%\w+), (?P<place>\[[^\]]+\]);\n"
    r"\s*setp\.(?P<test>gt|lt)(?:\.ftz)?\.(?P=kind)\s+(?P<is>%p\d+), (?P=old), (?P<value>%\w+);\n"
    r"\s*selp\.(?P=kind)\s+(?P<new>%\w+), (?P=old), (?P=value), (?P=is);\n"
    r"\s*mov\.b(?:32|64)\s+(?P<bits>%\w+), (?P=old);\n"
    r"\s*mov\.b(?:32|64)\s+(?P<newbits>%\w+), (?P=new);\n"
    r"\s*atom\.cas\.b(?:32|64)\s+(?P<found>%\w+), (?P=place), (?P=bits), (?P=newbits);\n"
    r"\s*setp\.ne\.s(?:32|64)\s+(?P<failed>%p\d+), (?P=found), (?P=bits);\n"
    r"\s*@(?P=failed) bra\s+(?P=label);\n",
    re.M,
)
_TESTS = {"max": "gt", "min": "lt"}
# The result of an operation of which nothing takes it.
UNUSED = "%_"
# What an operation begins with: it changes nothing.
_STARTS = {
    ("add", "f32"): "0f80000000",
    ("add", "f64"): "0d8000000000000000",
    ("max", "f32"): "0fFF800000",
    ("max", "f64"): "0dFFF0000000000000",
    ("min", "f32"): "0f7F800000",
    ("min", "f64"): "0d7FF0000000000000",
    ("max", "s32"): str(-(1 << 31)),
    ("max", "s64"): str(-(1 << 63)),
    ("min", "s32"): str((1 << 31) - 1),
    ("min", "s64"): str((1 << 63) - 1),
    ("min", "u32"): str((1 << 32) - 1),
    ("min", "u64"): "-1",
}


class Operation(NamedTuple):
    """An atomic operation: ``add``, ``min`` or ``max``, and the kind of its numbers."""

    name: str
    kind: str

    @property
    def start(self) -> str:
        """Return the number that it leaves as they are with any other."""
        return _STARTS.get(self, "0")

    @property
    def has_order(self) -> bool:
        """Return whether results depend on the order in which numbers come."""
        return self.name == "add" and self.kind[0] == "f"

    @property
    def _is_loop(self) -> bool:
        return self.name != "add" and self.kind[0] == "f"

    def on_register(self, register: str, value: str) -> Iterator[str]:
        """Yield the PTX that does it with a number in a register."""
        if not self._is_loop:
            kind = self.kind.replace("u", "s") if self.name == "add" else self.kind
            yield f"\t{self.name}.{kind} \t{register}, {register}, {value};"
            return
        yield "\t{ .reg .pred %is;"
        yield f"\tsetp.{_TESTS[self.name]}.{self.kind} \t%is, {register}, {value};"
        yield f"\tselp.{self.kind} \t{register}, {register}, {value}, %is; }}"

    def among_warp(self, register: str) -> Iterator[str]:
        """Yield the PTX after which the first thread of a warp has the result of all."""
        halves = ["%low"] if self.kind.endswith("32") else ["%low", "%high"]
        packed = halves[0] if len(halves) == 1 else "{%low, %high}"
        bits = self.kind[1:]
        yield f"\t{{ .reg .{self.kind} %other; .reg .b32 %low, %high;"
        for distance in (16, 8, 4, 2, 1):
            yield f"\tmov.b{bits} \t{packed}, {register};"
            for half in halves:
                yield f"\tshfl.sync.down.b32 \t{half}, {half}, {distance}, 31, -1;"
            yield f"\tmov.b{bits} \t%other, {packed};"
            yield from self.on_register(register, "%other")
        yield "\t}"

    def in_memory(self, place: str, register: str, label: str) -> Iterator[str]:
        """Yield the PTX that does it with a number in memory; ``label`` is a new one."""
        if not self._is_loop:
            yield f"\tred.{self.name}.{self.kind} \t{place}, {register};"
            return
        kind, bits = self.kind, self.kind[1:]
        yield f"\t{{ .reg .{kind} %old, %new; .reg .b{bits} %was, %then, %found; .reg .pred %is;"
        yield f"{label}:"
        yield f"\tld.volatile.{kind} \t%old, {place};"
        yield f"\tsetp.{_TESTS[self.name]}.{kind} \t%is, %old, {register};"
        yield f"\tselp.{kind} \t%new, %old, {register}, %is;"
        yield f"\tmov.b{bits} \t%was, %old;"
        yield f"\tmov.b{bits} \t%then, %new;"
        yield f"\tatom.cas.b{bits} \t%found, {place}, %was, %then;"
        yield f"\tsetp.ne.s{bits} \t%is, %found, %was;"
        yield f"\t@%is bra \t{label};"
        yield "\t}"


def with_extremes(text: str) -> str:
    """Return PTX in which an extreme of floats is an instruction, which there is not, and no loop.

    Its result is :data:`UNUSED`.
    """
    return _EXTREME.sub(_as_instruction, text)


def operation(made: Instruction) -> Operation | None:
    """Return the atomic operation of an instruction, if it is one of those known here."""
    found = _ATOMIC.match(made.name)
    return Operation(found[1], found[2]) if found and not made.guard else None


def _as_instruction(found: re.Match[str]) -> str:
    name = next(name for name, test in _TESTS.items() if test == found["test"])
    label, operands = f"{found['label']}:\n", f"{UNUSED}, {found['place']}, {found['value']}"
    return f"{label}\tatom.{name}.{found['kind']} \t{operands};\n"

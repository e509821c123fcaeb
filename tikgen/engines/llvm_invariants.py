"""Tells LLVM what no store of a kernel changes, so that loops that store can be vectorised.

A kernel finds its arguments through pointers: the context of the launch points to them, and each
array is an address among them. LLVM must assume that any store may change that, as the memory might
be the same. Then a loop that stores reads all addresses again at each turn, and is not vectorised.
Loads of them get a note here: nothing changes them during a launch, and what their addresses lead
to can be read at any time. So a condition in a loop keeps LLVM from nothing.

So do loads of the numbers that tasks pass on, such as the length of a loop, in the bodies of
parallel loops that only read them.
"""

from __future__ import annotations

import re

# Functions that get the context of the launch first: tasks, and what threads run of a parallel
# loop. Real functions get contexts that their callers make.
_FUNCTION = re.compile(
    r"^define (?:(?:dso_local )?void @(?=\w+_kernel_\d+_)|internal void @(?=function_body[.(]))"
    r"([\w.]+)\(ptr (?:\w+ )*(%[\w.]+)[^\n]*\{\n(.*?)^\}",
    re.MULTILINE | re.DOTALL,
)
_LOAD = re.compile(r"^ *(%[\w.]+) = load (.+), ptr (%[\w.]+), align \d+$")
_CAST = re.compile(r"^ *(%[\w.]+) = bitcast ptr (%[\w.]+) to ptr$")
_PLACE = re.compile(r"^ *(%[\w.]+) = getelementptr (.+), ptr (%[\w.]+)(.*)$")
_NAME = re.compile(r"%[\w.]+")
# The field of LLVMRuntime with the numbers that tasks pass on.
TEMPORARIES = 14
# The runtime in a context, and in the runtime those numbers.
_RUNTIME = re.compile(r"%struct\.RuntimeContext(?:\.\d+)?, i64 0, i32 1")
_NUMBERS = re.compile(rf"%struct\.LLVMRuntime(?:\.\d+)?, i64 0, i32 {TEMPORARIES}")
# What a pointer points to that is loaded from a place.
_HELD = {"context": "arguments", "runtime in context": "runtime", "numbers in runtime": "numbers"}
# Nothing changes it; where the address leads, all that the kernel reads there can be read at any
# time, also where a condition keeps it from that; it is a multiple of eight.
_NOTE, _READABLE, _ALIGNED = "!999999", "!999998", "!999997"
_NOTES = f"{_NOTE} = !{{}}\n{_READABLE} = !{{i64 4096}}\n{_ALIGNED} = !{{i64 8}}\n"


def noted(text: str) -> str:
    """Return LLVM text of a kernel, with opaque pointers, with a note on what nothing changes."""
    return _FUNCTION.sub(_with_notes, text) + _NOTES


def _with_notes(function: re.Match[str]) -> str:
    name, context, body = function.groups()
    lines = body.split("\n")
    # What a name points to: the context, the arguments, the runtime, a place in it, or numbers.
    kinds = {context: "context"}
    found: dict[str, list[int]] = {"arguments": [], "numbers": []}
    addresses: set[int] = set()  # Lines that load a pointer to any of them.
    are_numbers_read_only = name.startswith("function_body")
    for at, line in enumerate(lines):
        if place := _PLACE.match(line):
            if (kind := _place_in(kinds.get(place[3]), place)) is not None:
                kinds[place[1]] = kind
        elif cast := _CAST.match(line):
            if cast[2] in kinds:
                kinds[cast[1]] = kinds[cast[2]]
        elif load := _LOAD.match(line):
            kind = kinds.get(load[3])
            if kind is None or (kind in _HELD and load[2] != "ptr"):
                continue
            if kind in _HELD:
                kinds[load[1]] = _HELD[kind]
                addresses.add(at)
            found["numbers" if kind == "numbers" else "arguments"].append(at)
        elif any(kinds.get(used) == "numbers" for used in _NAME.findall(line)):
            are_numbers_read_only = False
    for at in found["arguments"] + (found["numbers"] if are_numbers_read_only else []):
        lines[at] += f", !invariant.load {_NOTE}"
        if at in addresses:
            lines[at] += f", !dereferenceable {_READABLE}, !align {_ALIGNED}"
    head = function[0].removesuffix(body + "}")
    head = head.replace("(ptr ", "(ptr align 8 dereferenceable(32) ", 1)
    return head + "\n".join(lines) + "}"


def _place_in(kind: str | None, place: re.Match[str]) -> str | None:
    """Return what a place points to that lies in something; None where that does not matter."""
    field = f"{place[2].removeprefix('inbounds ')}{place[4]}"
    if kind == "context":
        return "runtime in context" if _RUNTIME.fullmatch(field) else None
    if kind == "runtime":
        return "numbers in runtime" if _NUMBERS.fullmatch(field) else None
    return kind if kind in ("arguments", "numbers") else None

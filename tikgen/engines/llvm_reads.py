"""Tells LLVM which arrays nothing writes during a launch, so that it reads their elements once.

LLVM must assume that any store changes any element. Then the weights of a stencil, or the
velocities of a lattice, are read again for each element; where they take part in an index, no loop
over a row is vectorised.
"""

from __future__ import annotations

import re
from collections.abc import Collection

# The place of an address among the arguments, the address, which is invariant itself, and one that
# is made of it.
_PLACE = re.compile(
    r" *(%[\w.]+) = getelementptr (?:inbounds )?\{.*\}, ptr %[\w.]+, i64 0, i32 (\d+), i32 1$"
)
ADDRESS = re.compile(r" *(%[\w.]+) = load ptr, ptr (%[\w.]+), align \d+, !invariant\.load !\d+$")
DERIVED = re.compile(r" *(%[\w.]+) = (?:getelementptr [^%]*|bitcast )ptr (%[\w.]+)(?=[ ,])")
_LOAD = re.compile(r" *%[\w.]+ = load [^%]*, ptr (%[\w.]+), align \d+$")
_NAME = re.compile(r"%[\w.]+")
# The note differs from that of arguments, whose values are known to be small.
NOTE = "!999996"


def noted(text: str, read: Collection[int]) -> str:
    """Return LLVM text, with opaque pointers and invariant arguments, with notes on elements.

    Args:
        text: the text.
        read: slots of the arrays that are declared to be read only.
    """
    loads: dict[int, set[int]] = {slot: set() for slot in read}
    lines = text.split("\n")
    places: dict[str, int] = {}
    arrays: dict[str, int] = {}
    for at, line in enumerate(lines):
        if line.startswith("define "):
            places, arrays = {}, {}
        elif found := _PLACE.match(line):
            places[found[1]] = int(found[2])
        elif (found := ADDRESS.match(line)) and found[2] in places:
            arrays[found[1]] = places[found[2]]
        elif (found := DERIVED.match(line)) and found[2] in arrays:
            arrays[found[1]] = arrays[found[2]]
        elif (found := _LOAD.match(line)) and found[1] in arrays:
            loads.get(arrays[found[1]], set()).add(at)
        elif arrays:
            for used in _NAME.findall(line):
                if used in arrays:  # It is stored to, or gets another name.
                    loads.pop(arrays[used], None)
    for at in set().union(*loads.values()):
        lines[at] += f", !invariant.load {NOTE}"
    return "\n".join(lines) + f"{NOTE} = !{{}}\n"

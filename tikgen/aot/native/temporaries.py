"""Reads from LLVM text how much of the buffer in which tasks pass numbers on a kernel uses."""

from __future__ import annotations

import re

from tikgen.engines import llvm_invariants

# What lies behind an address: at most a vector of 64 bytes.
_MOST_BYTES = 64
_FIELD = re.compile(
    r"(%[\w.]+) = getelementptr (?:inbounds )?(%struct\.LLVMRuntime(?:\.\d+)?), \2\* %[\w.]+, "
    rf"i64 0, i32 {llvm_invariants.TEMPORARIES}\b"
)
_RESULT = r"(%[\w.]+) = "
_VALUE = r"(?:<\d+ x \w+>|\w+)"


def bytes_used(text: str, most: int) -> int:
    """Return how many bytes of the buffer a kernel may use, ``most`` where that is not clear.

    Args:
        text: the LLVM text that Taichi wrote of it.
        most: bytes of the whole buffer.
    """
    used = [_used(function) for function in re.split(r"^define ", text, flags=re.MULTILINE)]
    found = [size for size in used if size is not None]
    return max(found) if len(found) == len(used) else most


def _used(function: str) -> int | None:
    """Return the bytes that one function uses, or None if that is not clear."""
    # Addresses of the field, then addresses in the buffer with their offsets.
    fields = [match[1] for match in _FIELD.finditer(function)]
    bases: list[tuple[str, int]] = []
    for name in fields:
        for line in _lines_with(name, function):
            if match := re.search(rf"{_RESULT}bitcast i8\*\* {name} to \w+\*\*", line):
                fields.append(match[1])
            elif match := re.search(rf"{_RESULT}load \w+\*, \w+\*\* {name}\b", line):
                bases.append((match[1], 0))
            else:
                return None
    used = 0
    for name, offset in bases:
        used = max(used, offset + _MOST_BYTES)
        for line in _lines_with(name, function):
            at = rf"\* {name}(?:,|$)"
            if match := re.search(rf"{_RESULT}bitcast \w+\* {name} to {_VALUE}\*", line):
                bases.append((match[1], offset))
            elif match := re.search(
                rf"{_RESULT}getelementptr (?:inbounds )?i8, i8\* {name}, i64 (\d+)$", line
            ):
                bases.append((match[1], offset + int(match[2])))
            elif not re.search(rf"= load {_VALUE}, {_VALUE}{at}", line) and not re.search(
                rf"store {_VALUE} (?!{name}\b)[^,]+, {_VALUE}{at}", line
            ):
                return None
    return used


def _lines_with(name: str, function: str) -> list[str]:
    """Return the lines that use a value, other than the one that makes it."""
    use = re.compile(rf"{re.escape(name)}(?![\w.])")
    lines = (line.split(" ;")[0].split(", !")[0].strip() for line in function.splitlines())
    return [line for line in lines if use.search(line) and not line.startswith(f"{name} = ")]

"""Compiles LLVM text that Taichi wrote into an object file for a processor, which may be another.

An object file has two symbols: the function that runs a kernel over a context of Taichi, and the
bytes of the buffer that its tasks pass numbers in. Their names have the digest of all that the code
depends on, and they may occur twice in a program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tikgen.aot.native.targets import Target
from tikgen.aot.native.temporaries import bytes_used
from tikgen.dtypes import DType
from tikgen.engines import argument_struct, direct_cpu, llvm_needs, llvm_text, native

# The file of a module in a native bundle.
OBJECT = "kernel.o"
# What C has, for double and, with an f behind it, for float.
_MATHS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh erf exp exp2 expm1 fabs floor fma fmod log
log10 log1p log2 pow rint round sin sinh sqrt tan tanh trunc
"""
_OF_C = frozenset(name + kind for name in _MATHS.split() for kind in ("", "f"))
# Instructions of one processor in the text of a kernel.
_FOREIGN = re.compile(r"@llvm\.(x86|aarch64)\.|\basm\b")


def kinds_of(arguments: Sequence[dict[str, Any]]) -> list[argument_struct.Kind]:
    """Return dtype and number of axes of arguments as a job describes them.

    The axes of vectors and matrices are part of the code, and are not passed.
    """
    return [
        (DType(a["dtype"]), None if a["kind"] == "scalar" else len(a["shape"])) for a in arguments
    ]


def use_of(arguments: Sequence[dict[str, Any]]) -> argument_struct.ArrayUse | None:
    """Return what a kernel does with its arrays, as a job describes them.

    None is returned if two arrays may be the same, and have shapes that may differ: a call from C
    compares their addresses and sizes.
    """
    arrays = {n: a for n, a in enumerate(arguments) if a["kind"] != "scalar"}
    read = {n for n, array in arrays.items() if array.get("role", "in") == "in"}
    inplace = {n for n in arrays.keys() - read if arrays[n].get("inplace")}
    use = argument_struct.array_use(kinds_of(arguments), read, inplace)
    are_alike = all(arrays[i]["shape"] == arrays[j]["shape"] for i, j in use.same)
    return use if are_alike else None


def object_of(
    text: str,
    kinds: Sequence[argument_struct.Kind],
    use: argument_struct.ArrayUse | None,
    target: Target,
    symbol: str,
) -> bytes:
    """Return the object file of a kernel.

    Args:
        text: the LLVM text that Taichi wrote.
        kinds: dtype and number of axes of each argument, workspace included.
        use: what the kernel does with its arrays, if that is known.
        target: the processor.
        symbol: name of the function.

    Raises:
        ValueError: if the kernel needs Taichi, with the reason; it begins with a verb.
    """
    problem = (
        native.problem()
        or argument_struct.problem(kinds)
        or llvm_needs.problem(text, argument_struct.llvm_type(kinds))
    )
    if not problem and (missing := {*llvm_text.calls(text)} - _OF_C):
        problem = f"calls {', '.join(sorted(missing))}, which C does not have"
    if not problem and not target.is_here and _FOREIGN.search(text):
        problem = "has instructions of the processor of this machine in its text"
    if problem:
        raise ValueError(problem)
    size = bytes_used(text, direct_cpu.TEMPORARY_SIZE)
    run = f"define void @{llvm_text.RUN}(ptr "
    translated = llvm_text.translated(text, use=use, kinds=kinds)
    translated = translated.replace(run, f"define weak_odr hidden void @{symbol}(ptr ")
    translated += f"@{symbol}_temporaries = weak_odr hidden constant i64 {size}\n"
    return native.object_code_for(translated, target.triple, target.cpu, target.features)

"""What LLVM text of a kernel needs of Taichi's runtime: whether it can run without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tikgen.engines.llvm_invariants import TEMPORARIES
from tikgen.engines.llvm_text import tasks

# The fields of LLVMRuntime that a task of a dense kernel reads: thread pool, its function that
# runs a parallel loop, and beside them the buffer of numbers that tasks pass on.
POOL, PARALLEL_FOR = 9, 10
# What code does that has to do with others of them.
_USES = {4: "prints", 7: "uses fields", 15: "draws random numbers"}
_RUNTIME = r"%struct\.LLVMRuntime(?:\.\d+)?"
_CONTEXT = r"%struct\.RuntimeContext(?:\.\d+)?"
_FIELD_OF = r"(%[\w.]+) = getelementptr (?:inbounds )?({0}), \2\* (%[\w.]+), i64 0, i32 (\d+)"
_USE = re.compile(rf"{_RUNTIME}\b")
_FIELD = re.compile(_FIELD_OF.format(_RUNTIME))
_CONTEXT_FIELD = re.compile(_FIELD_OF.format(_CONTEXT) + "$")
# Tasks that were linked may have names of their own for one type.
_RENAMED = re.compile(rf"^(%[\w.]+) = bitcast {_RUNTIME}\*\* (%[\w.]+) to {_RUNTIME}\*\*$")
# A loop that another block enters as well has the runtime of either.
_JOINED = re.compile(rf"^%[\w.]+ = phi {_RUNTIME}\* \[ %[^*]*\]$")
_CALLED = re.compile(r"\bcall [^@]*@([\w.]+)\(")
_LOAD = re.compile(rf"= load ({_RUNTIME})\*, \1\*\* %[\w.]+, align 8$")
_STORE = re.compile(rf"^store ({_RUNTIME})\* %[\w.]+, \1\*\* (%[\w.]+), align 8$")
_FUNCTION = re.compile(r"^define [^@\n]*@([\w.]+)\(([^\n]*)\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(rf"^{_CONTEXT}\* (?:\w+ )*(%[\w.]+)")
_MADE = re.compile(rf"^(%[\w.]+) = alloca {_CONTEXT}, align \d+$")
_CALL = re.compile(
    rf"^(?:tail )?call (?:fastcc )?void @([\w.]+)\({_CONTEXT}\* (?:\w+ )*(%[\w.]+)\)"
)
_ARGUMENTS = re.compile(rf"= bitcast {_CONTEXT}\* (%[\w.]+) to (.+)$")
# LLVM reads neighbouring extents at once.
_NUMBERS = re.compile(r"(?:<\d+ x )?(?:i\d+|float|double)>?\*\*")


def problem(text: str, arguments: str) -> str:
    """Return why the code cannot run without Taichi's runtime, or an empty string.

    Args:
        text: LLVM text of one kernel.
        arguments: the struct of its arguments, as LLVM writes it.
    """
    if not tasks(text):
        return "has no task"
    functions = list(_functions(text))
    inner = _inner(text, functions)
    taken = []
    for function in functions:
        for line in function.lines:
            if why := _problem_of(line, function):
                return why
        taken += [
            kind
            for of, kind in function.arguments
            if of not in function.prepared and (function.name not in inner or of != function.given)
        ]
    known = (f"{arguments}**", "i8*", "i8**")
    strange = [kind for kind in taken if kind not in known]
    if strange and (known[0] not in taken or not all(map(_NUMBERS.fullmatch, strange))):
        return f"takes its arguments as {strange[0]}, and not as {known[0]}"
    return ""


class _Function(NamedTuple):
    """A function of the text.

    Attributes:
        name: its name.
        given: the context that it is given, empty where it is given none.
        lines: its lines, without comments.
        runtimes: for what points to the runtime of a context, the context.
        prepared: contexts that it makes for functions that it calls.
        arguments: what contexts are taken to hold, with the context.
    """

    name: str
    given: str
    lines: tuple[str, ...]
    runtimes: dict[str, str]
    prepared: set[str]
    arguments: list[tuple[str, str]]


def _functions(text: str) -> Iterator[_Function]:
    for name, parameters, body in _FUNCTION.findall(text):
        lines = tuple(line.split(" ;")[0].strip() for line in body.splitlines())
        fields = [found.groups() for found in map(_CONTEXT_FIELD.match, lines) if found]
        runtimes = {pointer: context for pointer, _, context, field in fields if field == "1"}
        for renamed in filter(None, map(_RENAMED.match, lines)):
            runtimes[renamed[1]] = runtimes.get(renamed[2], "")
        made = {found[1] for found in map(_MADE.match, lines) if found}
        stored = {runtimes.get(found[2], "") for found in map(_STORE.match, lines) if found}
        arguments = [(found[1], found[2]) for found in map(_ARGUMENTS.search, lines) if found]
        given = _PARAMETER.match(parameters)
        yield _Function(name, given[1] if given else "", lines, runtimes, made & stored, arguments)


def _inner(text: str, functions: list[_Function]) -> set[str]:
    """Return the functions that are called with contexts which their callers made, and only so.

    They are real functions of Taichi that were not inlined: their arguments are their own.
    """
    calls: dict[str, int] = {}
    for function in functions:
        for call in map(_CALL.match, function.lines):
            if call and call[2] in function.prepared:
                calls[call[1]] = calls.get(call[1], 0) + 1
    return {
        name
        for name, count in calls.items()
        if len(re.findall(rf"@{re.escape(name)}(?![\w.])", text)) == count + 1
    }


def _problem_of(line: str, function: _Function) -> str:
    """Return why a line of a function needs Taichi's runtime, or an empty string."""
    context = _CONTEXT_FIELD.match(line)
    if context is not None and int(context[4]) not in (0, 1, 2):
        return "returns a value"
    if not _USE.search(line):
        return ""
    field = _FIELD.match(line)
    if field is not None:
        used = int(field[4])
        is_known = used in (POOL, PARALLEL_FOR, TEMPORARIES) and line.endswith(f"i32 {used}")
        return "" if is_known else _USES.get(used, f"uses entry {used} of Taichi's runtime")
    if context is not None or any(form.search(line) for form in (_LOAD, _RENAMED, _JOINED)):
        return ""
    # A context for a function that it calls has the same runtime.
    stored = _STORE.match(line)
    if stored is not None and function.runtimes.get(stored[2]) in function.prepared:
        return ""
    if (called := _CALLED.search(line)) is not None:
        return "asserts" if "assert" in called[1] else f"calls {called[1]} of Taichi's runtime"
    return f"uses Taichi's runtime in an unknown way: {line}"

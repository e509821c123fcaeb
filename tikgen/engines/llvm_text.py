"""Reads the LLVM text that Taichi makes of a kernel, and writes it for a current LLVM.

Taichi's LLVM 15 has typed pointers, which LLVM 17 and later do not read. Its functions also name
the processor of Taichi's build, which would keep LLVM from using the one at hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tikgen.engines import llvm_indices, llvm_invariants, llvm_parallel, llvm_reads
from tikgen.engines.argument_struct import ArrayUse, Kind, address_offsets

RUN, IS_HEAVY = "tikgen_run", "tikgen_is_heavy"
# What the text of a kernel ends with whose loops do more than the bytes of its arrays show.
HEAVY = "; many turns an element\n"
_TASK = re.compile(r"^define (?:dso_local )?void @(\w+_kernel_\d+_\w+)\(", re.MULTILINE)
_SIGN_OF_EXTENT = re.compile(r"= and i32 %[\w.]+, -2147483648$", re.MULTILINE)
# How many iterations of a parallel loop a thread takes: an equal part, but 512 at least. Behind it
# the first of them is found by the number of the thread's part, `%2`.
_ITERATIONS = re.compile(
    r"(call i32 @llvm\.smax\.i32\(i32 %[\w.]+, i32 )512\)"
    r"(?=\n *%[\w.]+ = mul (?:nsw |nuw )*i32 %[\w.]+, %2\n)"
)
_TARGETS = re.compile(r'"(?:target-cpu|target-features|tune-cpu|min-legal-vector-width)"="[^"]*"')
# Vectors have 256 bits at most, as Taichi's have: where native.py leaves out a part of AVX-512,
# LLVM 22.1 ends the process at a vector of eight u64 that become floats.
_GROUP = re.compile(r"^(attributes #\d+ = \{)", re.MULTILINE)
_WIDTH = '"min-legal-vector-width"="256" "prefer-vector-width"="256"'
_UNREAD = ("source_filename", "target", ";", "!", "attributes")
_DECLARED = re.compile(r"^declare [^@]*@([\w.]+)\(", re.MULTILINE)
_CLOSING = {"]": "[", ")": "(", "}": "{", ">": "<"}


def tasks(text: str) -> list[str]:
    """Return the names of the functions that Taichi calls in turn to launch the kernel."""
    return _TASK.findall(text)


def calls(text: str) -> list[str]:
    """Return the names of the functions that the code calls and does not have."""
    return [name for name in _DECLARED.findall(text) if not name.startswith("llvm.")]


def translated(
    text: str,
    exact: bool = False,
    use: ArrayUse | None = None,
    kinds: Sequence[Kind] = (),
) -> str:
    """Return the text for a current LLVM, with a function ``tikgen_run`` that runs all tasks.

    A function ``tikgen_is_heavy`` returns whether the text ends with :data:`HEAVY`.

    Each thread takes an equal part of a parallel loop, however few iterations it has.

    Args:
        text: LLVM text of one kernel.
        exact: whether each product is rounded before it is added, and sums stay in Taichi's order.
            Otherwise, where Taichi's fast math allows that, a product and a sum become one
            operation, FMA, and loops are vectorised that Taichi leaves as they are.
        use: what the kernel does with its arrays; None if that is not known.
        kinds: dtype and number of axes of each argument, if that is known.
    """
    is_heavy, names = text.endswith(HEAVY), tasks(text)
    if _SIGN_OF_EXTENT.search(text):
        # Kernels take the sign of an extent for a zero that keeps fast math from reordering sums
        # whose rounding matters. A current LLVM sees through it.
        text = text.replace(" reassoc ", " ")
    elif not exact:
        text = text.replace(" reassoc ", " reassoc contract ")
    # So that threads share few, long iterations as well.
    text = _ITERATIONS.sub(r"\g<1>1)", text)
    text = _GROUP.sub(rf"\g<1> {_WIDTH}", _TARGETS.sub("", text))
    # What is left of a loop that Taichi's LLVM unrolled, in a real function: where LLVM 22.1
    # vectorises it, two of its models of time may disagree, which ends the process.
    text = text.replace("llvm.loop.unroll.disable", "llvm.loop.disable_nonforced")
    text = _with_opaque_pointers(text)
    run = _run(names)
    if not exact:
        text = llvm_invariants.noted(text)
        if use is None:
            text = llvm_indices.widened(text)
        else:
            same = {other for _, other in use.same}
            text = llvm_indices.widened(llvm_reads.noted(text, use.read - same))
            # Turns of loops are independent unless two of these are the same; then copies run.
            matter = llvm_parallel.pairs(text).intersection(use.same)
            copies = llvm_parallel.copies(text, names) if matter else ""
            text = llvm_parallel.noted(text) + copies
            places = address_offsets(kinds)
            run = _run(names, [(places[one], places[other]) for one, other in sorted(matter)])
    return f"{text}{run}define i32 @{IS_HEAVY}() {{\n  ret i32 {int(is_heavy)}\n}}\n"


def _run(names: Sequence[str], same: Sequence[tuple[int, int]] = ()) -> str:
    """Return the function that runs tasks, or their copies if two addresses are the same."""
    calls = [f"  call void @{name}(ptr %context)" for name in names]
    lines = [*calls, "  ret void"]
    if same:
        lines = ["  %arguments = load ptr, ptr %context"]
        for number, pair in enumerate(same):
            for name, offset in zip((f"one{number}", f"other{number}"), pair, strict=True):
                lines += [
                    f"  %at.{name} = getelementptr i8, ptr %arguments, i64 {offset}",
                    f"  %{name} = load ptr, ptr %at.{name}",
                ]
            before = f"%any{number - 1}" if number else "false"
            lines += [
                f"  %same{number} = icmp eq ptr %one{number}, %other{number}",
                f"  %any{number} = or i1 {before}, %same{number}",
            ]
        lines += [
            f"  br i1 %any{len(same) - 1}, label %same, label %apart",
            "apart:",
            *calls,
            "  ret void",
            "same:",
            *(call.replace("(ptr ", f"{llvm_parallel.COPY}(ptr ") for call in calls),
            "  ret void",
        ]
    body = "\n".join(lines)
    return f"define void @{RUN}(ptr %context) {_WIDTH} {{\n{body}\n}}\n"


def _with_opaque_pointers(text: str) -> str:
    lines = []
    for line in text.splitlines():
        at = -1 if line.startswith(_UNREAD) else line.find("*")
        while at >= 0:
            start = _start_of_type(line, len(line[:at].rstrip(" ")) - 1)
            line = f"{line[:start]}ptr{line[at + 1 :]}"
            at = line.find("*")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _start_of_type(line: str, end: int) -> int:
    """Return where the type begins whose last character stands at ``end``."""
    closing = line[end]
    if closing not in _CLOSING:
        while end >= 0 and (line[end].isalnum() or line[end] in '._%-"$'):
            end -= 1
        return end + 1
    depth, at = 0, end
    while True:
        depth += (line[at] == closing) - (line[at] == _CLOSING[closing])
        if depth == 0:
            break
        at -= 1
    if closing != ")":
        return at
    # The type of a function: what it returns stands before the parenthesis.
    return _start_of_type(line, len(line[:at].rstrip(" ")) - 1)

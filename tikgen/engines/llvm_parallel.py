"""Tells LLVM of which loops the turns do not need each other, so that it vectorises them at once.

Taichi's text has comments that say so, see :mod:`tikgen.taichi.loop_marks`. LLVM reads notes: each
load and each store of such a loop belongs to a group, and the branch to the next turn names it.
That is said of elements of arrays and of arguments only: turns share what else is in memory, such
as a vector or a sum of the loop.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator

from tikgen.engines import llvm_reads
from tikgen.taichi.loop_marks import COMMENT

# What the names of functions end with that :func:`copies` makes.
COPY = ".copy"
_COMMENT = re.compile(rf"^{COMMENT} (\d+)((?: \d+)*)$", re.MULTILINE)
_FUNCTION = re.compile(r"^define [^@]*@([\w.]+)\([^\n]*\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"^define [^\n]*(?=\{$)", re.MULTILINE)
_LABEL = re.compile(r"([-$.\w]+):")
_TARGET = re.compile(r"\blabel %([-$.\w]+)")
_ACCESS = re.compile(
    r" *(?:%[\w.]+ = load|store) .*\bptr (%[\w.]+), align \d+(, !invariant\.load )?"
)
_LOOP = re.compile(r", !llvm\.loop !(\d+)")
# Notes are numbered from here; each loop has three.
_FIRST = 1_000_000


def pairs(text: str) -> set[tuple[int, int]]:
    """Return slots of arrays that must not be the same for turns of loops to be independent."""
    found: set[tuple[int, int]] = set()
    for comment in _COMMENT.finditer(text):
        slots = [int(number) for number in comment[2].split()[1:]]
        found.update(zip(slots[::2], slots[1::2], strict=True))
    return found


def copies(text: str, names: Collection[str]) -> str:
    """Return functions of LLVM text again, by other names.

    They run seldom, if ever: LLVM does not optimise them, which takes as long as all else.

    Args:
        text: the text, without notes on loops.
        names: the functions, beside those whose name begins with ``function_body``.
    """
    found = [f for f in _FUNCTION.finditer(text) if f[1] in names or _is_body(f[1])]
    copied = "|".join(re.escape(function[1]) for function in found)
    functions = "".join(_HEAD.sub(r"\g<0>noinline optnone ", f[0], count=1) for f in found)
    return re.sub(rf"@({copied})(?![\w.])", rf"@\1{COPY}", functions)


def noted(text: str) -> str:
    """Return LLVM text, with opaque pointers, with notes on loops of independent turns."""
    numbers = itertools.count(_FIRST, 3)
    notes: list[str] = []

    def changed(function: re.Match[str]) -> str:
        if COMMENT not in function[0]:
            return function[0]
        lines = function[0].split("\n")
        elements = _elements(lines)
        for blocks, latches in _loops(lines):
            number = next(numbers)
            group, accesses, loop = (f"!{number + each}" for each in range(3))
            for at in itertools.chain.from_iterable(blocks):
                access = _ACCESS.match(lines[at])
                if access and (access[2] or access[1] in elements):
                    lines[at] += f", !llvm.access.group {group}"
            known = ""
            for at in latches:
                if found := _LOOP.search(lines[at]):
                    known = _operands(text, found[1])
                lines[at] = _LOOP.sub("", lines[at]) + f", !llvm.loop {loop}"
            notes.append(
                f"{group} = distinct !{{}}\n"
                f'{accesses} = !{{!"llvm.loop.parallel_accesses", {group}}}\n'
                f"{loop} = distinct !{{{loop}{known}, {accesses}}}\n"
            )
        return "\n".join(lines)

    return _FUNCTION.sub(changed, text) + "".join(notes)


def _elements(lines: list[str]) -> set[str]:
    """Return the names of addresses of elements, and of arrays, in a function."""
    found = set()
    for line in lines:
        if address := llvm_reads.ADDRESS.match(line):
            found.add(address[1])
        elif (derived := llvm_reads.DERIVED.match(line)) and derived[2] in found:
            found.add(derived[1])
    return found


def _is_body(name: str) -> bool:
    return name.partition(".")[0] == "function_body"


def _operands(text: str, number: str) -> str:
    """Return what a note on a loop says beside its own number."""
    found = re.search(rf"^!{number} = distinct !{{!{number}(.*)}}$", text, re.MULTILINE)
    return found[1] if found else ""


def _loops(lines: list[str]) -> Iterator[tuple[list[range], list[int]]]:
    """Yield the lines of blocks, and latches, of innermost loops of a function.

    They are those whose turns are known to be independent.
    """
    starts = [1, *(at for at, line in enumerate(lines) if at > 1 and _LABEL.match(line))]
    blocks = [range(*ends) for ends in zip(starts, [*starts[1:], len(lines)], strict=True)]
    numbers = {}
    for block, at in enumerate(starts):
        if label := _LABEL.match(lines[at]):
            numbers[label[1]] = block
    targets = [{name for at in block for name in _TARGET.findall(lines[at])} for block in blocks]
    if not set().union(*targets) <= numbers.keys():
        return
    following = [{numbers[name] for name in names} for names in targets]
    marks = [
        {found.groups() for at in block if (found := _COMMENT.match(lines[at]))} for block in blocks
    ]
    done = set()
    for block, marked in enumerate(marks):
        if not any(known for _, known in marked):
            continue
        header, loop = _innermost(block, following)
        inside = set().union(*(marks[each] for each in loop))
        latches = [blocks[each] for each in loop if header in following[each]]
        ends = [max(at for at in each if lines[at].strip(" }")) for each in latches]
        # A loop within it, or of which nothing is left, has another number.
        if len(inside) != 1 or header in done or not all("  br " in lines[at] for at in ends):
            continue
        done.add(header)
        yield [blocks[each] for each in loop], ends


def _innermost(block: int, following: list[set[int]]) -> tuple[int, set[int]]:
    """Return header and blocks of the innermost loop that a block is in; no blocks if in none.

    Args:
        block: the block.
        following: which blocks may follow each one.
    """
    every, header, loop = following, -1, set[int]()
    while True:
        preceding: list[set[int]] = [set() for _ in following]
        for one, others in enumerate(following):
            for other in others:
                preceding[other].add(one)
        inner = _reached(block, following) & _reached(block, preceding)
        if not inner:
            return header, loop
        outside = (others for one, others in enumerate(every) if one not in inner)
        entered = set().union(*outside) & inner
        if len(entered) != 1:
            return -1, set()
        header, loop = entered.pop(), inner
        within = loop - {header}
        following = [others & within if n in loop else set() for n, others in enumerate(following)]


def _reached(block: int, following: list[set[int]]) -> set[int]:
    """Return the blocks to which a way leads from a block."""
    found: set[int] = set()
    left = {block}
    while left:
        left = set().union(*(following[one] for one in left)) - found
        found |= left
    return found

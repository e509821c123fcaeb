"""Adds up within blocks and warps what the threads of a task add to the same element of an array.

``y[0] += x[i]`` is an atomic addition at each iteration, for which all threads of the device wait
for each other: 60 M of them took 106 ms on an H200, of which the memory needs 0.06. So each thread
has a sum of its own. At the end of a task blocks add up those of their threads, and one thread of
each block adds the result to the element. Where the element is found by an index, as in ``y[i] +=
x[i, j]``, a warp adds up what all its threads add to the same. Minima and maxima are found
likewise. Threads add in any order as it is written.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tikgen.engines import ptx_atomics, ptx_text
from tikgen.engines.ptx_atomics import UNUSED, WARP, Operation
from tikgen.engines.ptx_text import Instruction, Task

_REGISTER = re.compile(r"%\w+")


class _Place(NamedTuple):
    """An element: where the arguments hold the address of its array, and its offset in bytes."""

    array: int
    offset: int


class _Change(NamedTuple):
    """What an instruction does to an element, and with which value."""

    operation: Operation
    place: _Place
    value: str


class _Sum(NamedTuple):
    """What the threads of a task do to one element; its number names registers."""

    operation: Operation
    place: _Place
    number: int

    @property
    def register(self) -> str:
        return f"%tikgen_sum{self.number}"

    @property
    def is_any(self) -> str:
        """Return the predicate that tells whether a thread did it at all."""
        return f"%tikgen_any{self.number}"


def by_blocks(task: Task, addresses: Collection[int], exact: bool) -> Task:
    """Return a task that adds up within blocks, or itself if it adds to no element at one place.

    Args:
        task: the task.
        addresses: where its arguments hold the addresses of arrays.
        exact: whether the order must not matter, as it does for sums of floats.
    """
    names = [made.name for made in task.instructions]
    if task.block % WARP or names.count("ret") != 1 or any(n.startswith("bar") for n in names):
        return task
    lines = ptx_atomics.with_extremes(task.text + "\n").splitlines()
    changes = _changes(lines, _pointers(lines, f"{task.name}_param_0", addresses))
    sums = _sums(changes.values())
    if not sums or (exact and any(place.operation.has_order for place in sums.values())):
        return task
    return task._replace(text="\n".join(_written(task, lines, changes, sums)))


def by_warps(task: Task, exact: bool) -> Task:
    """Return a task whose warps add up what all their threads add to the same element.

    Args:
        task: the task.
        exact: whether the order must not matter, as it does for sums of floats.
    """
    if task.block % WARP:
        return task
    lines = task.text.splitlines()
    every = _uses(lines)
    written: list[str] = []
    for number, line in enumerate(lines):
        made = ptx_text.instruction(line)
        operation = made and ptx_atomics.operation(made)
        if not made or not operation or every[made.operands[0]] > 1:
            written.append(line)
        elif exact and operation.has_order:
            return task
        else:
            written += _among_warp(operation, made, line, number)
    return task if written == lines else task._replace(text="\n".join(written))


def _uses(lines: list[str]) -> Counter[str]:
    """Return how often each register is named."""
    return Counter(name for line in lines for name in _REGISTER.findall(line.split("//")[0]))


def _pointers(lines: list[str], param: str, addresses: Collection[int]) -> dict[str, _Place]:
    """Return the registers that hold the address of an element at one place."""
    found: dict[str, _Place] = {}
    for line in lines:
        made = ptx_text.instruction(line)
        if made is None or made.guard or len(made.operands) < 2:
            continue
        result, source, *more = made.operands
        at = ptx_text.address(source)
        if made.name == "ld.param.u64" and at and at[0] == param and at[1] in addresses:
            found[result] = _Place(at[1], 0)
        elif made.name in ("add.s64", "add.u64") and source in found and more[0].isdigit():
            found[result] = found[source]._replace(offset=found[source].offset + int(more[0]))
    return found


def _changes(lines: list[str], pointers: Mapping[str, _Place]) -> dict[int, _Change]:
    """Return by line what changes elements of arrays that the task does nothing else with."""
    every = _uses(lines)
    found: dict[int, _Change] = {}
    others: set[int] = set()
    for number, line in enumerate(lines):
        made = ptx_text.instruction(line)
        if made is None or made.name.startswith("."):
            continue
        if change := _change(made, pointers, every):
            found[number] = change
        elif not made.operands or made.operands[0] not in pointers:
            used = _REGISTER.findall(" ".join(made.operands))
            others.update(pointers[name].array for name in used if name in pointers)
    return {number: one for number, one in found.items() if one.place.array not in others}


def _change(
    made: Instruction, pointers: Mapping[str, _Place], every: Mapping[str, int]
) -> _Change | None:
    """Return what an instruction does to an element at one place, of which it takes no value."""
    operation = ptx_atomics.operation(made)
    if operation is None:
        return None
    result, place, value = made.operands
    at = ptx_text.address(place)
    if at is None or at[0] not in pointers or (result != UNUSED and every[result] > 1):
        return None
    array, offset = pointers[at[0]]
    return _Change(operation, _Place(array, offset + at[1]), value)


def _sums(changes: Collection[_Change]) -> dict[_Place, _Sum]:
    """Return the sums of elements, none if one of them is changed by several operations."""
    operations: dict[_Place, set[Operation]] = defaultdict(set)
    for change in changes:
        operations[change.place].add(change.operation)
    if any(len(several) > 1 for several in operations.values()):
        return {}
    return {
        place: _Sum(next(iter(operations[place])), place, number)
        for number, place in enumerate(sorted(operations))
    }


def _written(
    task: Task, lines: list[str], changes: Mapping[int, _Change], sums: Mapping[_Place, _Sum]
) -> Iterator[str]:
    """Yield the lines of a task with its sums in registers."""
    is_begun = False
    for number, line in enumerate(lines):
        made = ptx_text.instruction(line)
        if made and not made.name.startswith(".") and not is_begun:
            is_begun = True
            for one in sums.values():
                kind = one.operation.kind
                yield f"\t.reg .{kind} \t{one.register};"
                yield f"\t.reg .pred \t{one.is_any};"
                yield f"\tmov.{kind} \t{one.register}, {one.operation.start};"
                yield f"\tmov.pred \t{one.is_any}, 0;"
        if change := changes.get(number):
            one = sums[change.place]
            yield from one.operation.on_register(one.register, change.value)
            yield f"\tmov.pred \t{one.is_any}, -1;"
        elif made and made.name == "ret":
            yield from _among_block(task, list(sums.values()))
            yield line
        else:
            yield line


def _among_block(task: Task, sums: list[_Sum]) -> Iterator[str]:
    """Yield the end of a task: what the threads of a block have is put together, and added."""
    warps = task.block // WARP
    memory = f"tikgen_{task.name}"
    yield "\t{ // All threads of a block come here."
    yield f"\t.shared .align 8 .b8 {memory}[{8 * warps * len(sums)}];"
    yield "\t.reg .b32 \t%thread, %lane, %start, %at;"
    yield "\t.reg .b64 \t%address;"
    yield "\t.reg .pred \t%first, %any;"
    yield "\tmov.u32 \t%thread, %tid.x;"
    yield f"\tmov.u32 \t%start, {memory};"
    yield "\tshr.u32 \t%at, %thread, 5;"
    yield "\tmad.lo.s32 \t%at, %at, 8, %start;"
    yield "\tand.b32 \t%lane, %thread, 31;"
    yield "\tsetp.eq.u32 \t%first, %lane, 0;"
    for one in sums:
        place = f"[%at+{8 * warps * one.number}]"
        yield from one.operation.among_warp(one.register)
        yield f"\t@%first st.shared.{one.operation.kind} \t{place}, {one.register};"
    yield "\tsetp.eq.u32 \t%first, %thread, 0;"
    for one in sums:
        kind = one.operation.kind
        yield f"\tbar.red.or.pred \t%any, 0, {one.is_any};"
        yield "\tand.pred \t%any, %any, %first;"
        yield f"\t@!%any bra \t$tikgen_end{one.number};"
        yield f"\t{{ .reg .{kind} %other;"
        for warp in range(1, warps):
            yield f"\tld.shared.{kind} \t%other, [%start+{8 * (warps * one.number + warp)}];"
            yield from one.operation.on_register(one.register, "%other")
        yield "\t}"
        yield f"\tld.param.u64 \t%address, [{task.name}_param_0+{one.place.array}];"
        place = f"[%address+{one.place.offset}]"
        yield from one.operation.in_memory(place, one.register, f"$tikgen_again{one.number}")
        yield f"$tikgen_end{one.number}:"
    yield "\t}"


def _among_warp(operation: Operation, made: Instruction, line: str, number: int) -> Iterator[str]:
    """Yield an addition by the first thread of a warp if all add to the same, else by each."""
    _, place, value = made.operands
    at = ptx_text.address(place)
    assert at is not None
    own, end = f"$tikgen_own{number}", f"$tikgen_next{number}"
    yield f"\t{{ .reg .b32 %active, %same, %lane; .reg .pred %all; .reg .{operation.kind} %sum;"
    yield "\tactivemask.b32 \t%active;"
    yield f"\tmatch.all.sync.b64 \t%same|%all, {at[0]}, %active;"
    yield "\tsetp.eq.and.s32 \t%all, %active, -1, %all;"
    yield f"\t@!%all bra \t{own};"
    yield f"\tmov.{operation.kind} \t%sum, {value};"
    yield from operation.among_warp("%sum")
    yield "\tmov.u32 \t%lane, %laneid;"
    yield "\tsetp.ne.u32 \t%all, %lane, 0;"
    yield f"\t@%all bra \t{end};"
    yield from operation.in_memory(place, "%sum", f"$tikgen_again_at{number}")
    yield f"\tbra \t{end};"
    yield f"{own}:"
    yield line
    yield f"{end}:"
    yield "\t}"

"""Reads the PTX that Taichi makes of a kernel, and writes it for launches without Taichi.

Taichi passes to each task a struct of four members: the address of the arguments, the address of
its runtime, a number and the address of a result. Of the runtime a task of a dense kernel uses the
temporaries only: numbers that serial tasks compute from the arguments, such as the end of a loop.
The text written here takes the arguments and the temporaries themselves by value. Then a launch
copies nothing to the device, and the GPU reads them as constants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# Where LLVMRuntime holds the address of the temporaries, and that of the state of random numbers.
_TEMPORARIES, _RANDOM = 32872, 32880
_ENTRY = re.compile(
    r"\.visible \.entry (?P<name>\w+)\(\s*\.param \.align 8 \.b8 (?P<param>\w+)\[32\]\s*\)"
)
_BLOCK = re.compile(r"\.maxntid\s+(\d+), 1, 1")
_CALL = re.compile(r"^\s*(?:@!?%p\d+\s+)?call(?:\.uni)?\b(?:\s*\([^)]*\)\s*,)?\s*([^\s,;]*)", re.M)
# What the code calls and LLVM left as a function, and that it is declared before.
_FUNCTION = re.compile(
    r"^(?:\.(?:visible|weak) )?\.func\s+(?:\([^)]*\)\s*)?(?P<name>[\w$]+)\s*\([^)]*\)"
    r"(?:\s*;|[^;{]*\{.*?^\}$)",
    re.M | re.S,
)
# Of a function that is none of those; comments name blocks such as `function_body`.
_LEFT = re.compile(r"^\s*(?:\.\w+\s+)*\.func\b", re.M)
_INSTRUCTION = re.compile(r"^\s*(?:@(!?%p\d+)\s+)?([a-z][\w.]*)(?:\s+([^;]*))?;")
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
_ADDRESS = re.compile(r"\[([%\w$]+)(?:\+(-?\d+))?\]$")
_REGISTER = re.compile(r"%\w+")
_LOAD = re.compile(r"ld(?:\.global)?(?:\.nc)?((?:\.v[24])?\.[bsuf]\d+)$")
_STORE = re.compile(r"st(?:\.global)?(\.[bsuf]\d+)$")
_SIZE = re.compile(r"(?:\.v([24]))?\.[bsuf](\d+)$")
_LABEL = re.compile(r"^(\$\w+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
# What threads do together, one after the other, or in memory of their own.
_TOGETHER = re.compile(r"(?:bar|barrier|atom|red|shfl|vote|call)\b|\w+\.(?:shared|local)\b")
_WRITES = re.compile(r"st(?:\.global)?(?:\.v[24])?\.[bsuf]\d")
_FEW_STORES = 2
MOST_BYTES = 4096  # That a kernel of PTX 7 takes by value.


class Instruction(NamedTuple):
    """An instruction: the predicate that guards it or an empty string, name, operands."""

    guard: str
    name: str
    operands: tuple[str, ...]


class _Place(NamedTuple):
    """What an address points to: struct, arguments, runtime or temporaries, at an offset."""

    what: str
    offset: int


class Task(NamedTuple):
    """A task in its new form.

    Attributes:
        name: of its entry.
        block: threads in a block.
        text: the PTX of the entry.
        instructions: those of the entry, in order.
        reads: offset and bytes of what it reads of its arguments.
        sets: offsets of the temporaries that it sets. Such a task is no PTX: it stores to
            parameters, and is to be run by the host.
        gets: offsets of the temporaries that it gets.
    """

    name: str
    block: int
    text: str
    instructions: tuple[Instruction, ...]
    reads: frozenset[tuple[int, int]]
    sets: frozenset[int]
    gets: frozenset[int]


def capability(head: str) -> int:
    """Return the compute capability that the head of a text names, times 10."""
    found = re.search(r"^\.target sm_(\d+)", head, re.M)
    return int(found[1]) if found else 0


def iterations(task: Task) -> int:
    """Return how many iterations of a task a thread does best where there are enough for all.

    A short iteration waits for its loads, and several of a thread do so at once: plain loops over
    60 M elements took 0.5 to 0.9 of the time with four, on an H200. Iterations with many stores or
    loops of their own, as of the built-in templates, took up to 1.3 times as long.
    """
    names = [made.name for made in task.instructions]
    stores = sum(bool(_WRITES.match(name)) for name in names)
    is_short = 1 <= stores <= _FEW_STORES and not any(map(_TOGETHER.match, names))
    return 4 if is_short and _loops(task.text) == 1 else 1


def _loops(text: str) -> int:
    """Return to how many places of PTX branches lead back."""
    known: set[str] = set()
    starts: set[str] = set()
    for line in text.splitlines():
        if label := _LABEL.match(line):
            known.add(label[1])
        elif (branch := _BRANCH.search(line)) and branch[1] in known:
            starts.add(branch[1])
    return len(starts)


def instruction(line: str) -> Instruction | None:
    """Return the instruction on a line, if there is one."""
    code = line.split("//")[0]
    found = _INSTRUCTION.match(code)
    if found is None:  # A call goes on in the next lines.
        return Instruction("", "call", ()) if _CALL.match(code) else None
    return Instruction(found[1] or "", found[2], tuple(_OPERAND.findall(found[3] or "")))


def address(operand: str) -> tuple[str, int] | None:
    """Return base and offset of an operand such as ``[%rd1+8]``, or None."""
    found = _ADDRESS.match(operand)
    return (found[1], int(found[2] or 0)) if found else None


def translated(text: str, size: int) -> tuple[str, list[Task]]:
    """Return the head of a text, and its tasks in the order in which they are launched.

    Args:
        text: PTX of one kernel, as Taichi makes it.
        size: bytes of the arguments, of which the temporaries are placed behind.

    Raises:
        ValueError: if a task cannot run without Taichi's runtime, or is of an unknown form.
    """
    text = text.replace("\0", "")
    starts = list(_ENTRY.finditer(text))
    if not starts or len(starts) != text.count(".entry") or text.count(".version") != 1:
        raise ValueError("its PTX is of an unknown form")
    calls = set(_CALL.findall(text))
    if "vprintf" in calls:
        raise ValueError("it prints")
    functions = [found for found in _FUNCTION.finditer(text) if found["name"] in calls]
    defined = {found["name"] for found in functions if found[0].endswith("}")}
    if missing := sorted(calls - defined):
        raise ValueError(f"calls {', '.join(missing)}, which is not in its code")
    text = _FUNCTION.sub("", text)
    if _LEFT.search(text):
        raise ValueError("its PTX is of an unknown form")
    starts = list(_ENTRY.finditer(text))
    head = text[: starts[0].start()] + "\n".join(found[0] for found in functions) + "\n"
    if re.search(r"\.extern \.shared [^;]*\[\]", head):
        raise ValueError("takes more shared memory than a block has without asking")
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return head, [
        _Translation(match, text[match.end() : end], size).task()
        for match, end in zip(starts, ends, strict=True)
    ]


class _Translation:
    """One entry on its way to its new form."""

    def __init__(self, entry: re.Match[str], body: str, size: int) -> None:
        self._name, self._param = entry["name"], entry["param"]
        self._size = size
        self._lines = body.splitlines()
        self._instructions = [instruction(line) for line in self._lines]
        self._places: dict[str, _Place] = {}
        self._reads: set[tuple[int, int]] = set()
        self._sets: set[int] = set()
        self._gets: set[int] = set()

    def task(self) -> Task:
        kind = self._name.rsplit("_kernel_", 1)[-1].partition("_")[2]
        if kind not in ("serial", "range_for"):
            raise ValueError(f"has a task of the kind {kind or self._name}")
        block = _BLOCK.search("\n".join(self._lines))
        if block is None:
            raise ValueError(f"its task {self._name} declares no block")
        while self._find_places():
            pass
        lines = [
            line if made is None else self._rewritten(line, made)
            for line, made in zip(self._lines, self._instructions, strict=True)
        ]
        if self._sets and kind != "serial":
            raise ValueError("passes numbers from a parallel task on to another one")
        # What it passes by value: a multiple of 8 bytes.
        behind = max((offset + 8 for offset in self._sets | self._gets), default=0)
        if self._size + behind > MOST_BYTES:
            raise ValueError(f"takes more than {MOST_BYTES} bytes of arguments")
        found = [instruction(line) for line in lines]
        return Task(
            self._name,
            int(block[1]),
            "\n".join(lines),
            tuple(one for one in found if one is not None),
            frozenset(self._reads),
            frozenset(self._sets),
            frozenset(self._gets),
        )

    def _find_places(self) -> bool:
        """Find registers that hold an address of interest; return whether there were new ones."""
        before = len(self._places)
        for made in self._instructions:
            if made is not None and (place := self._place(made)) is not None:
                self._places.setdefault(made.operands[0], place)
        return len(self._places) > before

    def _place(self, made: Instruction) -> _Place | None:
        """Return what the result of an instruction points to, if it is of interest."""
        _, name, operands = made
        if len(operands) < 2:
            return None
        source = operands[1]
        if name in ("mov.b64", "mov.u64"):
            return _Place("struct", 0) if source == self._param else self._places.get(source)
        if name == "cvta.to.global.u64":
            return self._places.get(source)
        if name in ("add.s64", "add.u64") and len(operands) == 3:
            place = self._places.get(source)
            is_number = re.fullmatch(r"-?\d+", operands[2])
            return (
                _Place(place.what, place.offset + int(operands[2])) if place and is_number else None
            )
        if name not in ("ld.param.u64", "ld.global.u64", "ld.u64"):
            return None
        place = self._pointed(source)
        if place == _Place("runtime", _TEMPORARIES):
            return _Place("temporaries", 0)
        return {
            _Place("struct", 0): _Place("arguments", 0),
            _Place("struct", 8): _Place("runtime", 0),
        }.get(place or _Place("", 0))

    def _pointed(self, operand: str) -> _Place | None:
        found = address(operand)
        if found is None:
            return None
        base, offset = found
        place = _Place("struct", 0) if base == self._param else self._places.get(base)
        return place and _Place(place.what, place.offset + offset)

    def _rewritten(self, line: str, made: Instruction) -> str:
        operands = made.operands
        if made.name.startswith("."):
            return line
        place = self._place(made)
        if place is not None and self._places[operands[0]] == place:
            return ""
        if len(operands) == 2:
            load, store = _LOAD.match(made.name), _STORE.match(made.name)
            guard = f"@{made.guard} " if made.guard else ""
            if load and operands[0] not in self._places and (at := self._pointed(operands[1])):
                offset = self._offset(at, load[1], self._gets)
                return f"\t{guard}ld.param{load[1]} \t{operands[0]}, [{self._param}+{offset}];"
            if (
                store
                and operands[1] not in self._places
                and (at := self._pointed(operands[0]))
                and at.what == "temporaries"
            ):
                offset = self._offset(at, store[1], self._sets)
                return f"\t{guard}st.param{store[1]} \t[{self._param}+{offset}], {operands[1]};"
        used = {*_REGISTER.findall(" ".join(operands)), made.guard}
        if used & self._places.keys() or self._param in " ".join(operands):
            what = self._what(used)
            if made.name.startswith("st.param"):
                raise ValueError(f"calls a function with {what}, as real functions are")
            raise ValueError(f"uses {what} in an unknown way: {' '.join(line.split())}")
        return line

    def _offset(self, place: _Place, kind: str, temporaries: set[int]) -> int:
        """Return where the new parameter holds what a task reads or sets."""
        found = _SIZE.match(kind)
        assert found is not None
        count, size = int(found[1] or 1), int(found[2]) // 8
        if place.what == "arguments":
            self._reads.update((place.offset + n * size, size) for n in range(count))
            return place.offset
        if place == _Place("runtime", _RANDOM):
            raise ValueError("takes random numbers")
        if place.what != "temporaries" or not 0 <= place.offset < MOST_BYTES:
            raise ValueError(f"uses Taichi's {place.what} at {place.offset} in an unknown way")
        temporaries.update(place.offset + n * size for n in range(count))
        return self._size + place.offset

    def _what(self, used: set[str]) -> str:
        kinds = {self._places[name].what for name in used & self._places.keys()}
        if "temporaries" in kinds:
            return "numbers of another task"
        return "Taichi's runtime" if "runtime" in kinds else "its arguments"


def written(head: str, tasks: Sequence[Task], size: int) -> str:
    """Return the PTX of tasks, each of which takes ``size`` bytes."""
    entries = (
        f".visible .entry {task.name}(\n\t.param .align 16 .b8 {task.name}_param_0[{size}]\n)"
        f"{task.text}"
        for task in tasks
    )
    return head + "\n".join(entries)


def until_first_branch(instructions: Sequence[Instruction]) -> Iterator[Instruction]:
    """Yield what a task does before it first decides something, and that branch."""
    for made in instructions:
        yield made
        if made.name.startswith("bra"):
            return

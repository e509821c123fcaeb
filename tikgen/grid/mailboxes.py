"""Messages between processes of one machine: native code copies them through memory they share."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tikgen.engines import native, thread_pool
from tikgen.grid.boxes import Box, Message, in_bytes, size_of
from tikgen.grid.folds import FOLDS
from tikgen.grid.processes import Processes
from tikgen.program.team import Job

# Where the elements of a mailbox begin, and how far apart two mailboxes lie.
_HEAD, _LINE = 128, 64
_PAGE = mmap.PAGESIZE
# How often a process looks for a message before it lets others run, and before it sleeps; those
# that share a processor let others run at once.
_SPINS, _YIELDS = 2000, 20_000
_AXES = 4


def problem(processes: Processes) -> str:
    """Return why processes have no mailboxes, on all of them alike; an empty string if they do."""
    if processes.mailbox_problem is None:
        processes.mailbox_problem = _found_problem(processes)
    return processes.mailbox_problem


def _found_problem(processes: Processes) -> str:
    if not processes.transport.ends_all:
        # One that waits for a process that failed would wait forever.
        return f"{processes.transport.name} ends no processes that wait in native code"
    own = native.problem() or thread_pool.problem()
    if not own and not hasattr(os, "memfd_create"):
        own = "this Python makes no memory that processes share"
    told = processes.all((own, _host()))
    if found := [each for each, _ in told if each]:
        return str(found[0])
    if len({host for _, host in told}) > 1:
        return "the processes run on several machines"
    with _Segment(_PAGE) as segment:
        segment.memory[0] = processes.rank + 1
        places = processes.all(segment.place)
        beside = (processes.rank + 1) % processes.size
        try:
            is_right = _attached(places[beside], _PAGE)[0] == beside + 1
        except OSError:
            is_right = False
        # All have looked once all have said so.
        return "" if all(processes.all(is_right)) else "processes may not share memory here"


def _host() -> str:
    """Return what processes have in common that can share memory."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return f"unknown {os.getpid()}"


class _Segment:
    """Memory that other processes can attach while it is open; it stays as long as it is used.

    It has no name, so that nothing is left when processes are killed.
    """

    def __init__(self, size: int) -> None:
        self._file = os.memfd_create("tikgen")
        os.ftruncate(self._file, size)
        self.memory = _mapped(self._file, size)
        self.place = os.getpid(), self._file

    def __enter__(self) -> _Segment:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def _attached(place: tuple[int, int], size: int) -> Any:
    """Return the memory of another process."""
    process, number = place
    file = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR)
    try:
        return _mapped(file, size)
    finally:
        os.close(file)


def _mapped(file: int, size: int) -> Any:
    return np.frombuffer(mmap.mmap(file, size), np.uint8)


class Mailboxes:
    """The mailboxes of messages that are exchanged again and again; all processes make them.

    Args:
        processes: the processes.
        stages: the messages of this process, those of one stage after the other.
        arrays: the arrays whose boxes they hold.

    Attributes:
        halves: the begin of the exchange, and its end.
    """

    def __init__(
        self, processes: Processes, stages: Sequence[Sequence[Message]], arrays: Sequence[Any]
    ) -> None:
        every = [(stage, message) for stage, part in enumerate(stages) for message in part]
        offsets, size = {}, 0
        for stage, message in every:
            if message.is_sent:
                offsets[stage, message.other, message.tag] = size
                size += _HEAD + -(-size_of(message, arrays) // _LINE) * _LINE
        size = max(_PAGE, size)
        with _Segment(size) as segment:
            known = processes.all((segment.place, size, offsets))
            self._memory = {
                rank: _attached(known[rank][0], known[rank][1])
                for rank in {message.other for _, message in every if not message.is_sent}
            }
            processes.all(None)  # All have attached what they read.
        self._memory[processes.rank] = segment.memory
        self._kept: list[Any] = [arrays]
        functions = []
        for stage, part in enumerate(stages):
            sent: list[list[int]] = []
            received: list[list[int]] = []
            for message in part:
                key = (stage, message.other, message.tag)
                owner = processes.rank
                offset = offsets.get(key, 0)
                if not message.is_sent:
                    owner = message.other
                    offset = known[owner][2][stage, processes.rank, message.tag]
                mailbox = _address(self._memory[owner]) + offset
                boxes = [_described(arrays[n], ranges) for n, ranges in message.pieces]
                listed = sent if message.is_sent else received
                listed.append([mailbox, 0, len(boxes), self._held(boxes)])
            for listed in (sent, received):
                context = [len(listed), self._held(listed), listed is received]
                functions.append((_library().address("exchange"), self._held([context])))
        self.halves = native_job(functions[:1], self), native_job(functions[1:], self)

    def _held(self, rows: list[list[int]]) -> int:
        """Return the address of numbers, which stay there."""
        self._kept.append(np.array(rows, np.int64))
        return _address(self._kept[-1])


def fold(operation: str, values: Sequence[Any], target: Any) -> Job:
    """Return the job that joins one-element arrays in order, and writes the result into one."""
    kind = f"{target.dtype.kind}{8 * target.itemsize}"
    addresses = np.array([_address(value) for value in values], np.int64)
    context = np.array([len(values), _address(addresses), _address(target)], np.int64)
    function = _library().address(f"{operation}_{kind}")
    return native_job([(function, _address(context))], (values, addresses, context, target))


def is_native() -> bool:
    """Return whether native code may copy."""
    return not (native.problem() or thread_pool.problem())


def taking(array: Any, boxes: Sequence[Box], target: Any) -> Job:
    """Return the job that copies boxes of an array one behind the other into another array."""
    rows = np.array([_described(array, box) for box in boxes], np.int64)
    context = np.array([len(boxes), _address(rows), _address(target)], np.int64)
    function = _library().address("take")
    return native_job([(function, _address(context))], (array, rows, context, target))


def native_job(functions: Sequence[tuple[int, int]], kept: Any) -> Job:
    """Return a job of native functions with their contexts.

    Args:
        functions: their addresses, and those of their contexts.
        kept: what has to live as long as the job.
    """
    calls = [
        functools.partial(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function), context)
        for function, context in functions
    ]

    def run() -> None:
        for call in calls:
            call()

    return Job(run, tuple(functions), kept)


def _described(array: Any, ranges: Box) -> list[int]:
    """Return the numbers that describe a box of an array."""
    sizes, counts, starts = in_bytes(array, ranges)
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    first = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    more = [0] * (_AXES - len(sizes) + 1)
    numbers = [*(1 for _ in more), *counts[:-1]], [*more, *strides[:-1]]
    return [_address(array) + first, *numbers[0], *numbers[1], counts[-1]]


def _address(array: Any) -> int:
    return int(array.ctypes.data)


@functools.cache
def _library() -> native.Library:
    text = Path(__file__).with_suffix(".ll").read_text(encoding="utf-8") + FOLDS
    values = {"SPINS": str(_SPINS), "YIELDS": str(_SPINS + _YIELDS)}
    return thread_pool.library_of(text, values, "mailboxes")

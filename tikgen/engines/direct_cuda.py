"""The engine direct-cuda: Taichi's PTX, loaded and launched through the CUDA driver."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tikgen import registry, units
from tikgen.engines import (
    argument_struct,
    cuda_driver,
    ptx_divisions,
    ptx_numbers,
    ptx_sums,
    ptx_text,
)
from tikgen.engines.argument_struct import ArrayUse, Kind
from tikgen.engines.cuda_code import Code, behind
from tikgen.engines.cuda_streams import Graph, current_stream, on_stream, taichi_stream
from tikgen.engines.in_thread import InThread
from tikgen.engines.ptx_text import Instruction

__all__ = ["ARCH", "NAME", "Code", "Graph", "identity", "load", "machine_code", "on_stream"]

NAME, ARCH = "direct-cuda", "cuda"
# Another process has Taichi write the PTX.
IS_TEXT_SLOW = True
# A launch takes less of the host's time at any size, and its results have the same bits.
MOST_BYTES = sys.maxsize
# Both results are copied to the host.
MOST_COMPARED = 1 << 28
# Some of which the process that writes PTX takes for a while.
LEAST_FREE = 4 * 10**9
# The capability of devices whose threads of a warp need not be at the same instruction, times 10.
_SUMS_SINCE = 70


def problem() -> str:
    """Return why it cannot be used on this machine, or an empty string."""
    return cuda_driver.problem()


def identity() -> Mapping[str, str]:
    """Return what machine code depends on beside the kernel: processor and versions."""
    return {"processor": "sm_{}{}".format(*cuda_driver.capability())}


def text_of(kernel: Any, exact: bool = False) -> str:
    """Return the PTX that Taichi makes of a ``ti.kernel``, of which all code is exact."""
    return str(registry.call("kernel_ptx", kernel))


def text_problem(text: str, kinds: Sequence[Kind]) -> str:
    """Return why the code of a kernel cannot run without Taichi, or an empty string.

    Args:
        text: its PTX.
        kinds: dtype and number of axes of each argument.
    """
    if why := argument_struct.problem(kinds):
        return why
    try:
        _, tasks = ptx_text.translated(text, behind(kinds))
    except ValueError as error:
        return str(error)
    known: set[int] = set()
    for task in tasks:
        if why := _layout_problem(task.reads, kinds):
            return why
        if task.sets and not all(map(ptx_numbers.can_run, task.instructions)):
            return "computes how often a loop runs from more than sizes and scalars"
        if known & task.sets:
            return "computes how often a loop runs more than once"
        known |= task.sets
    return "uses a number that no task computes" if any(t.gets - known for t in tasks) else ""


def machine_code(
    text: str,
    kinds: Sequence[Kind],
    exact: bool = False,
    use: ArrayUse | None = None,
) -> bytes:
    """Return PTX for launches without Taichi, and how to launch it, of a text without problem.

    Its instructions are Taichi's but for divisions by extents, and for what the threads of a warp
    add to the same element. Of floats such sums are not ``exact``: their order is another one.
    """
    size = behind(kinds)
    head, tasks = ptx_text.translated(text, size)
    numbers = [task for task in tasks if task.sets]
    launched = [task for task in tasks if not task.sets]
    known = _extents(kinds) | {size + offset for task in numbers for offset in task.sets}
    # Each is of 8 bytes at most.
    size += max((offset + 8 for task in numbers for offset in task.sets), default=0)
    divisors: dict[int, int] = {}
    made, read = [], []
    for task in launched:
        read.append(
            {
                "name": task.name,
                "block": task.block,
                "iterations": ptx_text.iterations(task),
                "head": _head(task),
            }
        )
        if ptx_text.capability(head) >= _SUMS_SINCE:
            task = ptx_sums.by_warps(task, exact)
        for place in sorted(ptx_divisions.divisors(task, known) - divisors.keys()):
            if size + ptx_divisions.SIZE <= ptx_text.MOST_BYTES:
                divisors[place] = size
                size += ptx_divisions.SIZE
        made.append(ptx_divisions.by_multiplication(task, divisors))
    return json.dumps(
        {
            "ptx": ptx_text.written(head, made, size),
            "size": size,
            "numbers": [one for task in numbers for one in task.instructions],
            "divisors": sorted(divisors.items()),
            "tasks": read,
        }
    ).encode()


def begin(text: Callable[[], str], kinds: Sequence[Kind], key: str, name: str) -> InThread:
    """Begin to make the result of :func:`machine_code` in a thread, which waits for the PTX.

    Args:
        text: returns its PTX.
        kinds: dtype and number of axes of each argument.
        key: not used; the caller stores the result.
        name: not used.

    Raises:
        ValueError: if the device has little free memory, which the user's arrays may need.
    """
    if (free := cuda_driver.free_memory()) < LEAST_FREE:
        least = units.size(LEAST_FREE)
        raise ValueError(
            f"the device has {units.size(free)} of free memory, and less than {least} is left to "
            "your arrays: the process that compiles it takes some, too"
        )
    return InThread(lambda: machine_code(text(), kinds))


def wait() -> None:
    """Wait until the device has nothing to do."""
    cuda_driver.wait_for_all()


def _extents(kinds: Sequence[Kind]) -> set[int]:
    """Return where the arguments hold extents of arrays."""
    made = argument_struct.c_type(kinds)
    starts = (getattr(made, f"a{number}").offset for number in range(len(kinds)))
    return {
        start + 4 * axis
        for start, (_, ndim) in zip(starts, kinds, strict=True)
        for axis in range(ndim or 0)
    }


def _layout_problem(reads: frozenset[tuple[int, int]], kinds: Sequence[Kind]) -> str:
    """Return which bytes are read that are no argument's."""
    made = argument_struct.c_type(kinds)
    # Start and end of scalars and of extents, of which parts may be read, and of addresses.
    numbers, addresses = set(), set()
    for number, (_, ndim) in enumerate(kinds):
        field = getattr(made, f"a{number}")
        end = field.offset + field.size
        numbers.add((field.offset, end if ndim is None else field.offset + 4 * ndim))
        if ndim is not None:
            addresses.add((end - 8, end))
    for start, size in sorted(reads):
        part = (start, start + size)
        if part not in addresses and not any(a <= start and part[1] <= b for a, b in numbers):
            return f"reads {size} bytes at {start} of its arguments"
    return ""


def _head(task: ptx_text.Task) -> list[Instruction] | None:
    """Return the start of a task up to where it leaves unless there is work for its thread."""
    found = list(ptx_text.until_first_branch(task.instructions))
    leave = found.pop()
    if not found or not found[-1].name.startswith(("setp.ge.", "setp.gt.")):
        return None
    if found[-1].operands[0] != leave.guard:
        return None
    return found if all(map(ptx_numbers.can_run, found)) else None


def load(machine_code: bytes, kinds: Sequence[Kind], exact: bool = False) -> Code:
    """Load machine code into this process.

    Args:
        machine_code: the result of :func:`machine_code`, of the same :func:`identity`.
        kinds: dtype and number of axes of each argument.
        exact: whether launches go to the stream of Taichi, and not to that of torch.

    Raises:
        DeviceError: if the driver refuses it.
    """
    return Code(json.loads(machine_code), kinds, taichi_stream if exact else current_stream)

"""The engine direct-cuda: Taichi's PTX, loaded and launched through the CUDA driver."""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tikgen import registry
from tikgen.dtypes import DType
from tikgen.engines import argument_struct, cuda_driver, cuda_streams, ptx_numbers, ptx_text
from tikgen.engines.argument_struct import Kind, c_value
from tikgen.engines.cuda_streams import Graph, current_stream, on_stream
from tikgen.engines.ptx_text import Instruction
from tikgen.errors import ArgumentError
from tikgen.taichi import arrays

__all__ = ["ARCH", "NAME", "Code", "Graph", "identity", "load", "machine_code", "on_stream"]

NAME, ARCH = "direct-cuda", "cuda"
# As many blocks as Taichi launches at most, for each multiprocessor.
_MOST_BLOCKS = 64
_MOST_KEPT = 256
_NAME = re.compile(r"_c\d+_\d+_kernel_\d+_\w+$")


def problem() -> str:
    """Return why it cannot be used on this machine, or an empty string."""
    return cuda_driver.problem()


def identity() -> Mapping[str, str]:
    """Return what machine code depends on beside the kernel: processor and versions."""
    return {"processor": "sm_{}{}".format(*cuda_driver.capability())}


def text_of(kernel: Any) -> str:
    """Return the PTX that Taichi makes of a compiled ``ti.kernel``."""
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
        _, tasks = ptx_text.translated(text, _behind(kinds))
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


def machine_code(text: str, kinds: Sequence[Kind]) -> bytes:
    """Return PTX for launches without Taichi, and how to launch it, of a text without problem."""
    size = _behind(kinds)
    head, tasks = ptx_text.translated(text, size)
    numbers = [task for task in tasks if task.sets]
    launched = [task for task in tasks if not task.sets]
    # Each is of 8 bytes at most.
    size += max((offset + 8 for task in numbers for offset in task.sets), default=0)
    return json.dumps(
        {
            "ptx": ptx_text.written(head, launched, size),
            "size": size,
            "numbers": [one for task in numbers for one in task.instructions],
            "tasks": [{"name": t.name, "block": t.block, "head": _head(t)} for t in launched],
        }
    ).encode()


def begin(text: str, kinds: Sequence[Kind]) -> _Made:
    """Make the result of :func:`machine_code`, which takes some milliseconds."""
    return _Made(machine_code(text, kinds))


class _Made:
    """Machine code that is ready."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def result(self) -> bytes:
        """Return the machine code."""
        return self._content


def _behind(kinds: Sequence[Kind]) -> int:
    """Return the place behind the arguments, in bytes, aligned for any number."""
    return (ctypes.sizeof(argument_struct.c_type(kinds)) + 7) // 8 * 8


def _layout_problem(reads: frozenset[tuple[int, int]], kinds: Sequence[Kind]) -> str:
    """Return which bytes are read that are no argument's."""
    made, known = argument_struct.c_type(kinds), set()
    for number, (_, ndim) in enumerate(kinds):
        field = getattr(made, f"a{number}")
        if ndim is None:
            known.add((field.offset, field.size))
            continue
        known |= {(field.offset + 4 * axis, 4) for axis in range(ndim)}
        known.add((field.offset + field.size - 8, 8))
    strange = sorted(reads - known)
    return f"reads {strange[0][1]} bytes at {strange[0][0]} of its arguments" if strange else ""


def _head(task: ptx_text.Task) -> list[Instruction] | None:
    """Return the start of a task up to where it leaves unless there is work for its thread."""
    found = list(ptx_text.until_first_branch(task.instructions))
    leave = found.pop()
    if not found or not found[-1].name.startswith(("setp.ge.", "setp.gt.")):
        return None
    if found[-1].operands[0] != leave.guard:
        return None
    return found if all(map(ptx_numbers.can_run, found)) else None


def load(machine_code: bytes, kinds: Sequence[Kind]) -> Code:
    """Load machine code into this process.

    Args:
        machine_code: the result of :func:`machine_code`, of the same :func:`identity`.
        kinds: dtype and number of axes of each argument.

    Raises:
        DeviceError: if the driver refuses it.
    """
    return Code(json.loads(machine_code), kinds)


class _Task(NamedTuple):
    """A loaded task: its function, threads in a block, blocks at once, and its start."""

    function: Any
    block: int
    resident: int
    head: Sequence[Instruction] | None


class Code:
    """The machine code of a kernel, in the primary context."""

    def __init__(self, read: Mapping[str, Any], kinds: Sequence[Kind]) -> None:
        self.kinds = tuple(kinds)
        self.struct = argument_struct.c_type(kinds)
        self.pack_into = argument_struct.packer(kinds).pack_into
        self.size = int(read["size"])
        self.name = _NAME.sub("", read["tasks"][0]["name"]) if read["tasks"] else "kernel"
        self._numbers = [_instruction(one) for one in read["numbers"]]
        self._module = cuda_driver.Module(read["ptx"])
        self._tasks = [self._loaded(one) for one in read["tasks"]]
        heads = [task.head for task in self._tasks if task.head]
        self.reads = _reads([self._numbers, *heads], _behind(kinds))
        self._known: dict[tuple[bytes, int], tuple[bytes, tuple[tuple[Any, int, int], ...]]] = {}

    def _loaded(self, read: Mapping[str, Any]) -> _Task:
        function, block = self._module.function(read["name"]), read["block"]
        resident = self._module.resident_blocks(function, block)
        head = read["head"]
        return _Task(function, block, resident, head and [_instruction(one) for one in head])

    def launcher(self) -> DirectLauncher:
        """Return a new launcher, in which no argument is set."""
        return DirectLauncher(self)

    def scratch(self, dtype: DType, shape: tuple[int, ...]) -> cuda_driver.Scratch:
        """Return a new array for a kernel to work in."""
        return cuda_driver.Scratch(shape, dtype.bits // 8)

    def launches(
        self, arguments: bytes, elements: int
    ) -> tuple[bytes, tuple[tuple[Any, int, int], ...]]:
        """Return what is passed behind the arguments, and function, blocks and threads of each.

        Args:
            arguments: the arguments, and room for what is passed behind them.
            elements: how many elements the largest array has.
        """
        key = (b"".join(arguments[place] for place in self.reads), elements)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            found = self._known[key] = self._computed(arguments, elements)
        return found

    def _computed(
        self, arguments: bytes, elements: int
    ) -> tuple[bytes, tuple[tuple[Any, int, int], ...]]:
        memory = bytearray(arguments)
        ptx_numbers.run(self._numbers, memory)
        launched = [
            (task.function, _blocks(task, memory, elements), task.block) for task in self._tasks
        ]
        return bytes(memory[_behind(self.kinds) :]), tuple(launched)


def _instruction(read: Sequence[Any]) -> Instruction:
    guard, name, operands = read
    return Instruction(guard, name, tuple(operands))


def _reads(parts: Sequence[Sequence[Instruction]], end: int) -> list[slice]:
    """Return which arguments instructions read."""
    found = set()
    for made in itertools.chain(*parts):
        if made.name.startswith("ld.param.") and (at := ptx_text.address(made.operands[1])):
            found.add((at[1], at[1] + int(made.name.rpartition(".")[2][1:]) // 8))
    return [slice(*place) for place in sorted(found) if place[0] < end]


def _blocks(task: _Task, memory: bytearray, elements: int) -> int:
    """Return how many blocks to launch; any number is right, since threads go on in strides.

    No more than have work, and no more than run at once or than there are threads' worth of
    elements: a loop may run over a constant number, of which few have work in small arrays.
    """
    if task.head is None:
        return task.resident if task.block > 1 else 1
    special = {"%tid.x": 0, "%ctaid.x": 0, "%ntid.x": task.block, "%nctaid.x": 1}
    held = ptx_numbers.run(task.head, memory, special)
    test = task.head[-1]
    kind = test.name.rpartition(".")[2]
    first, end = (ptx_numbers.value(operand, held, kind) for operand in test.operands[1:])
    count = end - first + test.name.startswith("setp.gt.")
    most = _MOST_BLOCKS * cuda_driver.attribute("MULTIPROCESSOR_COUNT")
    enough = max(task.resident, -(-elements // task.block))
    return max(1, min(-(-count // task.block), enough, most))


class DirectLauncher:
    """Arguments for the machine code of a kernel; for one thread at a time.

    It does what :class:`~tikgen.taichi.launcher.Launcher` does. Arrays of the host are copied to
    the device before each launch, and back after it.
    """

    is_spent = False

    def __init__(self, code: Code) -> None:
        self._code = code
        self._buffer = ctypes.create_string_buffer(max(8, code.size))
        self._arguments = code.struct.from_buffer(self._buffer)
        self._pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self._buffer))
        self._parameters = ctypes.addressof(self._pointers)
        self._behind = _behind(code.kinds)
        # By slot: the array, its address, its elements; memory on the device in its stead.
        self._arrays: dict[int, Any] = {}
        self._addresses: dict[int, int] = {}
        self._elements: dict[int, int] = {}
        self._staged: dict[int, tuple[cuda_driver.Memory, int]] = {}
        self._launches: tuple[tuple[Any, int, int], ...] | None = None
        self._stream: int | None = None  # That of the last launch.
        self._start = cuda_driver.driver().cuLaunchKernel
        cuda_driver.enter()

    def renew(self) -> None:
        """Do nothing: a launch leaves the context as it is."""

    def set_array(self, slot: int, array: Any) -> None:
        """Set the array argument in ``slot``.

        Raises:
            ArgumentError: if the device cannot use its memory.
        """
        if slot in self._arrays and array is self._arrays[slot]:
            address = array.data_ptr() if hasattr(array, "data_ptr") else self._addresses[slot]
            if address == self._addresses[slot]:
                return
        argument = getattr(self._arguments, f"a{slot}")
        argument.data = self._usable(slot, array)
        argument.shape[:] = tuple(array.shape)
        self._launches = None

    def _usable(self, slot: int, array: Any) -> int:
        """Return the address at which the device finds an array."""
        if isinstance(array, cuda_driver.Scratch):
            self._arrays[slot], self._addresses[slot] = array, array.address
            return array.address
        address, size = arrays.address_of(array)
        if address == self._addresses.get(slot) and array is self._arrays.get(slot):
            known = self._staged.get(slot)
            return known[0].address if known else address
        self._staged.pop(slot, None)
        self._arrays.pop(slot, None)
        used = address
        if isinstance(array, np.ndarray) or getattr(array, "is_cuda", True) is False:
            held = (m for m, at in self._staged.values() if (at, m.size) == (address, size))
            memory = next(held, None) or cuda_driver.Memory(size)  # One for an array in place.
            self._staged[slot] = memory, address
            used = memory.address
        elif why := cuda_driver.memory_problem(address):
            raise ArgumentError(self._code.name, f"array {slot} {why}")
        self._arrays[slot], self._addresses[slot] = array, address
        self._elements[slot] = math.prod(array.shape)
        return used

    def set_all(self, values: Sequence[Any]) -> None:
        """Set every argument, in the order of the slots.

        Raises:
            ArgumentError: if the device cannot use the memory of an array.
        """
        fields: list[Any] = []
        for slot, (value, (dtype, ndim)) in enumerate(zip(values, self._code.kinds, strict=True)):
            if ndim is None:
                fields.append(c_value(dtype, value))
            else:
                address = self._usable(slot, value)
                fields += value.shape
                fields.append(address)
        self._code.pack_into(self._buffer, 0, *fields)
        self._launches = None

    def scalar_setter(self, slot: int, is_float: bool, is_signed: bool) -> Callable[[Any], None]:
        """Return the function that sets the scalar argument in ``slot``."""
        dtype, _ = self._code.kinds[slot]
        name = f"a{slot}"
        place = getattr(self._code.struct, name).offset
        counts = any(part.start <= place < part.stop for part in self._code.reads)

        def put(value: Any) -> None:
            setattr(self._arguments, name, c_value(dtype, value))
            if counts:
                self._launches = None

        return put

    def launch(self) -> None:
        """Launch the kernel in the current stream.

        Raises:
            DeviceError: if the driver refuses it.
            ArgumentError: if arrays of the host would have to be copied within a graph.
        """
        stream = current_stream()
        if stream != self._stream:
            self._change_stream(stream)
        if self._staged:
            self._launch_staged(stream)
            return
        self._run(stream)
        if cuda_streams.local.recorded is not None:
            cuda_streams.local.recorded.append((self._code, *self._arrays.values()))

    def _change_stream(self, stream: int) -> None:
        """Let this stream wait for the last one, if launches in both work in the same scratch."""
        before, self._stream = self._stream, stream
        if any(isinstance(array, cuda_driver.Scratch) for array in self._arrays.values()):
            cuda_driver.enter()
            if before is not None and not cuda_driver.is_capturing(stream):
                cuda_driver.let_wait(stream, before)

    def _run(self, stream: int) -> None:
        launches = self._launches
        if launches is None:
            launches = self._prepare()
        start, parameters = self._start, self._parameters
        for function, blocks, block in launches:
            found = start(function, blocks, 1, 1, block, 1, 1, 0, stream, parameters, 0)
            if found[0]:
                self._run_again(found, (function, blocks, block), stream)

    def _run_again(self, failed: Any, launch: tuple[Any, int, int], stream: int) -> None:
        """Launch once more, if it failed because this thread had no context."""
        if cuda_driver.has_no_context():
            cuda_driver.enter()
            function, blocks, block = launch
            failed = self._start(
                function, blocks, 1, 1, block, 1, 1, 0, stream, self._parameters, 0
            )
        else:
            cuda_driver.enter()  # Says so if it is in that of another library.
        cuda_driver.check(failed, f"the launch of {self._code.name}")

    def _prepare(self) -> tuple[tuple[Any, int, int], ...]:
        elements = max(self._elements.values(), default=0)
        behind, launches = self._code.launches(self._buffer.raw, elements)
        ctypes.memmove(ctypes.addressof(self._buffer) + self._behind, behind, len(behind))
        self._launches = launches
        return launches

    def _launch_staged(self, stream: int) -> None:
        cuda_driver.enter()
        if cuda_driver.is_capturing(stream):
            problem = "takes arrays of the host, which no graph can copy; pass arrays on the device"
            raise ArgumentError(self._code.name, problem)
        for memory, address in self._staged.values():
            memory.read(address, stream)
        self._run(stream)
        for slot, (memory, address) in self._staged.items():
            if not arrays.is_read_only(self._arrays[slot]):
                memory.write(address, stream)
        cuda_driver.wait_for(stream)

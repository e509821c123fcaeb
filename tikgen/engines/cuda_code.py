"""The code of a kernel on a CUDA device, and the arguments with which it is launched."""

from __future__ import annotations

import ctypes
import itertools
import operator
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tikgen.dtypes import DType
from tikgen.engines import (
    argument_struct,
    cuda_driver,
    cuda_streams,
    ptx_divisions,
    ptx_numbers,
    ptx_text,
)
from tikgen.engines.argument_struct import Kind, c_value
from tikgen.engines.cuda_streams import current_stream
from tikgen.engines.ptx_text import Instruction
from tikgen.errors import ArgumentError
from tikgen.taichi import arrays

_BYTES_A_THREAD = 8
_MOST_KEPT = 256
_NAME = re.compile(r"_c\d+_\d+_kernel_\d+_\w+$")
# Function, blocks, threads in a block.
_Launch = tuple[Any, int, int]


def behind(kinds: Sequence[Kind]) -> int:
    """Return the place behind the arguments, in bytes, aligned for any number."""
    return (ctypes.sizeof(argument_struct.c_type(kinds)) + 7) // 8 * 8


class _Task(NamedTuple):
    """A loaded task: function, threads in a block, blocks at once, iterations a thread, start."""

    function: Any
    block: int
    resident: int
    iterations: int
    head: Sequence[Instruction] | None


class Code:
    """The machine code of a kernel, in the primary context.

    Args:
        read: what was read of it.
        kinds: dtype and number of axes of each argument.
        stream: returns the stream in which a thread launches.
    """

    def __init__(
        self,
        read: Mapping[str, Any],
        kinds: Sequence[Kind],
        stream: Callable[[], int] = current_stream,
    ) -> None:
        self.stream = stream
        self.kinds = tuple(kinds)
        self.struct = argument_struct.c_type(kinds)
        self.pack_into = argument_struct.packer(kinds).pack_into
        self.on_device: set[int] = cuda_driver.usable
        self.size = int(read["size"])
        self.name = _NAME.sub("", read["tasks"][0]["name"]) if read["tasks"] else "kernel"
        self._numbers = [_instruction(one) for one in read["numbers"]]
        self._module = cuda_driver.Module(read["ptx"])
        self._tasks = [self._loaded(one) for one in read["tasks"]]
        # Where a divisor is, and where what a division by it takes.
        self._divisors: list[tuple[int, int]] = read["divisors"]
        heads = [task.head for task in self._tasks if task.head]
        divisors = [slice(place, place + 4) for place, _ in self._divisors]
        self.reads = _reads([self._numbers, *heads], divisors, behind(kinds))
        # What of the arguments says how often loops run.
        self.counts: Callable[[bytes], Any] = (
            operator.itemgetter(*self.reads) if self.reads else _nothing
        )
        self._known: dict[tuple[Any, int], tuple[bytes, tuple[_Launch, ...]]] = {}

    def _loaded(self, read: Mapping[str, Any]) -> _Task:
        function, block = self._module.function(read["name"]), read["block"]
        resident = self._module.resident_blocks(function, block)
        head = read["head"] and [_instruction(one) for one in read["head"]]
        return _Task(function, block, resident, read["iterations"], head)

    def launcher(self) -> DirectLauncher:
        """Return a new launcher, in which no argument is set."""
        return DirectLauncher(self)

    def scratch(self, dtype: DType, shape: tuple[int, ...]) -> cuda_driver.Scratch:
        """Return a new array for a kernel to work in."""
        return cuda_driver.Scratch(shape, dtype.bits // 8)

    def address_of(self, scratch: cuda_driver.Scratch) -> int:
        """Return the address of such an array."""
        return scratch.address

    def launches(self, arguments: bytes, size: int) -> tuple[bytes, tuple[_Launch, ...]]:
        """Return what is passed behind the arguments, and function, blocks and threads of each.

        Args:
            arguments: the arguments, and room for what is passed behind them.
            size: bytes of all arrays.
        """
        key = (self.counts(arguments), size)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            found = self._known[key] = self._computed(arguments, size)
        return found

    def _computed(self, arguments: bytes, size: int) -> tuple[bytes, tuple[_Launch, ...]]:
        memory = bytearray(arguments)
        ptx_numbers.run(self._numbers, memory)
        for place, taken in self._divisors:
            divisor = int.from_bytes(memory[place : place + 4], "little", signed=True)
            struct.pack_into("=II", memory, taken, *ptx_divisions.factor(divisor))
        launched = [
            (task.function, _blocks(task, memory, size), task.block) for task in self._tasks
        ]
        return bytes(memory[behind(self.kinds) :]), tuple(launched)


def _instruction(read: Sequence[Any]) -> Instruction:
    guard, name, operands = read
    return Instruction(guard, name, tuple(operands))


def _reads(parts: Sequence[Sequence[Instruction]], more: Sequence[slice], end: int) -> list[slice]:
    """Return which arguments instructions read, and which of ``more`` are arguments."""
    found = {(one.start, one.stop) for one in more}
    for made in itertools.chain(*parts):
        if made.name.startswith("ld.param.") and (at := ptx_text.address(made.operands[1])):
            found.add((at[1], at[1] + int(made.name.rpartition(".")[2][1:]) // 8))
    return [slice(*place) for place in sorted(found) if place[0] < end]


def _nothing(arguments: bytes) -> None:
    """Return the same for all arguments."""


def _blocks(task: _Task, memory: bytearray, size: int) -> int:
    """Return how many blocks to launch; any number is right, since threads go on in strides.

    As many as have work. Taichi launches 64 for each multiprocessor, whose threads go on in strides
    through the whole array: neighbours that another block reads have left the cache by then, and
    Maxwell's equations took 1.5 times as long. A thread does several short iterations, but for
    arrays of which no block would be left to run at once. A loop may run over a constant number, of
    which few have work in small arrays: no more blocks than run at once, or than take 8 bytes a
    thread.
    """
    if task.head is None:
        return task.resident if task.block > 1 else 1
    special = {"%tid.x": 0, "%ctaid.x": 0, "%ntid.x": task.block, "%nctaid.x": 1}
    held = ptx_numbers.run(task.head, memory, special)
    test = task.head[-1]
    kind = test.name.rpartition(".")[2]
    first, end = (ptx_numbers.value(operand, held, kind) for operand in test.operands[1:])
    count = end - first + test.name.startswith("setp.gt.")
    enough = max(task.resident, -(-size // (_BYTES_A_THREAD * task.block)))
    some = max(task.resident, -(-count // (task.iterations * task.block)))
    return max(1, min(-(-count // task.block), some, enough))


class DirectLauncher:
    """Arguments for the machine code of a kernel; for one thread at a time.

    It does what :class:`~tikgen.taichi.launcher.Launcher` does. Arrays of the host are copied to
    the device before each launch, and back after it.
    """

    is_spent = False

    def __init__(self, code: Code) -> None:
        self._code = code
        self.arguments = ctypes.create_string_buffer(max(8, code.size))
        self._fields = code.struct.from_buffer(self.arguments)
        self._pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self.arguments))
        self._parameters = ctypes.addressof(self._pointers)
        self._behind = behind(code.kinds)
        # By slot: the array, its address, its bytes; the memory on the device that replaces it.
        self._arrays: dict[int, Any] = {}
        self._addresses: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._staged: dict[int, tuple[cuda_driver.Memory, int]] = {}
        self._size = 0  # Of all arrays, in bytes.
        self._has_scratch = False
        self._counts: Any = None  # Those that the launches are for.
        self._launches: tuple[_Launch, ...] | None = None
        # What set_all set last, unless it was changed since; the slots of tensors; all shapes.
        self._last: tuple[Any, ...] | None = None
        self._moving: list[int] = []
        self._shapes: list[tuple[int, Any]] = []
        self._current_stream = code.stream
        self._stream: int | None = None  # That of the last launch.
        self._start = cuda_driver.driver().cuLaunchKernel
        cuda_driver.enter()

    def packed(self, values: Sequence[Any], size: int) -> bool:
        """Take arguments that were packed, with arrays of ``size`` bytes in all.

        Return False while a graph is recorded, which keeps the arrays that were set one by one.
        """
        if cuda_streams.local.recorded is not None:
            return False
        if self._staged:
            self._staged.clear()
            self._arrays.clear()
        self._last = None
        if size != self._size or self._code.counts(self.arguments.raw) != self._counts:
            self._size, self._launches = size, None
        return True

    def renew(self) -> None:
        """Do nothing: a launch leaves the context as it is."""

    def set_array(self, slot: int, array: Any) -> None:
        """Set the array argument in ``slot``.

        Raises:
            ArgumentError: if the device cannot use its memory.
        """
        argument = getattr(self._fields, f"a{slot}")
        if self._is_set(slot, array) and tuple(argument.shape) == tuple(array.shape):
            return
        argument.data = self._usable(slot, array)
        argument.shape[:] = tuple(array.shape)
        self._size = sum(self._bytes.values())
        self._launches = self._last = None

    def _is_set(self, slot: int, array: Any) -> bool:
        """Return whether an array is the one in a slot, and its memory what it was.

        Only tensors get other memory.
        """
        if slot not in self._arrays or self._arrays[slot] is not array:
            return False
        if not hasattr(array, "data_ptr"):
            return True
        return arrays.address_of(array) == (self._addresses[slot], self._bytes[slot])

    def _usable(self, slot: int, array: Any) -> int:
        """Take an array; return the address at which the device finds it."""
        held = self._staged.get(slot)
        if self._is_set(slot, array):
            return held[0].address if held else self._addresses[slot]
        self._staged.pop(slot, None)
        self._arrays.pop(slot, None)
        if isinstance(array, cuda_driver.Scratch):
            self._arrays[slot], self._addresses[slot] = array, array.address
            self._has_scratch = True
            return array.address
        address, size = arrays.address_of(array)
        used = address
        if arrays.is_copied(array):
            memory = self._memory_for(address, size, held[0] if held else None)
            self._staged[slot] = memory, address
            used = memory.address
        elif why := cuda_driver.memory_problem(address):
            raise ArgumentError(self._code.name, f"array {slot} {why}")
        else:
            cuda_driver.keep_usable(address)
        self._arrays[slot], self._addresses[slot] = array, address
        self._bytes[slot] = size
        return used

    def _memory_for(
        self, address: int, size: int, before: cuda_driver.Memory | None
    ) -> cuda_driver.Memory:
        """Return memory for an array of the host: one for all arguments that are the same array."""
        for memory, place in self._staged.values():
            if (place, memory.size) == (address, size):
                return memory
            if memory is before:
                before = None
        return before if before and before.size == size else cuda_driver.Memory(size)

    def set_all(self, values: Sequence[Any]) -> None:
        """Set every argument, in the order of the slots.

        Raises:
            ArgumentError: if the device cannot use the memory of an array.
        """
        last = self._last
        if (
            last is not None
            and all(map(operator.is_, values, last))
            and all(self._is_set(slot, last[slot]) for slot in self._moving)
            and all(last[slot].shape == shape for slot, shape in self._shapes)
        ):
            return
        self._last = None
        fields: list[Any] = []
        for slot, (value, (dtype, ndim)) in enumerate(zip(values, self._code.kinds, strict=True)):
            if ndim is None:
                fields.append(c_value(dtype, value))
            else:
                fields += (*value.shape, self._usable(slot, value))
        self._code.pack_into(self.arguments, 0, *fields)
        self._size = sum(self._bytes.values())
        self._launches, self._last = None, tuple(values)
        self._moving = [slot for slot, one in enumerate(values) if hasattr(one, "data_ptr")]
        self._shapes = [(slot, array.shape) for slot, array in self._arrays.items()]

    def scalar_setter(self, slot: int, is_float: bool, is_signed: bool) -> Callable[[Any], None]:
        """Return the function that sets the scalar argument in ``slot``."""
        dtype, _ = self._code.kinds[slot]
        name = f"a{slot}"
        place = getattr(self._code.struct, name).offset
        counts = any(part.start <= place < part.stop for part in self._code.reads)

        def put(value: Any) -> None:
            setattr(self._fields, name, c_value(dtype, value))
            self._last = None
            if counts:
                self._launches = None

        return put

    def launch(self) -> None:
        """Launch the kernel in the current stream.

        Raises:
            DeviceError: if the driver refuses it.
            ArgumentError: if arrays of the host would have to be copied within a graph.
        """
        stream = self._current_stream()
        if stream != self._stream:
            self._change_stream(stream)
        if self._staged:
            self._launch_staged(stream)
            return
        self._run(stream)
        if cuda_streams.local.recorded is not None:
            cuda_streams.keep(self._code, *self._arrays.values())

    def _change_stream(self, stream: int) -> None:
        """Let this stream wait for the last one, if launches in both work in the same scratch."""
        before, self._stream = self._stream, stream
        if self._has_scratch:
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

    def _run_again(self, failed: Any, launch: _Launch, stream: int) -> None:
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

    def _prepare(self) -> tuple[_Launch, ...]:
        raw = self.arguments.raw
        behind, launches = self._code.launches(raw, self._size)
        self._counts = self._code.counts(raw)
        ctypes.memmove(ctypes.addressof(self.arguments) + self._behind, behind, len(behind))
        self._launches = launches
        return launches

    def _launch_staged(self, stream: int) -> None:
        cuda_driver.enter()
        if cuda_driver.is_capturing(stream):
            problem = "takes arrays of the host, which no graph can copy; pass arrays on the device"
            raise ArgumentError(self._code.name, problem)
        for slot, (memory, address) in self._staged.items():
            if arrays.address_of(self._arrays[slot]) != (address, memory.size):
                raise ArgumentError(self._code.name, f"array {slot} was resized; set it again")
            memory.read(address, stream)
        self._run(stream)
        for slot, (memory, address) in self._staged.items():
            if not arrays.is_read_only(self._arrays[slot]):
                memory.write(address, stream)
        cuda_driver.wait_for(stream)

"""The engine direct-cpu: Taichi's code for a processor, compiled and launched without Taichi."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.engines import argument_struct, guarded, llvm_needs, llvm_text, native, thread_pool
from tikgen.engines.argument_struct import c_value
from tikgen.engines.elsewhere import Elsewhere
from tikgen.taichi import arrays, artefacts, loop_work, runtime

# Bytes of LLVMRuntime up to its fields, on a processor with 64 bits: thread pool, the function
# that runs a parallel loop, and the buffer of numbers that tasks pass on.
POOL, PARALLEL_FOR, TEMPORARIES = 8280, 8288, 32872
NAME = "direct-cpu"
IS_TEXT_SLOW = False
# Over more bytes the launch itself is a small part of the time.
MOST_BYTES = MOST_COMPARED = 1 << 18
RUNTIME_SIZE = 1 << 16
TEMPORARY_SIZE = 1 << 20
# Loops over fewer bytes run in one thread: to wake another one takes longer. So do those with many
# turns an element over much fewer.
FEW_BYTES, FEW_HEAVY_BYTES = 1 << 16, 1 << 10


_is_backward = False


class _Context(ctypes.Structure):
    _fields_ = [
        ("arguments", ctypes.c_void_p),
        ("runtime", ctypes.c_void_p),
        ("thread", ctypes.c_int32),
        ("result", ctypes.c_void_p),
    ]


def problem() -> str:
    """Return why the engine cannot be used on this machine, or an empty string."""
    return native.problem() or thread_pool.problem()


def identity() -> dict[str, str]:
    """Return what machine code depends on beside the kernel: processor and versions."""
    return native.identity()


def text_of(kernel: Any, exact: bool = False) -> str:
    """Return the LLVM text that Taichi makes of a ``ti.kernel``, for exact code or other code."""
    is_heavy = loop_work.exceeds_elements(kernel)
    return artefacts.llvm_text(kernel, exact) + (llvm_text.HEAVY if is_heavy else "")


def text_problem(text: str, kinds: Sequence[argument_struct.Kind]) -> str:
    """Return why the code of a kernel cannot run without Taichi, or an empty string.

    Args:
        text: its LLVM text.
        kinds: dtype and number of axes of each argument.
    """
    return (
        argument_struct.problem(kinds)
        or llvm_needs.problem(text, argument_struct.llvm_type(kinds))
        or _missing(text)
    )


def machine_code(
    text: str,
    kinds: Sequence[argument_struct.Kind],
    exact: bool = False,
    use: argument_struct.ArrayUse | None = None,
) -> bytes:
    """Return the object file of a kernel, made of LLVM text without problem.

    Args:
        text: the LLVM text.
        kinds: dtype and number of axes of each argument.
        exact: whether each product is rounded before it is added, as Taichi does.
        use: what the kernel does with its arrays; None if that is not known.
    """
    return guarded.object_code(llvm_text.translated(text, exact, use, kinds))


def begin(
    text: Callable[[], str], kinds: Sequence[argument_struct.Kind], key: str, name: str
) -> Elsewhere:
    """Begin to make the exact object file of a kernel in a child process, which stores it.

    Args:
        text: returns its LLVM text.
        kinds: dtype and number of axes of each argument.
        key: key of the object file in the store.
        name: what it is, for people.
    """
    return Elsewhere(llvm_text.translated(text(), exact=True), key, name)


@contextlib.contextmanager
def backward() -> Iterator[None]:
    """Have arguments that are set inside launched with parallel loops in one thread, backwards.

    A loop whose iterations need what others write shows then, without a second thread.
    """
    global _is_backward
    _is_backward = True
    try:
        yield
    finally:
        _is_backward = False


def wait() -> None:
    """Do nothing: a launch returns when it is done."""


def load(content: bytes, kinds: Sequence[argument_struct.Kind], exact: bool = False) -> Code:
    """Load the object file of a kernel into this process."""
    return Code(content, kinds)


class Code:
    """The machine code of a kernel, loaded into this process.

    Args:
        content: its object file.
        kinds: dtype and number of axes of each argument.
    """

    def __init__(self, content: bytes, kinds: Sequence[argument_struct.Kind]) -> None:
        self.kinds = tuple(kinds)
        self.struct = argument_struct.c_type(kinds)
        self.pack_into = argument_struct.packer(kinds).pack_into
        self.on_device = None
        self._library = native.Library(content)
        # The function that runs a kernel over a context.
        self.address = self._library.address(llvm_text.RUN)
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.address)
        is_heavy = ctypes.CFUNCTYPE(ctypes.c_int32)(self._library.address(llvm_text.IS_HEAVY))
        self.few_bytes = FEW_HEAVY_BYTES if is_heavy() else FEW_BYTES

    def launcher(self) -> DirectLauncher:
        """Return a new launcher, in which no argument is set."""
        return DirectLauncher(self, runtime.threads())

    def scratch(self, dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return a new array for a kernel to work in."""
        return np.zeros(shape, dtype.numpy)

    def address_of(self, scratch: np.ndarray[Any, Any]) -> int:
        """Return the address of such an array."""
        return arrays.address_of(scratch)[0]


class DirectLauncher:
    """Arguments for the machine code of a kernel; for one thread at a time.

    It does what :class:`~tikgen.taichi.launcher.Launcher` does. Native code launches it with
    ``function(context)``: the addresses are valid as long as the launcher lives.

    Args:
        code: the machine code.
        threads: how many threads run a parallel loop.

    Attributes:
        function: address of the function that launches, ``void function(void *context)``.
        context: address of its argument.
        arguments: the struct of the arguments, into which the context points.
    """

    is_spent = False

    def __init__(self, code: Code, threads: int) -> None:
        self._code, self._pack_into = code, code.pack_into
        self.arguments = code.struct()
        self._pool = thread_pool.pool_of(threads)
        # Zeros that take memory once they are used; a forked process has its own.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        memory = mmap.mmap(-1, RUNTIME_SIZE + TEMPORARY_SIZE, flags=flags)
        self._runtime = (ctypes.c_char * len(memory)).from_buffer(memory)
        self._bytes: dict[int, int] = {}
        self._loop = self._pool.serial_for
        self._put(POOL, self._pool.address)
        self._put(PARALLEL_FOR, self._loop)
        self._put(TEMPORARIES, ctypes.addressof(self._runtime) + RUNTIME_SIZE)
        self._context = _Context(
            ctypes.addressof(self.arguments), ctypes.addressof(self._runtime), 0, None
        )
        self.function = code.address
        self.context = ctypes.addressof(self._context)
        self.launch: Callable[[], None] = functools.partial(code.run, self.context)

    def renew(self) -> None:
        """Do nothing: a launch leaves the context as it is."""

    def _put(self, offset: int, value: int) -> None:
        ctypes.c_uint64.from_buffer(self._runtime, offset).value = value

    def set_array(self, slot: int, array: Any) -> None:
        """Set the array argument in ``slot``."""
        address, size = arrays.address_of(array)
        argument = getattr(self.arguments, f"a{slot}")
        argument.shape[:] = tuple(array.shape)
        argument.data = address
        self._bytes[slot] = size
        self.choose_loop(sum(self._bytes.values()))

    def packed(self, values: Sequence[Any], size: int) -> bool:
        """Take arguments that were packed, with arrays of ``size`` bytes in all."""
        self.choose_loop(size)
        return True

    def choose_loop(self, size: int) -> None:
        """Choose how loops run over arrays of ``size`` bytes in all."""
        pool = self._pool
        loop = pool.serial_for if size < self._code.few_bytes else pool.parallel_for
        if _is_backward:
            loop = pool.backward_for
        if loop != self._loop:
            self._loop = loop
            self._put(PARALLEL_FOR, loop)

    def set_all(self, values: Sequence[Any]) -> None:
        """Set every argument, in the order of the slots."""
        fields: list[Any] = []
        size = 0
        for value, (dtype, ndim) in zip(values, self._code.kinds, strict=True):
            if ndim is None:
                fields.append(c_value(dtype, value))
            else:
                address, more = arrays.address_of(value)
                fields += value.shape
                fields.append(address)
                size += more
        self._pack_into(self.arguments, 0, *fields)
        self.choose_loop(size)

    def scalar_setter(self, slot: int, is_float: bool, is_signed: bool) -> Callable[[Any], None]:
        """Return the function that sets the scalar argument in ``slot``."""
        dtype, _ = self._code.kinds[slot]
        return lambda value: setattr(self.arguments, f"a{slot}", c_value(dtype, value))


def _missing(text: str) -> str:
    """Return which function the code calls that this process does not have, if any."""
    missing = [name for name in llvm_text.calls(text) if not native.has_symbol(name)]
    return f"calls {', '.join(missing)}, which are not there" if missing else ""

"""The engine direct-cpu: Taichi's code for a processor, compiled and launched without Taichi."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tikgen.engines import argument_struct, llvm_text, native, thread_pool
from tikgen.engines.argument_struct import c_value
from tikgen.taichi import arrays

# Bytes of LLVMRuntime up to its fields, on a processor with 64 bits: thread pool, the function
# that runs a parallel loop, and the buffer of numbers that tasks pass on.
_POOL, _PARALLEL_FOR, _TEMPORARIES = 8280, 8288, 32872
_RUNTIME_SIZE = 1 << 16
_TEMPORARY_SIZE = 1 << 20
# Loops over fewer bytes run in one thread: to wake another one takes longer.
_FEW_BYTES = 1 << 16
_DECLARED = re.compile(r"^declare [^@]*@([\w.]+)\(", re.MULTILINE)


class _Context(ctypes.Structure):
    _fields_ = [
        ("arguments", ctypes.c_void_p),
        ("runtime", ctypes.c_void_p),
        ("thread", ctypes.c_int32),
        ("result", ctypes.c_void_p),
    ]


class Code:
    """The machine code of a kernel.

    Args:
        text: the LLVM text that Taichi makes of it for the processor.
        kinds: dtype and number of axes of each argument.

    Raises:
        ValueError: if the code cannot run without Taichi; the message says why.
    """

    def __init__(self, text: str, kinds: Sequence[argument_struct.Kind]) -> None:
        why = (
            argument_struct.problem(kinds)
            or llvm_text.problem(text, argument_struct.llvm_type(kinds))
            or _missing(text)
        )
        if why:
            raise ValueError(why)
        self.kinds = tuple(kinds)
        self.struct = argument_struct.c_type(kinds)
        self.pack_into = argument_struct.packer(kinds).pack_into
        self._library = native.Library(llvm_text.translated(text))
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._library.address(llvm_text.RUN))


class DirectLauncher:
    """Arguments for the machine code of a kernel; for one thread at a time.

    It does what :class:`~tikgen.taichi.launcher.Launcher` does.

    Args:
        code: the machine code.
        threads: how many threads run a parallel loop.
    """

    is_spent = False

    def __init__(self, code: Code, threads: int) -> None:
        self._code = code
        self._arguments = code.struct()
        self._pool = thread_pool.pool_of(threads)
        self._runtime = ctypes.create_string_buffer(_RUNTIME_SIZE)
        self._temporaries = np.zeros(_TEMPORARY_SIZE, np.uint8)  # Takes memory once it is used.
        self._bytes: dict[int, int] = {}
        self._is_serial = True
        self._put(_POOL, self._pool.address)
        self._put(_PARALLEL_FOR, self._pool.serial_for)
        self._put(_TEMPORARIES, self._temporaries.ctypes.data)
        self._context = _Context(
            ctypes.addressof(self._arguments), ctypes.addressof(self._runtime), 0, None
        )
        self.launch: Callable[[], None] = functools.partial(
            code.run, ctypes.addressof(self._context)
        )

    def renew(self) -> None:
        """Do nothing: a launch leaves the context as it is."""

    def _put(self, offset: int, value: int) -> None:
        ctypes.c_uint64.from_buffer(self._runtime, offset).value = value

    def set_array(self, slot: int, array: Any) -> None:
        """Set the array argument in ``slot``."""
        address, size = arrays.address_of(array)
        argument = getattr(self._arguments, f"a{slot}")
        argument.shape[:] = tuple(array.shape)
        argument.data = address
        self._bytes[slot] = size
        self._choose_loop(sum(self._bytes.values()))

    def _choose_loop(self, size: int) -> None:
        if self._is_serial is not (size < _FEW_BYTES):
            self._is_serial = size < _FEW_BYTES
            run = self._pool.serial_for if self._is_serial else self._pool.parallel_for
            self._put(_PARALLEL_FOR, run)

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
        self._code.pack_into(self._arguments, 0, *fields)
        self._choose_loop(size)

    def scalar_setter(self, slot: int, is_float: bool, is_signed: bool) -> Callable[[Any], None]:
        """Return the function that sets the scalar argument in ``slot``."""
        dtype, _ = self._code.kinds[slot]
        return lambda value: setattr(self._arguments, f"a{slot}", c_value(dtype, value))


def _missing(text: str) -> str:
    """Return which function the code calls that this process does not have, if any."""
    declared = (name for name in _DECLARED.findall(text) if not name.startswith("llvm."))
    missing = [name for name in declared if not native.has_symbol(name)]
    return f"calls {', '.join(missing)}, which are not there" if missing else ""

"""A native bundle in Python: its shared library, called with ctypes, without Taichi's library."""

from __future__ import annotations

import ctypes
import functools
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from tikgen.aot import manifest as m
from tikgen.aot.contents import Contents
from tikgen.aot.native.names import c_name, function_names
from tikgen.aot.running.bundle_runtime import Runtime
from tikgen.aot.running.bundle_signature import Signature, argument_of
from tikgen.aot.running.c_engine import Engine
from tikgen.aot.running.device_array import DeviceArray
from tikgen.dtypes import C_TYPES
from tikgen.errors import ArgumentError, BundleError, UnsupportedOnArch
from tikgen.template.here import Opened
from tikgen.template.pinned import pinned

_SCALARS = C_TYPES | {"f16": ctypes.c_float}
_BAD_POINTER, _OUT_OF_MEMORY, _NOT_SUPPORTED = 2, 4, 5
# Paths of libraries that this process has loaded, with their digests: the system takes a library of
# the same path for the same one, even after it was replaced.
_loaded: dict[str, str] = {}
_lock = threading.Lock()


def _address(array: Any) -> int:
    return array.memory if isinstance(array, DeviceArray) else int(array.ctypes.data)


def _half(value: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.float16(value))


_NUMBERS: dict[str, Callable[[Any], Any]] = {"f16": _half, "f32": float, "f64": float}


class NativeEngine(Opened):
    """The library of a native bundle, as arrays and signatures need it; memory is that of NumPy."""

    is_host = True

    def __init__(self, contents: Contents, arch: str) -> None:
        self._contents = contents
        self.arch = arch
        self.lock = threading.RLock()
        self.is_closed = False
        self.capabilities: dict[str, int] = {}
        self.handle = 0
        self.library = _opened(contents, contents.manifest.native[arch].library)
        known = contents.manifest
        self.names = {name: c_name(known, c) for name, c in function_names(known).items()}
        self._problem = self._found(c_name(known, "problem"))
        self._problem.restype = ctypes.c_char_p

    def function_of(self, kernel: str) -> Any:
        """Return the function of a kernel in the library."""
        return self._found(self.names[kernel])

    def _found(self, name: str) -> Any:
        try:
            return self.library[name]
        except AttributeError:
            problem = f"has a manifest of other functions than its library, which lacks {name}"
            raise BundleError(self._contents.path, problem) from None

    def problem_of(self, status: int) -> str:
        """Return what a status of the library means."""
        said: bytes = self._problem(status)
        return said.decode()

    def import_host(self, address: int, size: int) -> int:
        """Return a handle of memory: its address."""
        return address

    def wait(self) -> None:
        """Do nothing: a call returns once its work is done."""

    def close(self) -> None:
        """Refuse calls from now on; the library stays loaded."""
        self.is_closed = True

    def refuse(self) -> NoReturn:
        """Raise :class:`BundleError`: it was closed."""
        raise BundleError(self._contents.path, "is closed; load it again")


class NativeKernel(Opened):
    """A kernel of a native bundle; call it with its arguments to run it.

    Attributes:
        name: its name in the bundle.
        described: its entry in the manifest.
        signature: its arguments.
    """

    def __init__(
        self, engine: NativeEngine, described: m.Kernel, kernels: Mapping[str, m.Kernel]
    ) -> None:
        self.name = described.name
        self.described = described
        arguments = tuple(map(argument_of, described.arguments))
        self.signature = Signature(cast("Engine", engine), self.name, arguments)
        self._engine = engine
        self._function = engine.function_of(self.name)
        kinds = [(a.dtype if a.kind == "scalar" else "") for a in described.arguments]
        self._kinds = [_SCALARS[dtype] if dtype else ctypes.c_void_p for dtype in kinds]
        self._passed = [_NUMBERS.get(dtype, int) if dtype else _address for dtype in kinds]
        self._function.restype = ctypes.c_int
        self._function.argtypes = [
            *self._kinds,
            *(ctypes.c_int64 for _ in self.signature.symbols),
        ]

    @property
    def baked(self) -> int:
        """Return the number of baked sizes."""
        return len(self.described.sizes)

    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        """Run it.

        Args:
            args: arguments in order.
            kwargs: arguments by name.

        Raises:
            ArgumentError: if an argument does not fit.
            BundleError: if the runtime was closed.
            UnsupportedOnArch: if this processor lacks instructions.
        """
        if self._engine.is_closed:
            self._engine.refuse()
        values = self.signature.order(args, kwargs)
        sizes = self.signature.check(values)
        given = [passed(value) for passed, value in zip(self._passed, values, strict=True)]
        self._check(self._function(*given, *sizes), values)

    def prepare(self) -> Callable[..., int]:
        """Return its function in C, with ``argtypes``; there is nothing to load."""
        return cast("Callable[..., int]", self._function)

    def bind(self, /, *args: Any, **kwargs: Any) -> Callable[[], None]:
        """Return a function that runs it with these arguments, which are checked once.

        Args:
            args: arguments in order.
            kwargs: arguments by name.

        Raises:
            ArgumentError: if an argument does not fit; later, if an array was closed.
        """
        values = self.signature.order(args, kwargs)
        sizes = self.signature.check(values)
        given = [
            kind(passed(value))
            for kind, passed, value in zip(self._kinds, self._passed, values, strict=True)
        ]
        run = functools.partial(self._function, *given, *map(ctypes.c_int64, sizes))
        arrays = [value for value in values if isinstance(value, DeviceArray)]

        def bound() -> None:
            if self._engine.is_closed:
                self._engine.refuse()
            for array in arrays:
                if not array.is_open:
                    raise ArgumentError(self.name, f"takes an array that {array.problem()}")
            self._check(run(), values)

        bound.__doc__ = f"Run {self.name} with the arguments that were bound."
        # Keeps alive, and in place, what is pointed to.
        bound.values, bound.pinned = values, pinned(values)  # type: ignore[attr-defined]
        return bound

    def _check(self, status: int, values: Sequence[Any] = ()) -> None:
        """Raise what a status of the library means, for these arguments."""
        if status == 0:
            return
        if status == _OUT_OF_MEMORY:
            raise MemoryError(f"{self.name}: there is not enough memory for its scratch arrays")
        said = self._engine.problem_of(status)
        if status == _NOT_SUPPORTED:
            raise UnsupportedOnArch(self.name, self._engine.arch, said)
        for name, value in zip(self.signature.names, values, strict=False):
            is_array = status == _BAD_POINTER and isinstance(value, np.ndarray)
            if is_array and value.ctypes.data % value.itemsize:
                said = f"argument {name!r} is not aligned to its elements; pass {name}.copy()"
        raise ArgumentError(self.name, said)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({self.signature}) on {self._engine.arch}>"


def native_runtime(contents: Contents, arch: str) -> Runtime:
    """Return the runtime of a native bundle.

    Raises:
        BundleError: if its shared library is damaged.
    """
    engine = NativeEngine(contents, arch)
    return Runtime(cast("Engine", engine), contents, cast("Any", NativeKernel))


def _opened(contents: Contents, library: str) -> ctypes.CDLL:
    """Return the shared library of a bundle, whose file is checked."""
    folder = contents.unpack("lib")
    path, digest = str(folder / library), contents.manifest.files[library].sha256
    with _lock:
        try:
            if _loaded.setdefault(path, digest) == digest:
                return ctypes.CDLL(path)
            with tempfile.TemporaryDirectory(prefix="tikgen-") as copies:
                return ctypes.CDLL(shutil.copy(path, copies))
        except OSError as error:
            problem = f"has a library that cannot be loaded: {error}"
            raise BundleError(contents.path, problem) from None

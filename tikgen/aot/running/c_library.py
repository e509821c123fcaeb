"""Taichi's C library through ctypes, with its errors as exceptions."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tikgen.errors import LibraryError

INSTALL_DIR = "TAICHI_C_API_INSTALL_DIR"
# The numbers of the library's names.
DTYPES = {
    name: number
    for number, name in enumerate(
        ("f16", "f32", "f64", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64")
    )
}
I32, F32, NDARRAY = 0, 1, 2
CAPABILITIES = (
    "reserved",
    "spirv_version",
    "spirv_has_int8",
    "spirv_has_int16",
    "spirv_has_int64",
    "spirv_has_float16",
    "spirv_has_float64",
    "spirv_has_atomic_int64",
    "spirv_has_atomic_float16",
    "spirv_has_atomic_float16_add",
    "spirv_has_atomic_float16_minmax",
    "spirv_has_atomic_float",
    "spirv_has_atomic_float_add",
    "spirv_has_atomic_float_minmax",
    "spirv_has_atomic_float64",
    "spirv_has_atomic_float64_add",
    "spirv_has_atomic_float64_minmax",
    "spirv_has_variable_ptr",
    "spirv_has_physical_storage_buffer",
    "spirv_has_subgroup_basic",
    "spirv_has_subgroup_vote",
    "spirv_has_subgroup_arithmetic",
    "spirv_has_subgroup_ballot",
    "spirv_has_non_semantic_info",
    "spirv_has_no_integer_wrap_decoration",
)
_MOST_MESSAGE = 4096
_STORAGE = 1
_FILES = {"darwin": "libtaichi_c_api.dylib", "win32": "taichi_c_api.dll"}

_u32, _u64, _handle, _text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p


class _AllocateInfo(ctypes.Structure):
    _fields_ = (
        ("size", _u64),
        ("host_write", _u32),
        ("host_read", _u32),
        ("export_sharing", _u32),
        ("usage", _u32),
    )


class _Capability(ctypes.Structure):
    _fields_ = (("capability", _u32), ("level", _u32))


class _Slice(ctypes.Structure):
    _fields_ = (("memory", _handle), ("offset", _u64), ("size", _u64))


# Result and arguments of each function.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ti_get_version": (_u32, ()),
    "ti_get_last_error": (ctypes.c_int32, (ctypes.POINTER(_u64), _text)),
    "ti_set_last_error": (None, (ctypes.c_int32, _text)),
    "ti_create_runtime": (_handle, (_u32, _u32)),
    "ti_destroy_runtime": (None, (_handle,)),
    "ti_get_runtime_capabilities": (
        None,
        (_handle, ctypes.POINTER(_u32), ctypes.POINTER(_Capability)),
    ),
    "ti_allocate_memory": (_handle, (_handle, ctypes.POINTER(_AllocateInfo))),
    "ti_import_cpu_memory": (_handle, (_handle, _handle, ctypes.c_size_t)),
    "ti_free_memory": (None, (_handle, _handle)),
    "ti_map_memory": (_handle, (_handle, _handle)),
    "ti_unmap_memory": (None, (_handle, _handle)),
    "ti_copy_memory_device_to_device": (
        None,
        (_handle, ctypes.POINTER(_Slice), ctypes.POINTER(_Slice)),
    ),
    "ti_load_aot_module": (_handle, (_handle, _text)),
    "ti_destroy_aot_module": (None, (_handle,)),
    "ti_get_aot_module_kernel": (_handle, (_handle, _text)),
    "ti_get_aot_module_compute_graph": (_handle, (_handle, _text)),
    "ti_launch_kernel": (None, (_handle, _handle, _u32, _handle)),
    "ti_launch_compute_graph": (None, (_handle, _handle, _u32, _handle)),
    "ti_wait": (None, (_handle,)),
}


class Library:
    """The library, loaded from a folder with ``lib`` and ``runtime`` in it.

    Every method raises :class:`LibraryError` with what the library reports. Handles are integers;
    using one after it was destroyed or freed ends the process.
    """

    def __init__(self, folder: Path) -> None:
        # The bitcode that it links to kernels for the processor and for CUDA.
        self._linked = str(folder / "runtime")
        path = _file_in(folder)
        try:
            library = ctypes.CDLL(str(path))
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise LibraryError("loading it", f"{path} cannot be used: {error}") from None
        self._call: Any = library
        self.launch_kernel: Callable[[int, int, int, int], None] = library.ti_launch_kernel
        self.launch_graph: Callable[[int, int, int, int], None] = library.ti_launch_compute_graph
        self._last_error: Callable[..., int] = library.ti_get_last_error
        self._no_size = ctypes.byref(_u64(0))

    @property
    def version(self) -> tuple[int, int]:
        """Return the major and the minor version; the library does not report patches."""
        number = self._call.ti_get_version()
        return number // 1_000_000, number // 1_000 % 1_000

    def check(self, doing: str) -> None:
        """Raise :class:`LibraryError` if a call that this thread made reported an error."""
        if self._last_error(self._no_size, None) < 0:
            self._raise(doing)

    def _raise(self, doing: str) -> None:
        size, message = _u64(_MOST_MESSAGE), ctypes.create_string_buffer(_MOST_MESSAGE)
        code = self._last_error(ctypes.byref(size), message)
        self._call.ti_set_last_error(0, None)
        text = " ".join(message.value.decode(errors="replace").split())
        raise LibraryError(doing, text or "it gives no reason", code)

    def _made(self, handle: int | None, doing: str) -> int:
        self.check(doing)
        if not handle:
            raise LibraryError(doing, "it returned nothing, and gives no reason")
        return handle

    def create_runtime(self, arch: int, device: int) -> int:
        """Return a new runtime for an arch, given by the library's number."""
        os.environ["TI_LIB_DIR"] = self._linked
        return self._made(self._call.ti_create_runtime(arch, device), "creating a runtime")

    def destroy_runtime(self, runtime: int) -> None:
        """Destroy a runtime after its modules were destroyed and its memory was freed."""
        self._call.ti_destroy_runtime(runtime)

    def capabilities(self, runtime: int) -> dict[str, int]:
        """Return the level of each capability of the device; empty except for Vulkan."""
        count = _u32(0)
        self._call.ti_get_runtime_capabilities(runtime, ctypes.byref(count), None)
        found = (_Capability * count.value)()
        self._call.ti_get_runtime_capabilities(runtime, ctypes.byref(count), found)
        self.check("asking for capabilities")
        return {
            CAPABILITIES[item.capability]: item.level
            for item in found
            if item.capability < len(CAPABILITIES)
        }

    def allocate(self, runtime: int, size: int, for_host: bool) -> int:
        """Return ``size`` bytes of device memory, which ``for_host`` makes accessible here."""
        info = _AllocateInfo(size, for_host, for_host, 0, _STORAGE)
        doing = f"allocating {size} bytes"
        return self._made(self._call.ti_allocate_memory(runtime, ctypes.byref(info)), doing)

    def import_host(self, runtime: int, address: int, size: int) -> int:
        """Return a handle of host memory, which is never freed and stays valid."""
        made = self._call.ti_import_cpu_memory(runtime, address, size)
        return self._made(made, f"importing {size} bytes")

    def import_cuda(self, runtime: int, address: int, size: int) -> int:
        """Return a handle of GPU memory, which the caller frees."""
        function = self._call.ti_import_cuda_memory  # Not every library has CUDA.
        function.restype, function.argtypes = _handle, (_handle, _handle, ctypes.c_size_t)
        return self._made(function(runtime, address, size), f"importing {size} bytes")

    def free(self, runtime: int, memory: int) -> None:
        """Free what :meth:`allocate` returned."""
        self._call.ti_free_memory(runtime, memory)
        self.check("freeing memory")

    def copy_in(self, runtime: int, memory: int, source: int, size: int) -> None:
        """Copy ``size`` bytes from an address to memory that is accessible here."""
        mapped = self._made(self._call.ti_map_memory(runtime, memory), "mapping memory")
        ctypes.memmove(mapped, source, size)
        self._call.ti_unmap_memory(runtime, memory)
        self.check("copying to the device")

    def copy_out(self, runtime: int, memory: int, target: int, size: int) -> None:
        """Copy ``size`` bytes of memory that is accessible here to an address."""
        mapped = self._made(self._call.ti_map_memory(runtime, memory), "mapping memory")
        ctypes.memmove(target, mapped, size)
        self._call.ti_unmap_memory(runtime, memory)
        self.check("copying from the device")

    def copy_on_device(
        self, runtime: int, target: tuple[int, int], source: tuple[int, int], size: int
    ) -> None:
        """Copy ``size`` bytes on the device after earlier work; places are memory and offset."""
        slices = (_Slice(*place, size) for place in (target, source))
        self._call.ti_copy_memory_device_to_device(runtime, *map(ctypes.byref, slices))
        self.check("copying on the device")

    def load_module(self, runtime: int, folder: Path) -> int:
        """Return the AOT module in a folder."""
        if not (folder / "__version__").is_file():
            raise LibraryError("loading a module", f"there is no module in {folder}")
        made = self._call.ti_load_aot_module(runtime, os.fsencode(folder))
        return self._made(made, f"loading the module {folder}")

    def destroy_module(self, module: int) -> None:
        """Destroy a module with its kernels and graphs."""
        self._call.ti_destroy_aot_module(module)

    def kernel(self, module: int, name: str) -> int:
        """Return a kernel of a module."""
        made = self._call.ti_get_aot_module_kernel(module, name.encode())
        return self._made(made, f"getting the kernel {name}")

    def graph(self, module: int, name: str) -> int:
        """Return a graph of a module."""
        made = self._call.ti_get_aot_module_compute_graph(module, name.encode())
        return self._made(made, f"getting the graph {name}")

    def wait(self, runtime: int) -> None:
        """Wait until the device has finished."""
        self._call.ti_wait(runtime)
        self.check("waiting for the device")


_opening = threading.Lock()
_opened: dict[Path, Library] = {}


def open_library() -> Library:
    """Return the library that comes with Taichi, loaded once, without importing Taichi."""
    with _opening:
        folder = find_folder()
        if folder not in _opened:
            _opened[folder] = Library(folder)
        return _opened[folder]


def find_folder() -> Path:
    """Return the folder of the library: ``TAICHI_C_API_INSTALL_DIR``, or Taichi's own."""
    if named := os.environ.get(INSTALL_DIR):
        if not _file_in(Path(named)).is_file():
            raise LibraryError("finding it", f"{INSTALL_DIR} is {named}, which does not hold it")
        return Path(named)
    for folder in _folders_of_taichi():
        if _file_in(folder).is_file():
            return folder
    raise LibraryError(
        "finding it",
        f"it comes with Taichi, which is not installed: pip install taichi, or set {INSTALL_DIR}",
    )


def _folders_of_taichi() -> Sequence[Path]:
    spec = importlib.util.find_spec("taichi")
    locations = spec.submodule_search_locations if spec is not None else None
    return [Path(location) / "_lib" / "c_api" for location in locations or ()]


def _file_in(folder: Path) -> Path:
    if sys.platform == "win32":
        return folder / "bin" / _FILES["win32"]
    return folder / "lib" / _FILES.get(sys.platform, "libtaichi_c_api.so")

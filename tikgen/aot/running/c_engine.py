"""One runtime of Taichi's C library: started in the background, locked, and closed in order."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import NoReturn

from tikgen.aot.contents import Contents, taichi_problem
from tikgen.aot.manifest import ARCHS
from tikgen.aot.running.c_library import Library, open_library
from tikgen.errors import BundleError, LibraryError, TikgenError, UnsupportedOnArch
from tikgen.machine.devices import HOST_ARCHS
from tikgen.machine.drivers import current_cuda_context, use_cuda_context

# The size of staging memory in bytes.
_MOST_STAGED = 1 << 26


class _Made:
    """What the library made, to be freed in the right order."""

    # On cuda all runtimes of a process share one memory pool, which the end of one empties. So
    # only the last is destroyed; the others have freed what they allocated, and wait for it.
    cuda_lock = threading.Lock()
    open_on_cuda = 0

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.library: Library | None = None
        self.runtime = 0
        self.context = 0
        self.modules: dict[str, int] = {}
        self.memories: set[int] = set()
        self.error: TikgenError | None = None

    def start(self, contents: Contents, arch: str, device: int) -> None:
        """Create the runtime; keep an error for its users."""
        try:
            self.library = open_library()
            version = ".".join(map(str, self.library.version))
            if problem := taichi_problem(contents.manifest.taichi, version):
                raise BundleError(contents.path, problem)
            if arch != "cuda":
                self.runtime = self.library.create_runtime(ARCHS[arch], device)
                return
            with self.cuda_lock:
                self.runtime = self.library.create_runtime(ARCHS[arch], device)
                _Made.open_on_cuda += 1
            self.context = current_cuda_context()
        except TikgenError as error:
            self.error = error

    def close(self, starting: threading.Thread) -> None:
        """Wait for the device, then free and destroy everything."""
        starting.join()
        with self.lock:
            if self.library is None or not self.runtime:
                return
            if self.context:
                use_cuda_context(self.context)
            with contextlib.suppress(LibraryError):
                self.library.wait(self.runtime)
            for memory in self.memories:
                with contextlib.suppress(LibraryError):
                    self.library.free(self.runtime, memory)
            for module in self.modules.values():
                self.library.destroy_module(module)
            if not self.context:
                self.library.destroy_runtime(self.runtime)
                return
            with self.cuda_lock:
                _Made.open_on_cuda -= 1
                if _Made.open_on_cuda == 0:
                    self.library.destroy_runtime(self.runtime)


class Engine:
    """A runtime of Taichi's C library for one arch and device, with its modules and its memory.

    It starts in a separate thread, while files are checked and NumPy is imported; the first use
    waits for it. Callers of the library hold :attr:`lock`. It is closed when nothing refers to it
    any more, and when Python exits.
    """

    def __init__(self, contents: Contents, arch: str, device: int) -> None:
        self._contents = contents
        self.arch = arch
        self.is_host = arch in HOST_ARCHS
        # The module with fields, if any: its kernels find them by the number of modules loaded
        # before it.
        self.first_module = ""
        self._made = made = _Made()
        self.lock = made.lock
        self._starting = threading.Thread(
            target=made.start, args=(contents, arch, device), name="tikgen-runtime"
        )
        self._starting.start()
        self.close = weakref.finalize(self, made.close, self._starting)
        self._is_of_parent = False
        _engines.add(self)
        self._capabilities: dict[str, int] | None = None
        # By address and size: they cannot be freed, and stay valid.
        self._imported: dict[tuple[int, int], int] = {}
        # Memory that nothing refers to any more. Garbage collection may run at any time, so it is
        # freed later, when the library is not in use.
        self._dropped: deque[int] = deque()
        self._is_busy = False
        # On other archs the host can access device memory.
        self._has_own_memory = arch == "vulkan"
        self._staging, self._staged = 0, 0

    @property
    def is_closed(self) -> bool:
        """Return whether it was closed."""
        return not self.close.alive

    @property
    def handle(self) -> int:
        """Return the library's runtime, or raise why there is none."""
        if self.is_closed:
            self.refuse()
        self._starting.join()
        if self._made.error is not None:
            raise self._made.error
        if self._made.context:  # It is current in the thread that created the runtime.
            use_cuda_context(self._made.context)
        return self._made.runtime

    def refuse(self) -> NoReturn:
        """Raise :class:`BundleError`: it was closed, or belongs to the parent of this fork."""
        is_forked = self._is_of_parent
        state = "was loaded before this process was forked" if is_forked else "is closed"
        raise BundleError(self._contents.path, f"{state}; load it again")

    def leave_to_parent(self) -> None:
        """Give it up in this process, a fork without the library's threads."""
        self._is_of_parent = True
        self.close.detach()
        self.lock = self._made.lock = threading.Lock()  # Its owner may be missing in the fork.

    @property
    def library(self) -> Library:
        """Return the library after the runtime has started; raises what :attr:`handle` raises."""
        self.handle  # noqa: B018
        library = self._made.library
        assert library is not None
        return library

    @property
    def capabilities(self) -> dict[str, int]:
        """Return the level of each capability of the device; empty except for Vulkan."""
        if self._capabilities is None:
            self._capabilities = self.library.capabilities(self.handle)
        return self._capabilities

    def require(self, name: str, capabilities: Sequence[str]) -> None:
        """Raise :class:`UnsupportedOnArch` if the device lacks what ``name`` needs."""
        if missing := [item for item in capabilities if not self.capabilities.get(item)]:
            raise UnsupportedOnArch(name, self.arch, f"this device lacks {', '.join(missing)}")

    def module(self, folder: str) -> int:
        """Return the module in a folder of the bundle, loaded at its first use."""
        modules = self._made.modules
        for name in (self.first_module or folder, folder):
            if name not in modules:
                modules[name] = self.library.load_module(
                    self.handle, self._contents.unpack(name) / name
                )
        return modules[folder]

    def import_host(self, address: int, size: int) -> int:
        """Return a handle of host memory."""
        key = address, size
        if key not in self._imported:
            self._imported[key] = self.library.import_host(self.handle, address, size)
        return self._imported[key]

    def allocate(self, size: int) -> int:
        """Return a handle of device memory, which :meth:`drop` frees."""
        if self._dropped:
            self.wait()
        return self._allocate(size, for_host=not self._has_own_memory)

    def _allocate(self, size: int, for_host: bool) -> int:
        made = self.library.allocate(self.handle, size, for_host)
        self._made.memories.add(made)
        return made

    def drop(self, memory: int) -> None:
        """Free device memory later; safe at any time, without the lock."""
        self._dropped.append(memory)

    def copy_in(self, memory: int, source: int, size: int) -> None:
        """Copy to device memory after all launches."""
        self.wait()
        library, runtime = self.library, self.handle
        if not self._has_own_memory:
            library.copy_in(runtime, memory, source, size)
            return
        staging = self._staging_of(size)
        for place in range(0, size, _MOST_STAGED):
            count = min(_MOST_STAGED, size - place)
            library.copy_in(runtime, staging, source + place, count)
            library.copy_on_device(runtime, (memory, place), (staging, 0), count)
            library.wait(runtime)

    def copy_out(self, memory: int, target: int, size: int) -> None:
        """Copy from device memory after all launches."""
        self.wait()
        library, runtime = self.library, self.handle
        if not self._has_own_memory:
            library.copy_out(runtime, memory, target, size)
            return
        staging = self._staging_of(size)
        for place in range(0, size, _MOST_STAGED):
            count = min(_MOST_STAGED, size - place)
            library.copy_on_device(runtime, (staging, 0), (memory, place), count)
            library.wait(runtime)
            library.copy_out(runtime, staging, target + place, count)

    def _staging_of(self, size: int) -> int:
        """Return memory that host and device can access, for at most ``_MOST_STAGED`` bytes."""
        wanted = min(size, _MOST_STAGED)
        if self._staged < wanted:
            if self._staging:
                self.drop(self._staging)
            self._staging = self._allocate(wanted, for_host=True)
            self._staged = wanted
        return self._staging

    def note_launch(self) -> None:
        """Note that the device may be busy."""
        self._is_busy = not self.is_host

    def wait(self) -> None:
        """Wait until the device is done, and free dropped memory."""
        if self._is_busy:
            self.library.wait(self.handle)
            self._is_busy = False
        while self._dropped:
            memory = self._dropped.popleft()
            self._made.memories.discard(memory)
            self.library.free(self.handle, memory)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    for engine in [*_engines]:
        engine.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)

"""Launches a loaded kernel by an engine beside Taichi."""

from __future__ import annotations

import struct
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

from tikgen import engines
from tikgen.errors import EngineUnavailable, TikgenError
from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.machine_code import MachineCode, why_not
from tikgen.pipeline.quick_call import QuickCall, quick_call
from tikgen.taichi import kernels, launcher, runtime
from tikgen.template.arguments import concrete_shape

# Archs on which launches over a cached context are proven correct.
_PROVEN_ARCHS = frozenset({"cpu", "cuda", "vulkan"})
# Sizes for which a thread keeps scratch arrays.
_MOST_SIZES = 16


def takes_context(loaded: Loaded, values: tuple[Any, ...]) -> bool:
    """Return whether ``values`` may be launched over a cached context, after compiling for them."""
    if runtime.current_arch() not in _PROVEN_ARCHS or not launcher.can_bind():
        return False
    # An opaque argument may take no slot, or several.
    if loaded.signature.is_opaque or loaded.needs_staging(values):
        return False
    loaded.compile_for(values)
    return kernels.is_plain_launch(loaded.function)


class Direct:
    """The machine code of a loaded kernel for one ``ti.init``, launched by any number of threads.

    Args:
        loaded: the kernel.
        engine: the engine.
        code: the machine code.
        most_bytes: up to how many bytes of arrays :meth:`call` launches it.
    """

    def __init__(
        self, loaded: Loaded, engine: str, code: engines.Code, most_bytes: int = sys.maxsize
    ) -> None:
        self.engine = engine
        self._most_bytes = most_bytes
        self.epoch = runtime.epoch()
        self.code = code
        self._signature, self._workspace = loaded.signature, loaded.workspace
        self._own = _Own()
        self._quick: QuickCall | None = None
        if code.pack_into is not None and not loaded.numbers:
            self._quick = quick_call(
                loaded.signature,
                bool(loaded.workspace),
                code.pack_into,
                loaded.counted,
                code.on_device,
            )

    def launcher(self) -> engines.DirectLauncher:
        """Return a new launcher, in which no argument is set."""
        return self.code.launcher()

    def scratch(self, sizes: Sequence[int]) -> list[Any]:
        """Return new scratch arrays; threads that launch at once cannot share them."""
        named = dict(zip(self._signature.symbols, sizes, strict=True))
        return [self.code.scratch(a.dtype, concrete_shape(a, named)) for a in self._workspace]

    def launch(self, loaded: Loaded, values: Sequence[Any]) -> None:
        """Launch the kernel once in this thread, with what its code takes."""
        made = self._own.launcher = self._own.launcher or self.launcher()
        made.set_all(values)
        loaded.launch_bound(made.launch)

    def passed(
        self, loaded: Loaded, values: Sequence[Any], sizes: Sequence[int]
    ) -> tuple[Any, ...]:
        """Return what the code takes for checked arguments, with the workspace of this thread."""
        return (*loaded.passed(values, sizes), *self.own_scratch(sizes))

    def call(self, loaded: Loaded, values: tuple[Any, ...]) -> bool:
        """Check the arguments and launch the kernel, both in the quickest way.

        Return False, without a launch, if that is not possible: the long way must be taken.

        Args:
            loaded: the code that the kernel has now.
            values: the arguments in order, of any kind and number.
        """
        if (
            self._quick is None
            or self._signature is not loaded.signature
            or not launcher.is_ordinary(self.epoch)
            or not loaded.is_loaded
        ):
            return False
        own = self._own
        made = own.launcher
        if made is None:
            made = own.launcher = self.launcher()
        try:
            count = self._quick(made.arguments, own.fields, values)
        except (TypeError, ValueError, OverflowError, RuntimeError, struct.error):
            return False
        if count is None or count > self._most_bytes or not made.packed(values, count):
            return False
        loaded.launch_bound(made.launch)
        return True

    def try_with(self, values: Sequence[Any]) -> float:
        """Launch the machine code once, without counting it; return the seconds that it took."""
        made = self.launcher()
        made.set_all(values)
        start = time.perf_counter()
        made.launch()
        return time.perf_counter() - start

    def own_scratch(self, sizes: Sequence[int]) -> list[Any]:
        """Return the scratch arrays of this thread for some sizes."""
        if not self._workspace:
            return []
        kept, key = self._own.scratch, tuple(sizes)
        if key not in kept:
            if len(kept) >= _MOST_SIZES:
                kept.clear()
                self._own.fields.clear()
            kept[key] = self.scratch(sizes)
            if self._quick is not None:
                self._own.fields[key] = tuple(
                    field for a in kept[key] for field in (*a.shape, self.code.address_of(a))
                )
        return kept[key]


class _Own(threading.local):
    """What a thread has of its own."""

    def __init__(self) -> None:
        self.launcher: engines.DirectLauncher | None = None
        # Scratch arrays by sizes, and their fields in a struct of arguments.
        self.scratch: dict[tuple[int, ...], list[Any]] = {}
        self.fields: dict[tuple[int, ...], tuple[Any, ...]] = {}


_directs: weakref.WeakKeyDictionary[Loaded, dict[str, Direct]] = weakref.WeakKeyDictionary()


def direct_of(loaded: Loaded, name: str) -> Direct:
    """Return the machine code of a kernel for an engine and ``ti.init``, made if missing.

    Raises:
        EngineUnavailable: if the kernel cannot run without Taichi.
        TikgenError: as a first launch by Taichi does.
    """
    known = _directs.get(loaded, {}).get(name)
    if known is not None and known.epoch is runtime.epoch():
        return known
    with runtime.compiling:
        made = Direct(loaded, name, MachineCode(loaded, name).load())
        _directs.setdefault(loaded, {})[name] = made
        return made


def compile_for(loaded: Loaded, option: str, given: Sequence[tuple[Any, ...]]) -> None:
    """Compile a kernel for each of some tuples of arguments, without a launch.

    Raises:
        EngineUnavailable: if an engine was named, and the kernel cannot run without Taichi.
        TikgenError: as a first launch by Taichi does.
    """
    option = engines.resolved(option, runtime.current_arch())
    by_taichi = option == engines.AUTO or direct_for(loaded, option) is None
    for values in given:
        if by_taichi:
            loaded.compile_for(loaded.prepare(values))
        else:
            loaded.check(values)


def is_compiled(loaded: Loaded, option: str, values: tuple[Any, ...] | None = None) -> bool:
    """Return whether what launches a kernel has code for some arguments, or None for any."""
    if not loaded.is_loaded:
        return False
    option = engines.resolved(option, runtime.current_arch())
    if option not in (engines.TAICHI, engines.AUTO) and not why_left(loaded):
        name = engines.for_arch(runtime.current_arch()) if option == engines.DIRECT else option
        made = _directs.get(loaded, {}).get(name)
        return made is not None and made.epoch is runtime.epoch()
    return loaded.is_compiled and (values is None or loaded.is_compiled_for(loaded.prepare(values)))


# Why Taichi launches a kernel that may also be launched directly, and the ``ti.init`` of that.
_left: weakref.WeakKeyDictionary[Loaded, tuple[object, str]] = weakref.WeakKeyDictionary()


def direct_for(loaded: Loaded, engine: str) -> Direct | None:
    """Return the machine code of a kernel for an engine; None if Taichi launches.

    Raises:
        EngineUnavailable: if an engine was named, and the kernel cannot run without Taichi.
        TikgenError: as a first launch by Taichi does.
    """
    if engine != engines.DIRECT:
        return None if engine == engines.TAICHI else direct_of(loaded, engine)
    if why_left(loaded):
        return None
    name = engines.for_arch(runtime.current_arch())
    why = engines.problem(name) if name else f"there is none for {runtime.current_arch()}"
    if not why and runtime.is_profiling():
        why = "Taichi's profiler must see each launch"
    if not why:
        try:
            return direct_of(loaded, name)
        except EngineUnavailable as error:
            why = error.why
        except TikgenError:  # Taichi would raise it too.
            raise
        except Exception as error:  # Such as a form that Taichi's exporter does not know.
            why = f"its machine code cannot be made: {type(error).__name__}: {error}"
    _left[loaded] = runtime.epoch(), why
    return None


def why_left(loaded: Loaded) -> str:
    """Return why Taichi launches a kernel, where that was found since ``ti.init``, or ""."""
    epoch, why = _left.get(loaded, (None, ""))
    return why if epoch is runtime.epoch() else ""


def engine_where_possible(loaded: Loaded) -> str:
    """Return the engine of the arch, or Taichi where that is known to launch the kernel."""
    name = engines.for_arch(runtime.current_arch()) if runtime.is_initialised() else ""
    if not name or not engines.works(name) or why_left(loaded):
        return engines.TAICHI
    if loaded.is_loaded and (runtime.is_profiling() or why_not(loaded, name)):
        return engines.TAICHI
    return name

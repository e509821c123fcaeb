"""Launches a loaded kernel by the engine direct-cpu."""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any

from tikgen import engines
from tikgen.errors import EngineUnavailable
from tikgen.pipeline.loaded import Loaded
from tikgen.taichi import artefacts, kernels, launcher, runtime
from tikgen.template.arguments import Array, Scalar

if TYPE_CHECKING:
    from tikgen.engines.direct_cpu import DirectLauncher

# Archs on which launches over a cached context are proven correct.
_PROVEN_ARCHS = frozenset({"cpu", "cuda", "vulkan"})


def is_proven(loaded: Loaded, values: tuple[Any, ...]) -> bool:
    """Return whether ``values`` may be launched over a cached context, after compiling for them."""
    if runtime.current_arch() not in _PROVEN_ARCHS or not launcher.can_bind():
        return False
    # An opaque argument may take no slot, or several.
    if loaded.signature.is_opaque or loaded.needs_staging(values):
        return False
    loaded.compile_for(values)
    return kernels.is_plain_launch(loaded.function)


class Direct:
    """The machine code of a loaded kernel for one ``ti.init``, and a launcher for each thread.

    Args:
        loaded: the kernel.
        values: arguments for it, checked and with its workspace.

    Raises:
        EngineUnavailable: if the kernel cannot run without Taichi.
    """

    def __init__(self, loaded: Loaded, values: tuple[Any, ...]) -> None:
        if why := _why_not(loaded, values):
            raise EngineUnavailable(loaded.name, engines.DIRECT_CPU, why)
        arguments = (*loaded.signature.arguments, *loaded.workspace)
        kinds = [
            (a.dtype, len(a.shape) if isinstance(a, Array) else None)
            for a in arguments
            if isinstance(a, Array | Scalar)
        ]
        try:
            with runtime.compiling:
                self._code = engines.compiled(artefacts.llvm_text(loaded.function), kinds)
        except ValueError as error:
            raise EngineUnavailable(loaded.name, engines.DIRECT_CPU, str(error)) from None
        self.epoch = runtime.epoch()
        self._threads = runtime.threads()
        self._launchers: dict[int, DirectLauncher] = {}

    def launcher(self) -> DirectLauncher:
        """Return a new launcher, in which no argument is set."""
        return engines.launcher(self._code, self._threads)

    def run(self, values: tuple[Any, ...]) -> None:
        """Launch the kernel once in this thread."""
        made = self._launchers.get(get_ident())
        if made is None:
            made = self._launchers[get_ident()] = self.launcher()
        made.set_all(values)
        made.launch()


_directs: weakref.WeakKeyDictionary[Loaded, Direct] = weakref.WeakKeyDictionary()


def direct_of(loaded: Loaded, values: tuple[Any, ...]) -> Direct:
    """Return the machine code of a kernel for the current ``ti.init``, made if missing.

    Raises:
        EngineUnavailable: if the kernel cannot run without Taichi.
    """
    found = _directs.get(loaded)
    if found is None or found.epoch is not runtime.epoch():
        found = _directs[loaded] = Direct(loaded, values)
    return found


def _why_not(loaded: Loaded, values: tuple[Any, ...]) -> str:
    if runtime.current_arch() != "cpu":
        return f"Taichi runs on {runtime.current_arch()}"
    stored = {a.storage for a in loaded.signature.arguments if isinstance(a, Array)}
    if "field" in stored:
        return "it takes fields"
    if not is_proven(loaded, values):
        return "debug mode, printing, a return value or an opaque argument needs Taichi"
    return ""

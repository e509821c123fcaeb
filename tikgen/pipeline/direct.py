"""Launches a loaded kernel by an engine beside Taichi."""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import Any

from tikgen import engines
from tikgen.errors import EngineUnavailable
from tikgen.pipeline.loaded import Loaded
from tikgen.taichi import kernels, launcher, runtime
from tikgen.template.arguments import Array, Scalar

# Archs on which launches over a cached context are proven correct.
_PROVEN_ARCHS = frozenset({"cpu", "cuda", "vulkan"})


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
    """The machine code of a loaded kernel for one ``ti.init``, and a launcher for each thread.

    Args:
        loaded: the kernel.
        name: the engine.
        values: arguments for it, checked and with its workspace.

    Raises:
        EngineUnavailable: if the kernel cannot run without Taichi.
    """

    def __init__(self, loaded: Loaded, name: str, values: tuple[Any, ...]) -> None:
        engine = engines.engine(name)
        if why := _why_not(loaded, engine, values):
            raise EngineUnavailable(loaded.name, name, why)
        arguments = (*loaded.signature.arguments, *loaded.workspace)
        kinds = [
            (a.dtype, len(a.shape) if isinstance(a, Array) else None)
            for a in arguments
            if isinstance(a, Array | Scalar)
        ]
        try:
            with runtime.compiling:
                text = engine.text_of(loaded.function)
                self.code = engine.load(engine.machine_code(text, kinds), kinds)
        except ValueError as error:
            raise EngineUnavailable(loaded.name, name, str(error)) from None
        self.epoch = runtime.epoch()
        self._launchers: dict[int, engines.DirectLauncher] = {}

    def run(self, values: tuple[Any, ...]) -> None:
        """Launch the kernel once in this thread."""
        made = self._launchers.get(get_ident())
        if made is None:
            made = self._launchers[get_ident()] = self.code.launcher()
        made.set_all(values)
        made.launch()


_directs: weakref.WeakKeyDictionary[Loaded, dict[str, Direct]] = weakref.WeakKeyDictionary()


def direct_of(loaded: Loaded, name: str, values: tuple[Any, ...]) -> Direct:
    """Return the machine code of a kernel for an engine and ``ti.init``, made if missing.

    Raises:
        EngineUnavailable: if the kernel cannot run without Taichi.
    """
    known = _directs.setdefault(loaded, {})
    found = known.get(name)
    if found is None or found.epoch is not runtime.epoch():
        found = known[name] = Direct(loaded, name, values)
    return found


def _why_not(loaded: Loaded, engine: engines.Engine, values: tuple[Any, ...]) -> str:
    if runtime.current_arch() != engine.ARCH:
        return f"Taichi runs on {runtime.current_arch()}"
    stored = {a.storage for a in loaded.signature.arguments if isinstance(a, Array)}
    if "field" in stored:
        return "it takes fields"
    if not takes_context(loaded, values):
        return "debug mode, printing, a return value or an opaque argument needs Taichi"
    return ""

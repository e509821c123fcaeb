"""Applies tikgen's patches while Taichi is imported, by whatever code.

Taichi's objects must be stamped from the beginning. Yet tikgen cannot import Taichi itself: a
program that only runs bundles does without, and importing Taichi takes longer than all the rest.

A sixth of that time went into one search: for each of its decorated functions Taichi reads the
source of the frame above, to find out whether a class holds the function.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

_TAICHI, _PATCHES = "taichi", "tikgen.taichi.patches"
_DECORATORS = "taichi.lang.kernel_impl"


class _Follower:
    """Finds a module as the other finders do, and makes its loader call a function afterwards."""

    def __init__(self, name: str, then: Callable[[types.ModuleType], object]) -> None:
        self._name, self._then = name, then

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the module with a loader of its own; None for all else."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        # Taichi's greeting would mix with the output of `tikgen render`.
        os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "False")
        # Python 3.12 and later warn of escapes in Taichi's files whenever they compile them: at
        # each start where no bytecode can be written.
        warnings.filterwarnings("ignore", category=SyntaxWarning, module=r".*[/\\]taichi[/\\]")
        spec = importlib.util.find_spec(fullname)
        loader = spec.loader if spec is not None else None
        if spec is None or loader is None:
            return spec
        execute = loader.exec_module

        def followed(module: types.ModuleType) -> None:
            execute(module)
            self._then(module)

        loader.exec_module = followed  # type: ignore[method-assign]
        return spec


def follow() -> None:
    """Import the patches now if Taichi is imported already, else right after Taichi."""
    # Else ti.init asks a server for a newer version, and sends it a number of this machine's own.
    os.environ.setdefault("TI_SKIP_VERSION_CHECK", "ON")
    if _TAICHI in sys.modules:
        importlib.import_module(_PATCHES)
    else:
        followers = (
            _Follower(_TAICHI, lambda _: importlib.import_module(_PATCHES)),
            _Follower(_DECORATORS, spare_search),
        )
        sys.meta_path[:0] = followers


def spare_search(kernel_impl: Any) -> None:
    """Have Taichi search for no class around what is decorated in the body of a module."""
    search = kernel_impl._inside_class
    if hasattr(search, "__wrapped__"):
        return

    @functools.wraps(search)
    def inside_class(level_of_class_stackframe: int) -> bool:
        # The frame below the one in question runs the body of the class, or of the module.
        body = sys._getframe(level_of_class_stackframe - 1).f_code
        found: bool = body.co_name != "<module>" and search(level_of_class_stackframe + 1)
        return found

    kernel_impl._inside_class = inside_class

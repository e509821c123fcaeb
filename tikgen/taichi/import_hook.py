"""Applies tikgen's patches right after Taichi is imported, by whatever code.

Taichi's objects must be stamped from the beginning. Yet tikgen cannot import Taichi itself: a
program that only runs bundles does without, and importing Taichi takes longer than all the rest.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Sequence

_TAICHI, _PATCHES = "taichi", "tikgen.taichi.patches"


class _Follower:
    """Finds Taichi as the other finders do, and makes its loader import the patches."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of Taichi with a loader that imports the patches; None for all else."""
        if fullname != _TAICHI:
            return None
        sys.meta_path.remove(self)
        # Its greeting would mix with the output of `tikgen render`.
        os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "False")
        spec = importlib.util.find_spec(fullname)
        loader = spec.loader if spec is not None else None
        if spec is None or loader is None:
            return spec
        execute = loader.exec_module

        def followed(module: types.ModuleType) -> None:
            execute(module)
            importlib.import_module(_PATCHES)

        loader.exec_module = followed  # type: ignore[method-assign]
        return spec


def follow() -> None:
    """Import the patches now if Taichi is imported already, else right after Taichi."""
    # Else ti.init asks a server for a newer version, and sends it a number of this machine's own.
    os.environ.setdefault("TI_SKIP_VERSION_CHECK", "ON")
    if _TAICHI in sys.modules:
        importlib.import_module(_PATCHES)
    else:
        sys.meta_path.insert(0, _Follower())

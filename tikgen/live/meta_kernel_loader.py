"""A loader with the interface of taichi-meta."""

from __future__ import annotations

import types
from collections import OrderedDict

from tikgen.live.text_loader import Loader


class MetaKernelLoader(Loader):
    """A :class:`Loader` that stands in for taichi-meta's ``MetaKernelLoader``."""

    def compile_and_load(self, kernel_code: str, kernel_id: str | None = None) -> types.ModuleType:
        """Load a text and return its module; raises what :meth:`Loader.load` raises.

        Args:
            kernel_code: a module with kernels.
            kernel_id: the name under which to keep it; ``kernel_<n>`` where it is not given.
        """
        return self.load(kernel_code, kernel_id)

    @property
    def kernel_cache(self) -> OrderedDict[str, types.ModuleType]:
        """Return the modules by id, the one that was loaded last at the end."""
        return OrderedDict((id, self[id]) for id in self)

    @property
    def current_kernel_id(self) -> str | None:
        """Return the id that was loaded last, None where nothing is loaded."""
        return self._latest

    @property
    def kernel_counter(self) -> int:
        """Return the number of the next id that is made up."""
        return self._unnamed_made

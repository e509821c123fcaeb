"""A field that the kernels of a loaded bundle share, read and written from outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from tikgen.aot import manifest
from tikgen.aot.running.c_engine import Engine
from tikgen.aot.running.launchable import Launchable
from tikgen.dtypes import DType
from tikgen.errors import ArgumentError
from tikgen.template.argument_checks import hidden_problem
from tikgen.template.here import Opened


class LoadedField(Opened):
    """A field of a loaded bundle, which its kernels read and write.

    Attributes:
        name: its name in the bundle.
        dtype: its element type.
        shape: its shape; axes of vectors and matrices come last.
    """

    def __init__(self, engine: Engine, described: manifest.Field) -> None:
        self.name = described.name
        self.dtype = DType(described.dtype)
        self.shape = (*described.shape, *described.element)
        # A field without axes is copied to an array that has one.
        axes = described.shape or (1,)
        self._passed = (*axes, *described.element)
        accessor = described.builds[engine.arch]

        def copier(entry: str, role: manifest.Role) -> Launchable:
            array = manifest.Argument(
                name="array",
                kind="array",
                dtype=described.dtype,
                shape=axes,
                element=described.element,
                role=role,
            )
            build = manifest.Build(module=accessor.module, entry=entry, digest="")
            kernel = manifest.Kernel(
                name=described.name, family="", arguments=(array,), builds={engine.arch: build}
            )
            return Launchable(engine, kernel, {})

        self._read = copier(accessor.read, "out")
        self._write = copier(accessor.write, "in")

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return a copy of the field, after all earlier launches.

        Raises:
            BundleError: if the runtime was closed.
            LibraryError: if the library reports an error.
        """
        made = np.empty(self.shape, self.dtype.numpy)
        self._read(made.reshape(self._passed))
        return made

    def from_numpy(self, array: np.ndarray[Any, Any]) -> None:
        """Take the values of a NumPy array of the same shape and dtype.

        Raises:
            ArgumentError: if shape or dtype differ.
            BundleError: if the runtime was closed.
            LibraryError: if the library reports an error.
        """
        if problem := hidden_problem("array", array):
            raise ArgumentError(self.name, problem)
        if isinstance(array, np.ndarray):
            shape = self._passed if array.shape == self.shape else array.shape
            array = np.ascontiguousarray(array).reshape(shape)
        self._write(array)

    def __repr__(self) -> str:
        return f"<field {self.name}: {self.dtype}{list(self.shape)}>"

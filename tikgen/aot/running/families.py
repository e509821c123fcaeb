"""Chooses among kernels that do the same for different dtypes, dimensions and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tikgen.aot.running.launchable import Launchable
from tikgen.errors import ArgumentError

# Kinds of arguments for which a choice is remembered.
_MOST_CHOSEN = 1024


class Family:
    """Kernels of one family; call it to call the one that suits the arguments.

    Attributes:
        name: name of the family.
        kernels: its kernels, those with most sizes baked in first.
    """

    def __init__(self, name: str, kernels: Sequence[Launchable]) -> None:
        self.name = name
        self.kernels = sorted(kernels, key=lambda kernel: (-kernel.baked, kernel.name))
        self._chosen: dict[tuple[Any, ...], Launchable] = {}

    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        """Launch the kernel that suits the arguments.

        Raises:
            ArgumentError: if no kernel suits, or an argument does not fit the one that does.
        """
        self.select(*args, **kwargs)(*args, **kwargs)

    def select(self, /, *args: Any, **kwargs: Any) -> Launchable:
        """Return the kernel that suits arguments, by dtype, dimension and shape.

        Raises:
            ArgumentError: if there is none; it says which ones there are.
        """
        key = tuple(map(_kind, args)), tuple((k, _kind(v)) for k, v in kwargs.items())
        found = self._chosen.get(key)
        if found is None:
            found = self._search(args, kwargs)
            if len(self._chosen) >= _MOST_CHOSEN:
                self._chosen.clear()
            self._chosen[key] = found
        return found

    def _search(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Launchable:
        for kernel in self.kernels:
            if kernel.signature.suits(args, kwargs):
                return kernel
        if len(self.kernels) == 1:  # Its own message says most.
            signature = self.kernels[0].signature
            signature.check(signature.order(args, kwargs))
        given = [*map(_shown, args), *(f"{k}={_shown(v)}" for k, v in kwargs.items())]
        known = "; ".join(f"{kernel.name}({kernel.signature})" for kernel in self.kernels)
        raise ArgumentError(self.name, f"no kernel suits ({', '.join(given)}); there are {known}")

    def __repr__(self) -> str:
        return f"<family {self.name}: {', '.join(kernel.name for kernel in self.kernels)}>"


def _kind(value: Any) -> tuple[Any, Any]:
    """Return what decides about an argument: dtype and shape of an array, type of a scalar."""
    dtype = getattr(value, "dtype", None)
    return (dtype, value.shape) if dtype is not None else (type(value), None)


def _shown(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return f"{dtype}{list(value.shape)}" if dtype is not None else type(value).__name__

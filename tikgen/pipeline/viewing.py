"""The kernels for views that belong to one kernel, made when such arrays are first met."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tikgen.errors import ArgumentError
from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.rendering import Variant
from tikgen.template.views import Views, is_contiguous, views_of


class _Launched(Protocol):
    @property
    def launches(self) -> int: ...


_Kernel = TypeVar("_Kernel", bound=_Launched)


class Viewing(Generic[_Kernel]):
    """The kernels for views of the code that a kernel has.

    Args:
        make: returns the kernel of a variant; without it views are refused.
    """

    def __init__(self, make: Callable[[Variant], _Kernel] | None) -> None:
        self._make = make
        self._known: tuple[Loaded | None, dict[Views | None, _Kernel]] = None, {}

    @property
    def launches(self) -> int:
        """Return the number of launches for views."""
        return sum(kernel.launches for kernel in tuple(self._known[1].values()))

    def check(self, loaded: Loaded, values: tuple[Any, ...]) -> list[int] | None:
        """Return the value of each size symbol, if the arguments fit; None if some are views.

        Args:
            loaded: the code for contiguous arrays, or that of a kernel for views.
            values: the arguments in order.

        Raises:
            ArgumentError: as :meth:`Loaded.check` does.
        """
        if self._known[1] and self._views_among(loaded, values):
            return None
        try:
            return loaded.check(values)
        except ArgumentError:
            if not self._views_among(loaded, values):
                raise
        return None

    def kernel_for(self, loaded: Loaded, values: Sequence[Any]) -> _Kernel | None:
        """Return the kernel that takes arguments of which some are views; None if none of them is.

        Args:
            loaded: the code for contiguous arrays.
            values: the arguments in order, unchecked.

        Raises:
            ArgumentError: if there is a view, and an argument does not fit.
        """
        given = self._views_among(loaded, values)
        if not given or self._make is None:
            return None
        of, known = self._known
        if of is not loaded:
            self._known = loaded, known = loaded, {}
        views = None
        with contextlib.suppress(AttributeError):  # Of what is no array.
            views = views_of(given)
        if views not in known:
            loaded.strided_signature.check(values)
            assert views is not None
            known[views] = self._make(dataclasses.replace(loaded.source.variant, views=views))
        return known[views]

    def has_views(self, loaded: Loaded, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Return whether a call has views, which other code takes than that of the kernel."""
        with contextlib.suppress(ArgumentError):
            return bool(self._views_among(loaded, loaded.signature.order(args, kwargs)))
        return False

    def _views_among(self, loaded: Loaded, values: Sequence[Any]) -> dict[str, Any]:
        """Return the arrays that may be views, by name; none where all of them are contiguous."""
        if self._make is None or loaded.numbers:
            return {}
        checks = zip(loaded.strided_signature.checks, values, strict=True)
        given = {c.name: value for c, value in checks if c is not None and c.strided}
        return {} if all(map(is_contiguous, given.values())) else given

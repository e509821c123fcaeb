"""The kernels for views that belong to one kernel, made when such arrays are first met."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.rendering import Variant
from tikgen.template.views import Views, is_contiguous, views_of

if TYPE_CHECKING:
    from tikgen.pipeline.kernel import Kernel


class Viewing:
    """The kernels for views of the code that a kernel has.

    Args:
        make: returns the kernel of a variant.
    """

    def __init__(self, make: Callable[[Variant], Kernel]) -> None:
        self._make = make
        self._known: tuple[Loaded | None, dict[Views | None, Kernel]] = None, {}

    @property
    def is_used(self) -> bool:
        """Return whether views were met."""
        return bool(self._known[1])

    def kernel_for(self, loaded: Loaded, values: Sequence[Any]) -> Kernel | None:
        """Return the kernel that takes arguments of which some are views; None if none of them is.

        Args:
            loaded: the code for contiguous arrays.
            values: the arguments in order, unchecked.

        Raises:
            ArgumentError: if there is a view, and an argument does not fit.
        """
        if loaded.source.variant.views is not None:
            return None
        signature = loaded.strided_signature
        checks = zip(signature.checks, values, strict=True)
        given = {c.name: value for c, value in checks if c is not None and c.strided}
        if all(map(is_contiguous, given.values())):
            return None
        of, known = self._known
        if of is not loaded:
            self._known = loaded, known = loaded, {}
        views = None
        with contextlib.suppress(AttributeError):  # Of what is no array.
            views = views_of(given)
        if views not in known:
            signature.check(values)
            assert views is not None
            variant = loaded.source.variant
            known[views] = self._make(dataclasses.replace(variant, views=views))
        return known[views]

"""Checks whether arrays fit the memory before they are allocated."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping

from tikgen.errors import ParameterError
from tikgen.machine.devices import memory_of_processor
from tikgen.template.arguments import Argument, Array, concrete_shape
from tikgen.template.shapes import array_bytes

_DRAWN_BYTES = 17


def free_host_bytes() -> int:
    """Return how much memory of the host is free without swapping."""
    if available := memory_of_processor().get("MemAvailable"):
        return available
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # The system does not say.
        return 2**63


def check_room(
    template: str, arch: str, arguments: Iterable[Argument], sizes: Mapping[str, int]
) -> None:
    """Raise :class:`ParameterError` where the arrays cannot fit the memory of the host.

    Whether they fit a GPU shows when it allocates them.
    """
    arrays = [a for a in arguments if isinstance(a, Array)]
    held, written = array_bytes(arrays, sizes), array_bytes((a for a in arrays if a.written), sizes)
    largest = max((math.prod(concrete_shape(a, sizes)) for a in arrays), default=0)
    # First values are drawn in f64, beside as many numbers that choose zeros and a mask.
    making = held + _DRAWN_BYTES * largest
    # With the arrays that kernels work on, if on the host, the expected outputs, a copy of the
    # outputs, and two temporaries of the comparison.
    comparing = held * (2 if arch == "cpu" else 1) + 4 * written
    needed, free = max(making, comparing), free_host_bytes()
    if needed > free:
        raise no_room(template, sizes, f"needs {_shown(needed)}, and {_shown(free)} are free")


def no_room(template: str, sizes: Mapping[str, int], problem: str) -> ParameterError:
    """Return the error for arrays that do not fit."""
    return ParameterError(
        template, {"shape": f"{tuple(sizes.values())} does not fit the memory: it {problem}"}
    )


def _shown(count: int) -> str:
    return f"{count / 1e9:.3g} GB"

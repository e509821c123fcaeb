"""What a launch wrote, beside the reference and the tolerance of its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import tikgen


class Compared(NamedTuple):
    """An output: its name, what was found, what is right, and the greatest error allowed."""

    name: str
    found: np.ndarray
    wanted: np.ndarray
    limit: Any


def compared(
    kernel: tikgen.Kernel, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Compared]:
    """Yield each output of a launch, in the precision of the reference.

    Args:
        kernel: what was launched.
        before: its arguments before the launch, by name, in the order of its signature.
        after: those after it.
    """
    names = [a.name for a in kernel.signature.arguments if getattr(a, "written", False)]
    expected = kernel.reference(*before.values())
    expected = expected if isinstance(expected, tuple) else (expected,)
    wanted = dict(zip(names, expected, strict=True))
    allowed = kernel.template.tolerance(kernel.problem, before, wanted)
    for name, value in wanted.items():
        rounding = 1e-6 * np.abs(value) if value.dtype.kind == "f" else 0
        yield Compared(name, after[name].astype(value.dtype), value, allowed[name] + rounding)


def assert_near(kernel: tikgen.Kernel, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Assert that a launch wrote what is right, up to the tolerance; infinities may be equal."""
    for name, found, wanted, limit in compared(kernel, before, after):
        with np.errstate(invalid="ignore"):  # Extremes of no points are infinite.
            near = np.abs(found - wanted) <= limit
        assert (near | (found == wanted)).all(), (name, found.shape)

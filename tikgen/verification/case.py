"""One trial that can be repeated anywhere, and its outcome; both travel as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tikgen import engines
from tikgen.children.job import KernelJob, KernelOutcome

Data = Literal["whole", "uniform", "sparse", "sorted", "records", "few", "large", "wide"]
Container = Literal["numpy", "ndarray", "fenced"]
# How often a launch is repeated at most, to see data races.
REPEATS = 20
Kind = Literal[
    "passed", "skipped", "mismatch", "error", "crash", "timeout", "uncompared", "invalid", "changed"
]


@dataclass(frozen=True, eq=False)
class Case(KernelJob):
    """A variant, the sizes of its arrays, and how its data is made.

    Attributes:
        data: ``"whole"`` for small whole numbers, ``"uniform"`` for numbers from -1 to 1 (small
            ones for integers) with some zeros, ``"sparse"`` mostly zeros, ``"sorted"`` ascending
            or descending numbers, ``"records"`` numbers of which a few exceed all before,
            ``"few"`` up to three halves, or whole numbers, over and over, ``"large"`` integers of
            64 bits that do not fit 32, ``"wide"`` numbers of all sizes for arguments whose
            ``values`` are ``"any"``.
        container: what holds arrays that are no fields: NumPy, ``ti.ndarray``, or ``"fenced"``:
            NumPy (torch on cuda) next to memory that may not even be read.
        inplace: for each output the input whose array it shares, where the kernel allows it; True
            for the first one that fits.
        engine: what launches the kernel.
        offline_cache: whether Taichi keeps compiled kernels on disk, in a folder of the run.
        fast_math: the option of ``ti.init``.
        text: text of a mutant, which replaces the rendered text.
        large: whether the case waits until smaller arrays have shown that it takes little time.
    """

    data: Data = "whole"
    container: Container = "numpy"
    inplace: bool | Mapping[str, str] = False
    engine: str = engines.TAICHI
    offline_cache: bool = False
    fast_math: bool = True
    text: str = ""
    large: bool = False

    @property
    def trial(self) -> dict[str, Any]:
        """Return everything but the variant: the arguments of a :class:`Trial`."""
        return {
            "sizes": dict(self.sizes),
            "seed": self.seed,
            "data": self.data,
            "container": self.container,
            "inplace": self.inplace,
            "baked": self.baked,
            "engine": self.engine,
            "repeats": 0 if self.text else REPEATS,
        }

    @property
    def _shared(self) -> str:
        if not isinstance(self.inplace, Mapping):
            return ""
        pairs = [f"{name} is {other}" for name, other in self.inplace.items()]
        return f" ({', '.join(pairs)})" if pairs else ""

    def __str__(self) -> str:
        params = ", ".join(f"{k}={v!r}" for k, v in self.params.items())
        sizes = ", ".join(f"{k}={v}" for k, v in self.sizes.items())
        held = {
            "numpy": "NumPy arrays",
            "ndarray": "ti.ndarray",
            "fenced": "arrays next to memory that may not be read",
        }[self.container]
        return (
            f"{self.template}({params}) with {sizes or 'fixed shapes'}, "
            f"{self.data} data of seed {self.seed} in {held}"
            f"{', in place' if self.inplace else ''}{self._shared}"
            f"{', sizes baked in' if self.baked else ''}"
            f"{f', launched by {self.engine}' if self.engine != engines.TAICHI else ''}"
            f"{', with an offline cache' if self.offline_cache else ''}"
            f"{'' if self.fast_math else ', without fast math'}, on {self.arch}"
        )


@dataclass(frozen=True)
class Outcome(KernelOutcome):
    """The outcome of a case.

    Attributes:
        kind: ``"passed"``, ``"skipped"``, or how it failed; ``"uncompared"`` where nothing was
            compared; ``"invalid"`` where a mutant cannot be compiled.
        worst: largest error as a fraction of the tolerance.
        error: largest absolute error.
        compared: for each output, how many elements have a finite tolerance.
        nonzero: for each output, how many elements must not be zero.
        loose: for each output, how many of those the tolerance would allow to be zero.
        engine: what launched the kernel; empty where it did not end.
        elements: elements of the largest array.
        seconds: what the reference took, inputs and tolerance included.
    """

    kind: Kind
    worst: float = 0.0
    error: float = 0.0
    compared: Mapping[str, int] = field(default_factory=dict)
    nonzero: Mapping[str, int] = field(default_factory=dict)
    loose: Mapping[str, int] = field(default_factory=dict)
    engine: str = ""
    elements: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether nothing is wrong."""
        return self.kind in ("passed", "skipped")


def literal(value: Any) -> Any:
    """Return a parameter's value as an equivalent Python literal."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {literal(k): literal(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return tuple(literal(v) for v in value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)

"""What a benchmark is: a problem with its inputs, how right it must be and what it must reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tikgen.pipeline.builder import resolve
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.catalogue import find_template

Arguments = dict[str, Any]
PIECE = 2**18
Machine = Literal["cpu", "gpu", "lavapipe"]


@dataclass(frozen=True)
class Target:
    """How fast tikgen must be.

    Attributes:
        against: key of a peer; ``copy`` for the bandwidth of a copy in the same run; ``bandwidth``
            for bytes a second.
        least: how many times as fast as ``against``, or the bytes a second.
    """

    against: str
    least: float


@dataclass(frozen=True)
class Work:
    """One problem of one size.

    Attributes:
        kind: names the form that each peer has for it.
        title: what is computed, for people.
        size: how much of it, for people.
        machine: where it is measured.
        template: tikgen's template.
        problem: parameters of the template.
        sizes: value of each size symbol.
        inputs: makes those arguments that random numbers in [0, 1) would not suit.
        rtol: greatest error allowed, as a fraction of the greatest value expected.
        peers_rtol: the same for peers, where plain loops are less accurate; None for ``rtol``.
        limit: what bounds it at best, ``copy`` (memory) or ``fma`` (arithmetic).
        targets: what it must reach.
    """

    kind: str
    title: str
    size: str
    machine: Machine
    template: str
    problem: Mapping[str, Any]
    sizes: Mapping[str, int]
    inputs: Callable[[Mapping[str, int], np.random.Generator], Arguments] = lambda _, __: {}
    rtol: float = 1e-5
    peers_rtol: float | None = None
    limit: Literal["copy", "fma"] = "copy"
    targets: tuple[Target, ...] = field(default=())

    @property
    def name(self) -> str:
        """Return the title with the size."""
        return f"{self.title} {self.size}"

    @property
    def cost(self) -> Any:
        """Return the bytes and flops of one launch, by the template's cost model."""
        return find_template(self.template).cost(self.parameters, self.sizes)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of the arrays that are written."""
        return tuple(a.name for a in self._arguments if isinstance(a, Array) and a.written)

    def arguments(self) -> Arguments:
        """Return the arguments by name, in order, with their outputs poisoned."""
        rng = np.random.default_rng(2026)
        made = self.inputs(self.sizes, rng)
        arguments: Arguments = {}
        for a in self._arguments:
            if a.name in made:
                arguments[a.name] = made[a.name]
            elif isinstance(a, Array):
                shape = concrete_shape(a, self.sizes)
                arguments[a.name] = (
                    np.empty(shape, a.dtype.numpy)
                    if a.written
                    else rng.random(shape, np.float32).astype(a.dtype.numpy, copy=False)
                )
        self.poison(arguments)
        return arguments

    def poison(self, arguments: Arguments) -> None:
        """Fill the outputs with what no result holds; a halo must keep it."""
        for name in self.outputs:
            array = arguments[name]
            array.fill(np.nan if array.dtype.kind == "f" else -1)

    def expected(self, arguments: Arguments) -> dict[str, np.ndarray]:
        """Return what the outputs must hold, by the template's NumPy reference."""
        found = find_template(self.template).reference(self.parameters, *arguments.values())
        arrays = found if isinstance(found, tuple) else (found,)
        return dict(zip(self.outputs, arrays, strict=True))

    def error(self, actual: np.ndarray, expected: np.ndarray) -> float:
        """Return the error as a fraction of the greatest value; NaN where another was kept."""
        if actual.shape != expected.shape:
            return float("nan")
        worst = scale = 0.0
        # In pieces that a cache holds: arrays of a gigabyte are compared in a second.
        for begin in range(0, expected.size, PIECE):
            found, right = (a.reshape(-1)[begin : begin + PIECE] for a in (actual, expected))
            kept = np.isnan(right)
            if not np.array_equal(kept, np.isnan(found)):
                return float("nan")
            worst = max(worst, float(np.abs(found - right).max(where=~kept, initial=0)))
            scale = max(scale, float(np.abs(right).max(where=~kept, initial=0)))
        return worst / scale if worst else 0.0

    @property
    def parameters(self) -> Any:
        """Return the parameters of the template, checked."""
        return resolve(self.template, arch="cpu", **self.problem).problem

    @property
    def _arguments(self) -> Any:
        return resolve(self.template, arch="cpu", **self.problem).arguments

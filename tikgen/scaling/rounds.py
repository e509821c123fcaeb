"""Several steps from one exchange of wider ghost layers to the next, as grids do them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tikgen.grid.binding import GridStep
from tikgen.grid.decomposition import Decomposition
from tikgen.grid.domain import Domain
from tikgen.grid.wide_layers import backwards, can_compute_ghosts, is_any
from tikgen.program.parts import Swap
from tikgen.program.program import Program
from tikgen.scaling.steps import Extents, Launch, launch_of, steps_of
from tikgen.template.grid_use import ArrayUse, Widths

Parts = Sequence[GridStep | Swap]


@dataclass(frozen=True)
class Round:
    """Steps that follow one exchange.

    Attributes:
        steps: how many.
        launches: each launch, and how many ghost points it computes on both sides of each axis.
        read: bytes of a point and layers of each field that is exchanged.
    """

    steps: int
    launches: tuple[tuple[Launch, Widths], ...]
    read: tuple[tuple[int, ArrayUse], ...]

    def moved(self, owned: Extents) -> list[tuple[str, int]]:
        """Return the kernel of each launch, and the bytes it moves for a rank in the middle."""
        return [
            (
                launch.kernel.name,
                launch.moved(tuple(n + sum(pair) for n, pair in zip(owned, widths, strict=True))),
            )
            for launch, widths in self.launches
        ]


def alike(program: Program) -> Parts:
    """Return the parts of a step if several steps may follow an exchange, or nothing."""
    first, parts = next(steps_of(program.parts), None), program.parts
    return parts if first is not None and first.repeats(parts) else ()


def most_steps(domain: Domain) -> int:
    """Return how many steps there are at most from one exchange to the next."""
    return 1 if domain.are_for_cache else domain.exchange_every


def round_of(parts: Parts, steps: int, decomposition: Decomposition) -> Round | None:
    """Return some steps with one exchange; None where ranks cannot do them, or need no exchange.

    Args:
        parts: what :func:`alike` returns.
        steps: how many steps.
        decomposition: how ranks divide the grid.
    """
    divided = [count > 1 for count in decomposition.ranks]
    if not parts or not can_compute_ghosts(divided, decomposition.periodic, parts):
        return None
    repeated = list(parts) * steps
    widths, needs = backwards(divided, repeated)
    owned = [decomposition.fewest(axis) for axis in range(len(divided))]
    for layers in needs.values():
        if any(max(pair) > fewest for pair, fewest in zip(layers, owned, strict=True)):
            return None
    corners = sum(divided) > 1
    read = tuple(
        (field.bytes_a_point, ArrayUse(field.first_axis, tuple(layers), corners, (), False))
        for field, layers in needs.items()
        if is_any(layers)
    )
    launches = tuple(
        (launch_of(part), own)
        for part, own in zip(repeated, widths, strict=True)
        if isinstance(part, GridStep)
    )
    return Round(steps, launches, read) if read else None

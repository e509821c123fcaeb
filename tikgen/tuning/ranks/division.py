"""How a problem of a template is divided among ranks, or why it is not; nothing is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tikgen.errors import GridError
from tikgen.grid.decomposition import Decomposition, balanced, by
from tikgen.grid.domain import Domain
from tikgen.grid.processes import Processes
from tikgen.grid.regions import Region
from tikgen.grid.transports import Alone
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.base import Template
from tikgen.template.blame import blamed
from tikgen.template.grid_use import GridUse

# Others have no memory that a grid's messages reach without a copy of all of it.
ARCHS = ("cpu", "cuda")


@dataclass(frozen=True)
class Division:
    """The grid of a problem.

    Attributes:
        use: what the kernel does with its points.
        shape: number of points along each axis.
        periodic: for each axis whether its two ends are neighbours.
        halo: width of the ghost layers of each axis.
    """

    use: GridUse
    shape: tuple[int, ...]
    periodic: tuple[bool, ...]
    halo: tuple[int, ...]

    def first_part(self, ranks: int) -> Region:
        """Return the part of rank 0.

        Raises:
            GridError: if not every rank owns points.
        """
        least = tuple(max(1, width) for width in self.halo)
        counts = balanced(self.shape, ranks, least)
        whole = Decomposition(self.shape, counts, self.periodic)
        if whole.count < ranks:
            raise GridError(
                f"{by(self.shape)} points are too few for {ranks} ranks: along an axis that is "
                f"divided each owns {by(least)} or more, as ghost layers are wide; "
                f"{whole.count} fit"
            )
        return Domain(whole, Processes(Alone()), self.halo).part


def division_of(template: Template, problem: Any, sizes: Mapping[str, int]) -> Division:
    """Return the grid of a problem.

    Args:
        template: the template.
        problem: the problem, of the whole grid.
        sizes: value of each size symbol.

    Raises:
        GridError: if the kernel cannot compute a part of a grid.
    """
    with blamed(template, "grid_use()"):
        use = template.grid_use(problem)
    if use is None:
        raise GridError(
            f"{template.name} does not run on ranks, as it computes no part of a grid; update and "
            "map do, and templates with grid_use"
        )
    for name in ("part", "window"):
        if getattr(problem, name, None):
            raise GridError(f"{template.name} on ranks takes no {name}=; the grid chooses it")
    arrays = {a.name: a for a in template.arguments(problem) if isinstance(a, Array)}
    name, first = next(iter(use.arrays.items()))
    extents = concrete_shape(arrays[name], sizes)
    shape = extents[first.first_axis : first.first_axis + use.dim]
    periodic = tuple(
        any(True in each.periodic[axis] for each in use.arrays.values()) for axis in range(use.dim)
    )
    halo = tuple(
        max(max(each.reach[axis]) for each in use.arrays.values()) for axis in range(use.dim)
    )
    return Division(use, shape, periodic, halo)

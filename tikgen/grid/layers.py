"""What matched layers keep of derivatives: a field over the points of the layers of an axis.

Points lie one behind the other along that axis, those of the lower layer and then those of the
upper one, as in the arrays that kernels take. A process has room for all of them, and owns those
whose points it owns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.grid.decomposition import Range
from tikgen.grid.domain import Domain
from tikgen.grid.field import Field
from tikgen.template.grid_use import LayersUse

NDArray = npt.NDArray[Any]


class Layers(Field):
    """What the layers of an axis keep; made by :meth:`Grid.matched_layers`.

    Args:
        domain: the grid.
        dtype: type of its elements.
        components: number of components, which come first.
        use: the layers.
        fill: fills what this process owns; without it, it is 0.
    """

    def __init__(
        self,
        domain: Domain,
        dtype: DType,
        components: int,
        use: LayersUse,
        fill: Callable[[NDArray], None] | None = None,
    ) -> None:
        super().__init__(domain, dtype, components, "first", fill or (lambda owned: None))
        self.use = use

    @property
    def points(self) -> tuple[int, ...]:
        """Return the number of points along each axis: those of both layers along theirs."""
        return self._with(self.domain.shape, sum(self.use.widths))

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the extents of the array of this process along the axes of the grid."""
        return self._with(self.domain.extents, sum(self.use.widths))

    @property
    def inner(self) -> tuple[slice, ...]:
        """Return where in the array the owned points lie along the axes of the grid."""
        own = self.owned_by(self.domain.processes.rank)[self.use.axis]
        return self._with(self.domain.inner, slice(*own))

    def owned_by(self, rank: int) -> tuple[Range, ...]:
        """Return the points that a process owns along the axes of the grid."""
        owned = super().owned_by(rank)
        start, stop = owned[self.use.axis]
        return self._with(owned, (self._below(start), self._below(stop)))

    def on(self, domain: Domain, fill: Callable[[NDArray], None]) -> Field:
        """Return a field like this one of another grid."""
        return Layers(domain, self.dtype, self.components, self.use, fill)

    def _below(self, index: int) -> int:
        """Return how many places lie below an index, unused ones of thin grids included."""
        (low, high), extent = self.use.widths, self.domain.shape[self.use.axis]
        if index >= extent:
            return low + high
        return index if index <= low else low + max(0, index - (extent - high))

    def _with(self, axes: tuple[Any, ...], own: Any) -> tuple[Any, ...]:
        return (*axes[: self.use.axis], own, *axes[self.use.axis + 1 :])

    def __repr__(self) -> str:
        return f"<Layers {self.number} of {self.dtype}, of axis {self.use.axis} of {self.domain}>"

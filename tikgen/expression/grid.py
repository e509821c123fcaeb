"""What the meaning of equations depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tikgen.dtypes import DType


@dataclass(frozen=True)
class Grid:
    """The grid of equations, and what their names mean.

    Attributes:
        dim: number of axes.
        order: order of accuracy of derivatives, even.
        spacing: distance between points on each axis.
        scalars: names that are numbers of a call.
        constants: numbers by name.
        at: the axes on which each field lies half a cell before the centre.
        outputs: names without a prime that are written; None for those that nothing reads.
        mask: array that says which points keep their values; None for no such array.
        vectors: number of components of each vector.
        lists: constants that are lists of numbers.
        where: conditions by name.
        layers: axes with matched layers for each field; those of all fields for "".
        arrays: names of arrays, which may be those of indices and coordinates.
        dtype: where it is given, what cannot be computed in it is refused.
    """

    dim: int
    order: int = 2
    spacing: tuple[float, ...] = (1.0, 1.0, 1.0)
    scalars: tuple[str, ...] = ()
    constants: Mapping[str, float] = field(default_factory=dict)
    at: Mapping[str, frozenset[int]] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = None
    mask: str | None = None
    vectors: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    layers: Mapping[str, frozenset[int]] = field(default_factory=dict)
    arrays: tuple[str, ...] = ()
    dtype: DType | None = None

    @property
    def numbers(self) -> tuple[str, ...]:
        """Return the names of numbers that are equal at all points."""
        return (*self.scalars, *self.constants)

    def __hash__(self) -> int:
        return hash((self.dim, self.order, self.spacing, self.scalars, self.outputs, self.mask))

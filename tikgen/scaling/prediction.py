"""A prediction: tables of weak and strong scaling, and a picture with what was measured."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tikgen.errors import GridError, TikgenError
from tikgen.grid.decomposition import by
from tikgen.scaling.given import real, shown, whole
from tikgen.tuning.pictures import saved
from tikgen.units import duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("strong", "weak")


@dataclass(frozen=True)
class Point:
    """A step on a number of ranks.

    Attributes:
        ranks: how many.
        shape: points of the whole grid.
        parts: number of ranks along each axis.
        computing: seconds of its launches.
        exchanging: seconds of its exchanges of ghost layers.
        joining: seconds of its joins of reductions.
        exchange_every: how many steps there are from one exchange to the next.
    """

    ranks: int
    shape: tuple[int, ...]
    parts: tuple[int, ...]
    computing: float
    exchanging: float
    joining: float
    exchange_every: int = 1

    @property
    def seconds(self) -> float:
        """Return how long the step takes."""
        return self.computing + self.exchanging + self.joining


@dataclass(frozen=True)
class Prediction:
    """What :func:`tikgen.scaling.predict` returns.

    Attributes:
        strong: the grid of the program on more and more ranks, from one.
        weak: grids that grow with the number of ranks, from one.
    """

    strong: tuple[Point, ...]
    weak: tuple[Point, ...]

    def points(self, kind: str) -> tuple[Point, ...]:
        """Return the points of ``"strong"`` or ``"weak"`` scaling.

        Raises:
            GridError: if it is something else.
        """
        if kind not in KINDS:
            raise GridError(f"scaling is 'strong' or 'weak'; got {kind!r}")
        return self.strong if kind == "strong" else self.weak

    def efficiency(self, kind: str) -> dict[int, float]:
        """Return, by number of ranks, the share of a step that one rank's work would take.

        Raises:
            GridError: if ``kind`` is neither ``"strong"`` nor ``"weak"``.
        """
        points = self.points(kind)
        alone = points[0].seconds
        return {
            point.ranks: alone / point.seconds / (point.ranks if kind == "strong" else 1)
            for point in points
        }

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        measured: Mapping[str, Mapping[int, float]] | None = None,
    ) -> Figure:
        """Draw the time of a step over the number of ranks (extra ``plot``).

        Args:
            path: the picture to write; None for none.
            measured: seconds of a step that were measured, by ``"strong"`` or ``"weak"`` and number
                of ranks.

        Raises:
            GridError: if ``measured`` has other kinds, or anything but numbers.
            TikgenError: if matplotlib is missing, or the picture cannot be written.
        """
        return saved(_drawn(self, self._measured(measured or {})), path)

    def _measured(self, given: Any) -> dict[str, dict[int, float]]:
        """Return what was measured as numbers of Python; raise GridError if it is not that."""
        if not isinstance(given, Mapping):
            raise GridError(f"measured takes a dict by 'strong' or 'weak'; got {shown(given)}")
        found: dict[str, dict[int, float]] = {}
        for kind, times in given.items():
            self.points(kind)
            by_ranks = times if isinstance(times, Mapping) else {0: 0}
            found[kind] = {whole(ranks): real(seconds) for ranks, seconds in by_ranks.items()}
            if not all(ranks >= 1 and 0 < s < math.inf for ranks, s in found[kind].items()):
                raise GridError(
                    f"measured[{kind!r}] takes a dict of seconds, greater than 0, by numbers of "
                    f"ranks; got {shown(times)}"
                )
        return found

    def __str__(self) -> str:
        return "\n\n".join(self._table(kind) for kind in KINDS)

    def _table(self, kind: str) -> str:
        parts = ("computing", "exchanging", "joining")
        heads = ("ranks", "grid", "divided", "step", *parts, "every", "efficiency")
        rows: list[tuple[str, ...]] = [heads]
        shares = self.efficiency(kind)
        for p in self.points(kind):
            times = (p.seconds, p.computing, p.exchanging, p.joining)
            texts = (duration(seconds) if seconds else "0" for seconds in times)
            every, share = str(p.exchange_every), f"{shares[p.ranks]:.0%}"
            rows.append((f"{p.ranks:,}", by(p.shape), by(p.parts), *texts, every, share))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
            for row in rows
        ]
        return "\n".join([f"{kind} scaling", *lines])


def _drawn(found: Prediction, measured: Mapping[str, Mapping[int, float]]) -> Any:
    try:
        from tikgen.scaling import drawing
    except ImportError:
        raise TikgenError("Pictures need matplotlib: pip install 'tikgen[plot]'.") from None
    return drawing.figure_of({kind: found.points(kind) for kind in KINDS}, measured)

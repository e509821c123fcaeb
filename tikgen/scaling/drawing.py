"""Draws predictions of scaling beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tikgen.tuning.plots import COLOURS, PALE


def figure_of(
    panels: Mapping[str, Sequence[Any]], measured: Mapping[str, Mapping[int, float]]
) -> Figure:
    """Return the picture: a panel for the points of each kind of scaling."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    drawn = figure.subplots(1, len(panels))
    for axes, (kind, points) in zip(drawn, panels.items(), strict=True):
        ranks = [point.ranks for point in points]
        alone = points[0].seconds
        ideal = [alone / n if kind == "strong" else alone for n in ranks]
        axes.loglog(ranks, ideal, color=PALE, linestyle=":", label="ideal")
        for colour, name in zip(COLOURS, ("seconds", "computing", "exchanging"), strict=False):
            values = [getattr(point, name) or float("nan") for point in points]
            label = "step" if name == "seconds" else name
            style = "-" if name == "seconds" else "--"
            axes.loglog(ranks, values, style, color=colour, label=label)
        if given := measured.get(kind):
            axes.loglog(
                sorted(given), [given[n] for n in sorted(given)], "ko", ms=5, label="measured"
            )
        axes.set(title=f"{kind} scaling", xlabel="ranks", ylabel="seconds of a step")
        axes.legend(fontsize=8)
    return figure

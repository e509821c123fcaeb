"""Draws a run of the demonstration: three slices of the cube and the decay of the heat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tikgen.disk import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tikgen.demo.demo_result import DemoResult, History
    from tikgen.demo.heat import ExactHeat

_INK, _PALE = "#222222", "#777777"


def draw(picture: Path, exact: ExactHeat, history: History, result: DemoResult) -> None:
    """Write the PNG ``picture``."""
    figure = Figure(figsize=(13, 4.1), dpi=140, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.35))
    shown = sorted({0, len(history.steps) // 4, len(history.steps) - 1})
    for panel, index in zip(axes, shown, strict=False):
        field = history.slices[index]
        image = panel.imshow(
            field.T,
            origin="lower",
            extent=(0, 1, 0, 1),
            cmap="inferno",
            vmin=0,
            interpolation="bilinear",
        )
        panel.set_title(f"step {history.steps[index]:,}", fontsize=11, color=_INK)
        panel.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1), xlabel="x")
        panel.tick_params(labelsize=8, colors=_PALE)
        bar = figure.colorbar(image, ax=panel, orientation="horizontal", shrink=0.85, aspect=28)
        bar.locator = MaxNLocator(4)
        bar.ax.tick_params(labelsize=8, colors=_PALE)
        bar.outline.set_visible(False)
    axes[0].set_ylabel("y, at z = 0.5")
    _draw_decay(axes[-1], exact, history)
    figure.suptitle(
        f"Heat in a cube with cold walls: {result.n}³ points, {result.steps:,} steps, "
        f"{result.speed_ratio:.1f} × NumPy, error {result.error_to_discrete:.0e}",
        fontsize=13,
        color=_INK,
    )
    with whole(picture) as new:
        figure.savefig(new)


def _draw_decay(panel: Axes, exact: ExactHeat, history: History) -> None:
    fine = np.unique(np.linspace(0, history.steps[-1], 40).astype(int))
    curves = np.array([exact.norms(int(step)) for step in fine])
    panel.plot(fine, curves[:, 1], color="#f98e09", lw=5, alpha=0.45, label="differential equation")
    panel.plot(fine, curves[:, 0], color="#57106e", lw=1.4, label="difference equation")
    panel.plot(
        history.steps, history.norms, "o", ms=5.5, mfc="white", mec=_INK, label="generated kernel"
    )
    panel.set_yscale("log")
    panel.set_title("root mean square of the temperature", fontsize=11, color=_INK)
    panel.set_xlabel("step")
    panel.tick_params(labelsize=8, colors=_PALE, which="both")
    panel.grid(alpha=0.25, which="both", lw=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=9, title="exact lines and computed dots", title_fontsize=9)

"""Draws how fast each peer is beside tikgen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peers import LABELS
from tables import ours
from works import WORKS


def plot(path: Path, results: dict[str, dict[str, Any]]) -> None:
    """Write bars from tikgen's speed to that of each peer, one panel for each run."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    heights = [len(_bars(result)) for result in results.values()]
    figure, axes = plt.subplots(
        len(results),
        figsize=(8, 0.16 * sum(heights) + 1.2 * len(results)),
        squeeze=False,
        height_ratios=heights,
        layout="constrained",
    )
    for axis, (title, result) in zip(axes.flat, results.items(), strict=True):
        _draw(axis, title, result)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _bars(result: dict[str, Any]) -> list[tuple[str, str, float] | None]:
    """Return work, peer and speed for each bar, and None where a gap parts two works."""
    bars: list[tuple[str, str, float] | None] = []
    for work in WORKS:
        found = result["works"].get(work.name)
        best = ours(found) if found else None
        if best is None or found["machine"] != work.machine:
            continue
        for key in LABELS:
            median = found["peers"].get(key, {}).get("median")
            if median is not None and key not in ("default", "tuned"):
                bars.append((work.name, key, best / median))
        bars.append(None)
    return bars


def _draw(axis: Any, title: str, result: dict[str, Any]) -> None:
    colours = dict(zip(LABELS, ("", "", *(f"C{n}" for n in range(7))), strict=True))
    seen, places, names = set(), [], []
    for place, bar in enumerate(_bars(result)):
        if bar is None:
            continue
        work, key, speed = bar
        label = LABELS[key] if key not in seen else None
        axis.barh(place, speed - 1, left=1, height=0.9, color=colours[key], label=label)
        if work not in names:
            names.append(work)
            places.append([])
        places[-1].append(place)
        seen.add(key)
    axis.set_xscale("log")
    axis.set_yticks([sum(p) / len(p) for p in places], names)
    axis.invert_yaxis()
    axis.axvline(1, color="black", linewidth=1)
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)
    axis.set_xlabel("speed beside tikgen, the better of default and tuned (1 = tikgen)")
    axis.set_title(title)
    axis.legend(fontsize=8, ncols=2, loc="best")

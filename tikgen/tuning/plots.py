"""Draws sweeps as lines, heat maps and rooflines, and the search of a tuning."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from tikgen.errors import TikgenError
from tikgen.pipeline.records import Record
from tikgen.tuning.sweeps.rows import GREATEST, Row
from tikgen.units import size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

INK, PALE = "#222222", "#777777"
# Okabe and Ito (2008), for colour-blind readers as well.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
MARKERS = "osD^vP*X"
_LABELS = {
    "seconds": "time of a launch",
    "compile_seconds": "time to compile",
    "spread": "spread of the rounds",
    "gb_per_s": "GB/s",
    "gflop_per_s": "GFLOP/s",
    "share": "share of the machine's limit",
    "worst": "error over the error allowed",
}
# Above this ratio an axis is logarithmic.
_LOG_RATIO = 8.0
_MOST_LINES = 8
_LABEL_WIDTH = 48
_MOST_NOTED_CELLS = 150


def draw(
    rows: Sequence[Row],
    given: Sequence[str],
    measured: Sequence[str],
    x: str | None,
    y: str | None,
    hue: str | None,
) -> Figure:
    """Return the figure of :meth:`tikgen.SweepResult.plot` for rows that have a time.

    ``given`` are the axes of the sweep, ``measured`` the columns that are no axes.
    """
    if not rows:
        raise TikgenError("Nothing was timed, so that there is nothing to draw.")
    axes = [*given, "shape"]
    if x is None:
        x = next((name for name in axes if name != y and _is_numeric(rows, name)), axes[0])
    if y is not None and y not in measured:
        left = [name for name in given if name not in (x, y)]
        return _heat_map(rows, x, y, hue or "seconds", left)
    others = [name for name in given if name != x]
    if hue is None:
        hue = next((n for n in others if len({repr(r[n]) for r in rows}) <= _MOST_LINES), None)
    left = [name for name in others if name != hue]
    return _lines(rows, x, y or "seconds", hue, left)


def _lines(rows: Sequence[Row], x: str, y: str, hue: str | None, left: list[str]) -> Figure:
    figure, panel = _figure(rows, (7.2, 4.4))
    rows = _with(rows, y)
    places, is_number = _places(rows, x)
    factor, unit = _scale(y, [row[y] for row in rows])
    groups: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: _sort_key(row[hue]) if hue else ()):
        groups.setdefault(str(row[hue]) if hue else "", []).append(row)
    values = []
    for number, (name, group) in enumerate(groups.items()):
        best = _best_at(group, (x,), y)
        values += [row[y] * factor for row in best.values()]
        points = sorted((places[key], row[y] * factor) for (key,), row in best.items())
        panel.plot(
            *zip(*points, strict=True),
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            ls="-" if number < len(COLOURS) else "--",
            lw=1.8,
            ms=6,
            mec="white",
            mew=0.7,
            label=name,
        )
    _dress_x(panel.xaxis, places, is_number)
    if min(values) > 0 and max(values) > _LOG_RATIO * min(values):
        panel.set_yscale("log")
        _plain_numbers(panel.yaxis)
    else:
        panel.set_ylim(min(0.0, *values), 1.08 * max(values))
    panel.set_xlabel(x, color=INK)
    panel.set_ylabel(_label(y, unit, left), color=INK)
    if hue and len(groups) > 1:
        panel.legend(title=hue, frameon=False, fontsize=9, title_fontsize=9)
    return figure


def _heat_map(rows: Sequence[Row], x: str, y: str, value: str, left: list[str]) -> Figure:
    rows = _with(rows, value)
    across, down = _places(rows, x)[0], _places(rows, y)[0]
    columns, lines = list(across), list(down)
    factor, unit = _scale(value, [row[value] for row in rows])
    grid = np.full((len(lines), len(columns)), np.nan)
    for (at_x, at_y), row in _best_at(rows, (x, y), value).items():
        grid[lines.index(at_y), columns.index(at_x)] = row[value] * factor
    width, height = max(4.8, 1.9 + 0.8 * len(columns)), max(3.0, 1.5 + 0.5 * len(lines))
    figure, panel = _figure(rows, (width, height))
    low, high = float(np.nanmin(grid)), float(np.nanmax(grid))
    is_log = low > 0 and high > _LOG_RATIO * low
    # Light is good: little time, or much of a rate.
    colours = "viridis" if value in GREATEST else "viridis_r"
    norm = LogNorm(low, high) if is_log else Normalize(min(low, 0.0) if low == high else low, high)
    image = panel.pcolormesh(grid, cmap=colours, norm=norm, edgecolors="white", linewidth=1.5)
    panel.set_facecolor("#eeeeee")
    if grid.size <= _MOST_NOTED_CELLS:
        for (line, column), cell in np.ndenumerate(grid):
            known = not np.isnan(cell)
            red, green, blue, _ = image.cmap(norm(cell)) if known else (1, 1, 1, 1)
            is_dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
            panel.text(
                column + 0.5,
                line + 0.5,
                f"{cell:.3g}" if known else "–",
                ha="center",
                va="center",
                fontsize=9,
                color="white" if is_dark else INK if known else PALE,
            )
    panel.set_xticks(np.arange(len(columns)) + 0.5, columns)
    panel.set_yticks(np.arange(len(lines)) + 0.5, lines)
    panel.tick_params(length=0)
    panel.grid(False)
    panel.spines[:].set_visible(False)
    panel.set_xlabel(x, color=INK)
    panel.set_ylabel(y, color=INK)
    bar = figure.colorbar(image, ax=panel, label=_label(value, unit, left), aspect=25)
    bar.outline.set_visible(False)
    if is_log:
        bar.ax.yaxis.set_major_formatter("{x:g}")
        bar.ax.yaxis.set_minor_formatter("{x:.2g}")
    return figure


def draw_roofline(timed: Sequence[Row]) -> Figure:
    """Return the roofline of rows that have a time (Williams, Waterman and Patterson 2009)."""
    needed = ("flops", "bytes", "gflop_per_s", "limit_gb_per_s")
    rows = [r for r in timed if all(r.get(name) for name in needed)]
    if not rows:
        raise TikgenError(
            "A roofline needs rows with a time, operations, bytes and limits; keep the columns "
            f"{', '.join(needed)} among the metrics. A template declares its operations by "
            "flops(p, sizes)."
        )
    figure, panel = _figure(rows, (7.6, 4.9))
    intensity = [row["flops"] / row["bytes"] for row in rows]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[n]) for n in ("arch", "dtype") if n in row), []).append(row)
    ridges = [
        row["limit_gflop_per_s"] / row["limit_gb_per_s"] for row in rows if row["limit_gflop_per_s"]
    ]
    reach = np.geomspace(min(intensity) / 2.5, max(*intensity, *ridges, 1) * 2.5, 300)
    for number, (name, group) in enumerate(groups.items()):
        colour = COLOURS[number % len(COLOURS)]
        limits = _draw_roofs(panel, group, reach, colour)
        panel.plot(
            [row["flops"] / row["bytes"] for row in group],
            [row["gflop_per_s"] for row in group],
            MARKERS[number % len(MARKERS)],
            color=colour,
            mec="white",
            mew=0.6,
            ms=6.5,
            alpha=0.85,
            ls="",
            label=f"{' '.join(name)}: {limits}",
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(reach[0], reach[-1])
    panel.set_ylim(bottom=min(row["gflop_per_s"] for row in rows) / 2)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("operations per byte moved (FLOP/B)", color=INK)
    panel.set_ylabel("GFLOP/s", color=INK)
    figure.legend(
        *panel.get_legend_handles_labels(),
        loc="outside lower center",
        frameon=False,
        fontsize=9,
        title="dots: kernels; lines: what the machine can do, dotted with smaller arrays",
        title_fontsize=8,
    )
    return figure


def draw_search(
    title: str,
    seconds: Sequence[float],
    best: Record,
    speedup: float | None,
    interval: tuple[float, float] | None,
) -> Figure:
    """Return a figure of the seconds of each candidate, and of what was proven in the end."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes, least = figure.add_subplot(), 1e3 * best.seconds
    axes.plot(range(1, len(seconds) + 1), [1e3 * s for s in seconds], "o", ms=4, label="candidate")
    if speedup is not None:
        axes.axhline(least * speedup, color="C7", ls="--", label="default schedule")
        if speedup != 1:
            axes.axhline(least, color="C1", label=textwrap.fill(best.gain, 40))
        if interval is not None:
            low, high = (least * speedup / bound for bound in interval)
            axes.axhspan(high, low, color="C1", alpha=0.2)
    axes.set(xlabel="candidate", ylabel="ms a launch", yscale="log", title=title)
    _plain_numbers(axes.yaxis)
    axes.legend()
    return figure


def _draw_roofs(panel: Axes, rows: Sequence[Row], reach: Any, colour: str) -> str:
    """Draw a roof for each copy that was measured; return the limits of the largest arrays."""
    peak = max((row["limit_gflop_per_s"] or 0.0 for row in rows), default=0.0)
    sizes: dict[float, int] = {}
    for row in rows:
        rate = row["limit_gb_per_s"]
        sizes[rate] = max(sizes.get(rate, 0), row["bytes"])
    # The roof of the largest arrays is the machine's; small ones fit caches, or cost less than the
    # launch.
    main = max(sizes, key=lambda rate: sizes[rate])
    for rate in sizes:
        roof = np.minimum(rate * reach, peak) if peak else rate * reach
        is_main = rate == main
        panel.plot(
            reach,
            roof,
            color=colour,
            lw=2 if is_main else 0.9,
            ls="-" if is_main else ":",
            zorder=1,
        )
    words = f"copy of {size(sizes[main])} at {main:.3g} GB/s"
    return f"{words}, multiply-add at {peak:.3g} GFLOP/s" if peak else words


def _figure(rows: Sequence[Row], inches: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=inches, dpi=140, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    panel.tick_params(labelsize=9, colors=PALE, labelcolor=INK, which="both")
    panel.grid(alpha=0.25, which="major", lw=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    names = ", ".join(dict.fromkeys(str(row["template"]) for row in rows))
    devices = ", ".join(dict.fromkeys(str(r["device"]) for r in rows if r.get("device")))
    panel.set_title(f"{names} on {devices}" if devices else names, fontsize=11, color=INK)
    return figure, panel


def _with(rows: Sequence[Row], name: str) -> list[Row]:
    """Return the rows that have a number in a column."""
    found = [row for row in rows if isinstance(row.get(name), int | float)]
    if not found:
        raise TikgenError(f"No row has a number in the column {name}, so there is nothing to draw.")
    return found


def _places(rows: Sequence[Row], name: str) -> tuple[dict[str, float], bool]:
    """Return the place of each value of an axis, in order, and whether values are numbers."""
    values = sorted({repr(row[name]): row[name] for row in rows}.values(), key=_sort_key)
    if _is_numeric(rows, name):
        return {str(value): float(value) for value in values}, True
    return {str(value): float(place) for place, value in enumerate(values)}, False


def _is_numeric(rows: Sequence[Row], name: str) -> bool:
    return all(type(row[name]) in (int, float) for row in rows)


def _sort_key(value: Any) -> tuple[Any, ...]:
    """Order numbers by size, shapes by their extents and all else by its text."""
    if type(value) in (int, float):
        return (0, value)
    parts = str(value).split("x")
    if all(part.isdigit() for part in parts):
        return (1, len(parts), *map(int, parts))
    return (2, str(value))


def _best_at(rows: Sequence[Row], axes: tuple[str, ...], value: str) -> dict[tuple[str, ...], Row]:
    """Return the best row at each place on the axes."""
    found: dict[tuple[str, ...], Row] = {}
    sign = -1 if value in GREATEST else 1
    for row in rows:
        key = tuple(str(row[axis]) for axis in axes)
        if key not in found or sign * row[value] < sign * found[key][value]:
            found[key] = row
    return found


def _plain_numbers(axis: Axis) -> None:
    """Write numbers on a logarithmic axis without exponents."""
    axis.set_major_formatter("{x:g}")
    # Nine labels a decade would overlap.
    axis.set_minor_formatter(lambda v, _: f"{v:g}" if f"{v:e}"[0] in "235" else "")


def _dress_x(axis: Axis, places: dict[str, float], is_number: bool) -> None:
    """Put a tick at each value; numbers over a wide range are on a logarithmic axis."""
    numbers = list(places.values())
    if is_number and min(numbers) > 0 and max(numbers) >= _LOG_RATIO * min(numbers):
        axis.axes.set_xscale("log", base=2)
    axis.set_major_locator(FixedLocator(numbers))
    axis.set_minor_locator(NullLocator())
    names = {place: name for name, place in places.items()}
    axis.set_major_formatter(lambda v, _: names.get(v, f"{v:g}"))


def _scale(name: str, values: Sequence[float]) -> tuple[float, str]:
    """Return a factor and a unit for the values of a column."""
    if name == "share":
        return 100.0, "%"
    if name != "seconds" and not name.endswith("_seconds"):
        return 1.0, ""
    middle = float(np.median(values))
    return (1e6, "µs") if middle < 1e-3 else (1e3, "ms") if middle < 1 else (1.0, "s")


def _label(name: str, unit: str, left: Sequence[str]) -> str:
    """Return the label of a column, and which row is drawn where several fall on one point."""
    text = _LABELS.get(name, name)
    text += f" ({unit})" if unit else ""
    if left:
        over = f"{'greatest' if name in GREATEST else 'least'} over {', '.join(left)}"
        text += "\n" + textwrap.fill(over, _LABEL_WIDTH)
    return text

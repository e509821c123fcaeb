"""Draws a trace: a lane for each kernel, with its stages in colours along the time axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from tikgen.lifecycle.history import ALL_STAGES, Lives
from tikgen.lifecycle.placement import COLOURS, Block, Lane, Layout
from tikgen.lifecycle.table import headline
from tikgen.units import counted, duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _PALE, _GROUND, _FAILED = "#222222", "#777777", "#f3f3f3", "#c00000"
_MOST_LANES = 40
_MOST_HIGH_LANES = 12
_LANE_HEIGHT = 0.62
_WIDTH = 11.0
# Width of a letter as a share of the whole, found by eye; narrower blocks get no text.
_LETTER = 0.0092
_HAIR = 0.0004
_MOMENT = 0.003
_LONGEST_NAME = 34


def draw(trace: Lives) -> Figure:
    """Return the figure."""
    layout = Layout(trace, _MOST_LANES)
    rows = max(1, len(layout.lanes))
    size = (_WIDTH, 1.5 + rows * (0.52 if rows <= _MOST_HIGH_LANES else 0.3))
    figure = Figure(figsize=size, dpi=140, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    panel.set_title(headline(trace), fontsize=11, color=_INK, loc="left")
    panel.spines[:].set_visible(False)
    if not layout.lanes:
        panel.set_axis_off()
        return figure
    for number, lane in enumerate(layout.lanes):
        _draw_lane(panel, layout, lane, float(number))
    for begin, end in layout.pauses:
        left, right = layout.place(begin), layout.place(end)
        panel.axvspan(left, right, facecolor="white", edgecolor="#cccccc", hatch="////", lw=0)
    _dress(panel, layout)
    seen = {block.stage for lane in layout.lanes for block in lane.blocks}
    stages = [stage for stage in ALL_STAGES if stage in seen]
    figure.legend(
        handles=[Patch(color=COLOURS[stage], label=stage) for stage in stages],
        loc="outside lower center",
        ncols=len(stages),
        frameon=False,
        fontsize=9,
        handlelength=1.0,
    )
    return figure


def _draw_lane(panel: Axes, layout: Layout, lane: Lane, middle: float) -> None:
    panel.add_patch(
        Rectangle((0, middle - _LANE_HEIGHT / 2), 1, _LANE_HEIGHT, color=_GROUND, zorder=0)
    )
    height = _LANE_HEIGHT / len(lane.threads)
    for block in lane.blocks:
        row = lane.threads.index(block.thread)
        _draw_block(panel, layout, block, middle - _LANE_HEIGHT / 2 + row * height, height)


def _draw_block(panel: Axes, layout: Layout, block: Block, top: float, height: float) -> None:
    left, right = layout.place(block.start), layout.place(block.stop)
    if block.start == block.stop:  # A change of state of an actor.
        right = left + _MOMENT
    is_row = len(block.launches) > 1
    panel.add_patch(
        Rectangle(
            (left, top),
            right - left,
            height,
            facecolor=COLOURS[block.stage],
            alpha=0.3 if is_row else 1.0,
            edgecolor=_FAILED if block.has_failed else "white",
            lw=1.8 if block.has_failed else 0.4,
            zorder=2,
        )
    )
    if is_row:
        places = [(layout.place(start), layout.place(stop)) for start, stop in block.launches]
        bars = [(start, max(stop - start, _HAIR)) for start, stop in places]
        panel.broken_barh(bars, (top, height), color=COLOURS[block.stage], lw=0, zorder=2.5)
    text = next((t for t in _texts(block) if len(t) * _LETTER < right - left), "")
    if not text or height < _LANE_HEIGHT / 2:  # Many threads share the lane.
        return
    panel.text(
        (left + right) / 2,
        top + height / 2,
        text,
        ha="center",
        va="center",
        fontsize=8,
        color=_INK,
        zorder=3,
        bbox={"facecolor": "white", "alpha": 0.8, "lw": 0, "pad": 1.0} if is_row else None,
        parse_math=False,
    )


def _texts(block: Block) -> tuple[str, ...]:
    """Return possible texts of a block, longest first; its colour shows the stage as well."""
    if block.holds_others:
        return ()
    return (block.label,) if block.launches else (block.label, block.label.partition(" ")[2])


def _dress(panel: Axes, layout: Layout) -> None:
    names = [_shortened(lane.name) for lane in layout.lanes]
    panel.set_xlim(0, 1)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_yticks(range(len(names)), names, fontsize=9, color=_INK, parse_math=False)
    panel.tick_params(length=0)
    right = panel.secondary_yaxis("right")
    right.set_yticks(range(len(names)), [_launches(lane) for lane in layout.lanes], fontsize=8)
    right.tick_params(length=0, labelcolor=_PALE)
    right.spines[:].set_visible(False)
    ticks = layout.ticks()
    panel.set_xticks([place for place, _ in ticks], [text for _, text in ticks], fontsize=8)
    panel.tick_params(axis="x", length=3, color=_PALE, labelcolor=_PALE)
    notes = ["time since the trace began; the width of an interval is the cube root of its time"]
    if layout.pauses:
        notes.append("hatched: pauses cut short")
    if layout.hidden:
        notes.append(f"{layout.hidden} more kernels took less time")
    panel.set_xlabel("; ".join(notes), fontsize=8, color=_PALE)


def _launches(lane: Lane) -> str:
    """Return the number of launches, and the typical time of one."""
    launches = lane.life.launches
    if launches is None:
        return "no launch" if lane.life.subject.is_kernel else ""
    typical = launches.typical
    if typical is None:
        return counted(launches.count, launches.stage)
    return f"{launches.count:,} × {duration(typical)}"


def _shortened(name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        return name
    half = _LONGEST_NAME // 2
    return f"{name[:half]}…{name[-half + 1 :]}"

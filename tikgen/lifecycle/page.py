"""A trace as HTML: a self-contained page, and a short form for notebooks."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from tikgen.lifecycle import html
from tikgen.lifecycle.history import ALL_STAGES, Life, Lives, Stage
from tikgen.lifecycle.placement import COLOURS, Layout
from tikgen.lifecycle.table import headline, origin_of
from tikgen.units import duration
from tikgen.version import __version__

_MOST_LANES = 60
_MOST_SHORT, _MOST_OPEN = 12, 3
# The names of arguments, types and numbers in a signature such as "x: f32[2d], n: i32".
_TOKENS = re.compile(r"(?P<name>\b\w+)(?=: )|(?P<type>\b[uif]\d+\b(?:\[\d+d\])?)|(?P<index>#\d+)")


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": duration,
        "origin": origin_of,
        "highlighted": highlighted,
        "shares": shares,
    }
    return environment.get_template("page.html.j2")


def render(trace: Lives) -> str:
    """Return the page."""
    layout = Layout(trace, _MOST_LANES)
    lives = trace.kernels
    seen = {stage.name for life in lives for stage in life.stages}
    return _template().render(
        headline=headline(trace),
        layout=layout,
        lives=lives,
        numbers={life.subject: number for number, life in enumerate(lives, 1)},
        stages=[
            (name, COLOURS[name], meaning) for name, meaning in ALL_STAGES.items() if name in seen
        ],
        colours=COLOURS,
        version=__version__,
    )


def highlighted(text: str) -> Markup:
    """Return a line about a stage with its names, types and numbers marked."""
    parts, end = [], 0
    for match in _TOKENS.finditer(text):
        parts.append(escape(text[end : match.start()]))
        parts.append(Markup('<span class="{}">{}</span>').format(match.lastgroup, match.group()))
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def shares(life: Life) -> list[tuple[Stage, float]]:
    """Return the stages that took time, each with its share of the total."""
    timed = [stage for stage in life.stages if stage.seconds]
    total = sum(stage.seconds or 0.0 for stage in timed)
    return [(stage, (stage.seconds or 0.0) / total) for stage in timed]


def render_short(trace: Lives) -> str:
    """Return the trace for a notebook: the stages of each kernel with their times."""
    lives = trace.kernels
    parts: list[object] = [
        _short(life, number < _MOST_OPEN and life.subject.origin != "taichi")
        for number, life in enumerate(lives[:_MOST_SHORT])
    ]
    if len(lives) > _MOST_SHORT:
        parts.append(html.tag("p", f"and {len(lives) - _MOST_SHORT} more kernels", class_="pale"))
    return html.card(headline(trace), *parts)


def _short(life: Life, is_open: bool) -> Markup:
    share = dict(shares(life))
    rows = [
        (
            stage.name,
            f"{stage.count:,}",
            html.bar(stage.time, share.get(stage, 0.0)),
            html.status("failed", "bad") if stage.has_failed else "",
            html.join(html.tag("div", line, class_="pale") for line in stage.lines),
        )
        for stage in life.stages
    ]
    title = html.join([html.tag("span", life.name, class_="strong"), f" {origin_of(life)}"])
    return html.folded(title, html.table((), rows, numbers=(1,)), is_open)

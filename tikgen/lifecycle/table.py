"""A trace as text: one block for each kernel, one line for each stage."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tikgen.units import counted, duration

if TYPE_CHECKING:
    from tikgen.lifecycle.life import Life, Stage
    from tikgen.lifecycle.trace import Trace

_WIDTH = 96
_ORIGINS = {
    "tikgen": "tikgen",
    "live": "loaded live",
    "script": "your own",
    "taichi": "Taichi's own",
    "actor": "an actor",
}


def table(trace: Trace) -> str:
    """Return the trace as text that is read in a terminal or a file."""
    return "\n\n".join([headline(trace), *map(_block, trace.kernels)])


def headline(trace: Trace) -> str:
    """Return in one line how much the trace holds."""
    took = duration(trace.seconds)
    lives = trace.kernels
    if not lives:
        return f"No kernel was touched in {took}."
    actors = sum(life.subject.is_actor for life in lives)
    and_actors = f", {counted(actors, 'actor')}" if actors else ""
    # A text that was loaded live may hold any number of kernels.
    kernels = sum(
        any(stage.name != "load" for stage in life.stages)
        for life in lives
        if not life.subject.is_actor
    )
    launches = sum(each.count for each in trace.launches if not each.subject.is_actor)
    compiled = sum(e.stage == "compile" for e in trace.events)
    return (
        f"{counted(kernels, 'kernel')}, {counted(compiled, 'compilation')}, "
        f"{counted(launches, 'launch')}{and_actors} in {took}"
        f"{'' if trace.is_over else ' so far'}"
    )


def origin_of(life: Life) -> str:
    """Return in words where a kernel comes from."""
    return _ORIGINS.get(life.subject.origin, life.subject.origin)


def _block(life: Life) -> str:
    rows = [(stage.name, f"{stage.count:,}", stage.time, _wrapped(stage)) for stage in life.stages]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [f"{life.name}  [{origin_of(life)}]  {life.place}".rstrip()]
    for name, count, time, (first, *more) in rows:
        cells = f"  {name:<{widths[0]}}  {count:>{widths[1]}}  {time:>{widths[2]}}  "
        lines.append((cells + first).rstrip())
        lines += [" " * len(cells) + line for line in more]
    return "\n".join(lines)


def _wrapped(stage: Stage) -> list[str]:
    """Return the lines about a stage, none too long; one empty line if there are none."""
    found = []
    for line in stage.lines:
        found += textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_long_words=False)
    return found or [""]

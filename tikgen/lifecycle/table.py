"""A trace as text: one block for each kernel, one line for each stage."""

from __future__ import annotations

import textwrap

from tikgen.lifecycle.history import Life, Lives
from tikgen.units import counted, duration

_WIDTH = 80
_ORIGINS = {
    "tikgen": "tikgen",
    "live": "loaded live",
    "script": "your own",
    "taichi": "Taichi's own",
    "actor": "an actor",
    "program": "a program",
}


def table(trace: Lives) -> str:
    """Return the trace as text for a terminal or a file."""
    return "\n\n".join([headline(trace), *map(_block, trace.kernels)])


def headline(trace: Lives) -> str:
    """Return a one-line summary of the trace."""
    took = duration(trace.seconds)
    lives = trace.kernels
    if not lives:
        return f"No kernel was used in {took}."
    actors = sum(life.subject.is_actor for life in lives)
    and_actors = f", {counted(actors, 'actor')}" if actors else ""
    # A text that was loaded live may define any number of kernels.
    kernels = sum(
        any(stage.name != "load" for stage in life.stages)
        for life in lives
        if life.subject.is_kernel
    )
    launches = sum(each.count for each in trace.launches if each.subject.is_kernel)
    compiled = sum(e.stage == "compile" for e in trace.events)
    return (
        f"{counted(kernels, 'kernel')}, {counted(compiled, 'compilation')}, "
        f"{counted(launches, 'launch')}{and_actors} in {took}"
        f"{'' if trace.is_over else ' so far'}"
    )


def origin_of(life: Life) -> str:
    """Return the origin of a kernel in words."""
    return _ORIGINS.get(life.subject.origin, life.subject.origin)


def _block(life: Life) -> str:
    rows = [((stage.name, f"{stage.count:,}", stage.time), stage.lines) for stage in life.stages]
    widths = [max((len(cells[i]) for cells, _ in rows), default=0) for i in range(3)]
    lines = _wrapped(f"{life.name}  [{origin_of(life)}]  {life.place}".rstrip(), _WIDTH)
    for (name, count, time), details in rows:
        cells = f"  {name:<{widths[0]}}  {count:>{widths[1]}}  {time:>{widths[2]}}  "
        about = [part for line in details for part in _wrapped(line, _WIDTH - len(cells))]
        first, *more = about or [""]
        lines.append((cells + first).rstrip())
        lines += [" " * len(cells) + line for line in more]
    return "\n".join(lines)


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line wrapped at ``width``, unless a path is longer."""
    if len(line) <= width:
        return [line]
    return textwrap.wrap(
        line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )

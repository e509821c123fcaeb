"""A trace as text: one block for each kernel, one line for each stage."""

from __future__ import annotations

from tikgen.lifecycle.history import Life, Lives
from tikgen.text_layout import fit
from tikgen.units import counted, duration

_ORIGINS = {
    "tikgen": "tikgen",
    "live": "loaded live",
    "script": "your own",
    "taichi": "Taichi's own",
    "actor": "an actor",
    "program": "a program",
}


def table(trace: Lives, width: int | None) -> str:
    """Return the trace as text, in lines of at most ``width`` columns, or of any."""
    blocks = (_block(life, width) for life in trace.kernels)
    return "\n\n".join([fit(headline(trace), width), *blocks])


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
    compiled = sum(
        e.stage == "compile" or (e.stage == "engine" and e.details.get("cache") == "compiled")
        for e in trace.events
    )
    return (
        f"{counted(kernels, 'kernel')}, {counted(compiled, 'compilation')}, "
        f"{counted(launches, 'launch')}{and_actors} in {took}"
        f"{'' if trace.is_over else ' so far'}"
    )


def origin_of(life: Life) -> str:
    """Return the origin of a kernel in words."""
    return _ORIGINS.get(life.subject.origin, life.subject.origin)


def _block(life: Life, width: int | None) -> str:
    rows = [((stage.name, f"{stage.count:,}", stage.time), stage.lines) for stage in life.stages]
    widths = [max((len(cells[i]) for cells, _ in rows), default=0) for i in range(3)]
    lines = [fit(f"{life.name}  [{origin_of(life)}]  {life.place}".rstrip(), width)]
    for (name, count, time), details in rows:
        cells = f"  {name:<{widths[0]}}  {count:>{widths[1]}}  {time:>{widths[2]}}  "
        room = None if width is None else max(1, width - len(cells))
        about = fit("\n".join(details), room).split("\n")
        first, *more = about
        lines.append((cells + first).rstrip())
        lines += [" " * len(cells) + line for line in more]
    return "\n".join(lines)

"""Wider ghost layers, which are exchanged once for several steps.

The first step computes as many of the ghost points as it can, which the neighbours compute as well;
each further one computes fewer, and the last one only what the process owns. A point has the same
bits wherever it is computed, since the code and the numbers are the same.

Method: C. Ding, Y. He, "A ghost cell expansion method for reducing communications in solving PDE
problems", Proceedings of the ACM/IEEE Conference on Supercomputing (2001).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tikgen.grid.domain import Domain
from tikgen.grid.exchange import Exchange
from tikgen.grid.field import Field
from tikgen.grid.regions import Region, inside_and_sides, with_ghosts
from tikgen.program.parts import Part, Several, Swap
from tikgen.template.grid_use import ArrayUse, GridUse, Widths, widest


class Step(Protocol):
    """A kernel with fields of a grid as arguments."""

    @property
    def use(self) -> GridUse:
        """Return what it reads and writes."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return its arguments by name, fields among them."""

    @property
    def renewing(self) -> Sequence[Part]:
        """Return what belongs before each launch."""

    def over(self, region: Region) -> Part:
        """Return its launch for the points of a region."""


Parts = Sequence[Step | Swap]
Needs = dict[Field, Widths]
# What NCCL took between two H200: seconds, and bytes a second that a process receives.
_LATENCY, _BANDWIDTH = 20e-6, 75e9


def several_steps(domain: Domain, listed: Parts) -> Several | None:
    """Return parts that do several steps with one exchange; None where that is of no use.

    Args:
        domain: the grid.
        listed: the parts of a step.
    """
    steps = steps_together(domain, listed)
    if steps == 1:
        return None
    parts = list(listed) * steps
    why = f"ghost layers exchanged every {steps} steps"
    made = tuple(_parts(domain, parts, *backwards(domain.divided, parts)))
    return Several(steps, made, why, domain.are_for_cache)


def steps_together(domain: Domain, listed: Parts) -> int:
    """Return how many steps there are from one exchange to the next, the same on all processes.

    These are as many as ghost layers are wide enough for, or where the grid chooses, as many as
    take the least time for exchanges.
    """
    if not can_compute_ghosts(domain.divided, domain.decomposition.periodic, listed):
        return 1
    kernels = [part for part in listed if not isinstance(part, Swap)]
    seconds = {1: sum(_seconds(domain, *_exchanged(domain, each)) for each in kernels)}
    for steps in range(domain.exchange_every, 1, -1):
        _, needs = backwards(domain.divided, list(listed) * steps)
        if any(map(is_any, needs.values())) and _is_there(domain, needs):
            if not domain.chooses_steps:
                return steps
            seconds[steps] = _seconds(domain, needs, True) / steps
    return min(seconds, key=lambda steps: seconds[steps])


def _exchanged(domain: Domain, step: Step) -> tuple[Needs, bool]:
    """Return the layers that are exchanged for a launch alone, and whether corners are."""
    none: Widths = ((0, 0),) * len(domain.shape)
    needs: Needs = {}
    for field, use in _uses(step):
        needs[field] = widest(needs.get(field, none), _read(none, use, domain.divided))
    return needs, any(use.is_diagonal for _, use in _uses(step))


def _seconds(domain: Domain, needs: Needs, has_corners: bool) -> float:
    """Return about how long GPUs take to exchange some layers; all processes find the same."""
    size = 0
    for field, widths in needs.items():
        for axis, pair in enumerate(widths):
            size += sum(pair) * domain.face(axis) * field.bytes_a_point
    stages = sum(domain.divided) if has_corners else 1
    return stages * _LATENCY + size / _BANDWIDTH if size else 0.0


def can_compute_ghosts(divided: Sequence[bool], periodic: Sequence[bool], parts: Parts) -> bool:
    """Return whether kernels compute what neighbours do for their points."""
    # Beyond an end of a periodic axis the same points have other indices.
    wraps = {axis for axis, pair in enumerate(zip(divided, periodic, strict=True)) if all(pair)}
    uses = [part.use for part in parts if not isinstance(part, Swap)]
    return not any(use.totals or use.layers or use.indexed & wraps for use in uses)


def backwards(divided: Sequence[bool], parts: Parts) -> tuple[list[Widths], Needs]:
    """Return how many ghost points each part computes, and how many of each field it takes.

    They are found from the last part on, which computes none: what a kernel reads has to be there
    for all points that it computes.

    Args:
        divided: for each axis whether processes divide it.
        parts: launches and swaps of one step or several.
    """
    none: Widths = ((0, 0),) * len(divided)
    needs: Needs = {}
    found: list[Widths] = []
    for part in reversed(parts):
        own = none
        if isinstance(part, Swap):
            for one, other in part.pairs:
                needs[one], needs[other] = needs.get(other, none), needs.get(one, none)
        else:
            uses = _uses(part)
            for field, use in uses:
                own = widest(own, needs.get(field, none)) if use.written else own
            for field, use in uses:
                needs[field] = none if use.is_covered else needs.get(field, none)
            for field, use in uses:
                if not use.is_covered:
                    needs[field] = widest(needs[field], _read(own, use, divided))
        found.append(own)
    return found[::-1], needs


def _uses(step: Step) -> list[tuple[Field, ArrayUse]]:
    """Return each field that a kernel takes, with what it does with it."""
    return [(step.arguments[name], use) for name, use in step.use.arrays.items()]


def _read(own: Widths, use: ArrayUse, divided: Sequence[bool]) -> Widths:
    """Return how many ghost points a kernel reads that computes some itself."""
    axes = zip(own, use.reach, divided, strict=True)
    return tuple(
        (low + below, high + above) if is_divided else (0, 0)
        for (low, high), (below, above), is_divided in axes
    )


def is_any(widths: Widths) -> bool:
    """Return whether layers hold any point."""
    return any(map(any, widths))


def _is_there(domain: Domain, needs: Needs) -> bool:
    """Return whether ghost layers are so wide, and each process owns as much."""
    limits = [
        min(width, domain.decomposition.fewest(axis)) for axis, width in enumerate(domain.halo)
    ]
    return all(
        max(pair) <= limit
        for widths in needs.values()
        for pair, limit in zip(widths, limits, strict=True)
    )


def _parts(domain: Domain, parts: Parts, widths: list[Widths], needs: Needs) -> Iterator[Part]:
    """Yield an exchange, and launches that need no further one."""
    # Layers of an axis go on beyond the sides of others, where they are computed as well.
    corners = sum(domain.divided) > 1
    exchange = Exchange(
        domain,
        {
            field: ArrayUse(field.first_axis, tuple(own), corners, (), False)
            for field, own in needs.items()
            if is_any(own)
        },
    )
    regions = _regions(domain, parts[0], widths[0], needs)
    if regions and not isinstance(parts[0], Swap):
        yield from parts[0].renewing
        begin, end = exchange.halves()
        inside, *sides = map(parts[0].over, regions)
        yield from (begin, inside, end, *sides)
        parts, widths = parts[1:], widths[1:]
    else:
        yield exchange
    for part, own in zip(parts, widths, strict=True):
        if isinstance(part, Swap):
            yield part
        else:
            yield from (*part.renewing, part.over(with_ghosts(domain, own)))


def _regions(domain: Domain, first: Step | Swap, own: Widths, needs: Needs) -> list[Region]:
    """Return what is computed while messages travel, and the regions that wait for them."""
    if isinstance(first, Swap) or not domain.overlaps:
        return []
    reach: Widths = ((0, 0),) * len(domain.shape)
    spared = reach
    for field, use in _uses(first):
        reach = widest(reach, use.reach)
        # What is on its way must not be written yet: the neighbour above has it below its part.
        sent = [(high, low) for low, high in needs[field]]
        spared = widest(spared, sent if use.written else use.reach)
    return inside_and_sides(domain, reach, with_ghosts(domain, own), spared)

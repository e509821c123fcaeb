"""Counts loop steps, because Mesa's Vulkan on a processor silently ends long loops.

It adds up the turns of all loops of an invocation, and one more for the end of each. At 65,535 it
leaves every loop. Before each launch on such a device, the steps that a template declares by
:meth:`Template.steps` are compared with that limit. On every device they tell whether a parallel
loop has more iterations than Taichi can count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tikgen.template.blame import asked

if TYPE_CHECKING:
    from tikgen.pipeline.rendering import Variant
    from tikgen.template.base import NDArray

MOST = 65_535
# Taichi counts the iterations of a parallel loop in 32 bits.
MOST_ITERATIONS = 2**31 - 1
# Arrays of fewer elements have fewer iterations, whatever a schedule adds to reach whole blocks.
FEW_ELEMENTS = 2**20
# Most invocations that Taichi starts on Vulkan for a range that is not known at compile time.
_INVOCATIONS = 131_072
# The last step of the outermost loop and its end cannot change the result.
_SPARE = 2


class _TooMany(Exception):
    """A parallel loop has more iterations than Taichi can count."""


def looped(turns: int, within: int = 0) -> int:
    """Return the steps of a loop with so many ``turns``, each with loops of ``within`` steps."""
    return max(turns, 0) * (1 + within) + 1


def stepped(count: int, unroll: int, within: int = 0) -> int:
    """Return the steps of a loop unrolled by ``unroll``, and of the loop for its remainder."""
    if unroll == 1:
        return looped(count, within)
    return looped(count // unroll, unroll * within) + looped(count % unroll, within)


def parallel(count: int, within: int = 0) -> int:
    """Return the steps of one invocation of a parallel loop over ``count``, unknown to Taichi."""
    if count > MOST_ITERATIONS:
        raise _TooMany(count)
    return -(-max(count, 1) // _INVOCATIONS) * (1 + within)


def box(extents: Sequence[int], is_rows: bool, unroll: int) -> int:
    """Return the steps of the macro ``box`` of ``loops.j2``.

    Args:
        extents: extent of each axis, slowest first.
        is_rows: whether a thread computes a row rather than a point.
        unroll: points per step along a row.
    """
    *leading, last = extents
    if not leading:
        return parallel(last // unroll)
    count = math.prod(leading)
    return parallel(count, stepped(last, unroll)) if is_rows else parallel(count * last)


def steps_of_points(count: int, most: int, team: int, items: int = 1) -> int:
    """Return the steps of the macro ``each_point`` of ``totals.j2``, over ``count`` points.

    Args:
        count: number of points.
        most: most parts.
        team: threads that share a part.
        items: points that a thread computes in a loop within each step.
    """
    within = looped(items) if items > 1 else 0
    joined = looped(most // team + 8)
    if team == 1:
        return max(looped(max((count - 1) // most + 1, 64), within), joined)
    tree = looped(team.bit_length())
    used = min(-(-count // team), most)
    own = parallel(used * team, looped(-(-count // (most * team)), within) + tree)
    return max(own, joined + tree)


def problem(
    variant: Variant, sizes: Mapping[str, int], read: Callable[[str], NDArray], ends_loops: bool
) -> str:
    """Return why a launch would be wrong, or an empty string.

    Args:
        variant: the template, its problem and its schedule.
        sizes: value of each size symbol.
        read: returns the content of the array with a name.
        ends_loops: whether the device silently ends long loops.
    """
    if not ends_loops:
        if math.prod(sizes.values()) < FEW_ELEMENTS:
            return ""
        read = _unread
    try:
        template, models = variant.template, (variant.problem, variant.schedule)
        kinds, given = (int, np.integer), (*models, sizes, read)
        most = asked(template, "steps()", kinds, "an integer", *given, passing=(_TooMany,))
    except _TooMany as error:
        return (
            f"a loop has {error.args[0]:,} iterations, and Taichi counts {MOST_ITERATIONS:,} at "
            "most; use smaller arrays, or a schedule with fewer threads for them"
        )
    if not ends_loops or most <= MOST + _SPARE:
        return ""
    return (
        f"one invocation takes about {most:,} loop steps, and Mesa's Vulkan on a processor "
        f"silently ends every loop after {MOST:,}; use cpu or a GPU, smaller arrays, or a "
        "schedule with fewer steps for each thread"
    )


def _unread(_: str) -> NDArray:
    """Return a content that stands for all: no number of iterations depends on it."""
    return np.zeros(2, np.int64)

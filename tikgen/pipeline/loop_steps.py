"""Counts loop steps, because Mesa's Vulkan on a processor ends long loops in silence.

It counts the turns of all loops of an invocation together, and one more for leaving each, and once
there are 65,535 it leaves every loop. What a template declares by :meth:`Template.steps` is
compared with that before each launch on such a device.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST = 65_535
# Over a range that it does not know, Taichi starts so many invocations on Vulkan at most.
_INVOCATIONS = 131_072
# The last step of the outermost loops, and leaving them, costs nothing that could be missed.
_SPARE = 2


def looped(turns: int, within: int = 0) -> int:
    """Return the steps of a loop.

    Args:
        turns: how often its body runs.
        within: steps of the loops in its body, in one turn.
    """
    return max(turns, 0) * (1 + within) + 1


def stepped(count: int, unroll: int, within: int = 0) -> int:
    """Return the steps of a loop that takes ``unroll`` at a step, and of one for what is left."""
    if unroll == 1:
        return looped(count, within)
    return looped(count // unroll, unroll * within) + looped(count % unroll, within)


def parallel(count: int, within: int = 0) -> int:
    """Return the steps of one invocation of a parallel loop whose range Taichi does not know.

    Args:
        count: the range.
        within: steps of the loops in its body, in one turn.
    """
    return -(-max(count, 1) // _INVOCATIONS) * (1 + within)


def box(extents: Sequence[int], is_rows: bool, unroll: int) -> int:
    """Return the steps of the macro ``box`` of ``loops.j2``.

    Args:
        extents: extent of each axis, slowest first.
        is_rows: whether threads walk rows, rather than take points.
        unroll: points a step along a row.
    """
    *leading, last = extents
    count = 1
    for extent in leading:
        count *= extent
    if not leading:
        return parallel(last // unroll)
    return parallel(count, stepped(last, unroll)) if is_rows else parallel(count * last)


def problem(steps: int) -> str:
    """Return why a launch with so many steps would be wrong, or nothing."""
    if steps <= MOST + _SPARE:
        return ""
    return (
        f"one invocation takes about {steps:,} loop steps, and Mesa's Vulkan on a processor ends "
        f"every loop in silence after {MOST:,}; use cpu or a GPU, smaller arrays, or a schedule "
        "that leaves fewer steps to each thread"
    )

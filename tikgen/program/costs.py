"""How many bytes a step of a program moves, by the cost models of its kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tikgen.program.plan import Exchange, Launch, Node, Plan, Repeat, Task
from tikgen.program.slots import is_array


def bytes_a_step(plan: Plan) -> int | None:
    """Return the bytes of a step; None if a kernel has no cost model, or a condition decides."""
    return _bytes(plan.nodes)


def _bytes(nodes: Sequence[Node]) -> int | None:
    total = 0
    for node in nodes:
        if isinstance(node, Exchange | Task):
            continue
        if isinstance(node, Launch):
            found = _bytes_of(node)
        elif isinstance(node, Repeat) and node.until is None:
            found = _bytes(node.nodes)
            found = None if found is None else node.times * found
        else:
            return None
        if found is None:
            return None
        total += found
    return total


def _bytes_of(launch: Launch) -> int | None:
    shapes = {
        name: np.broadcast_to(np.int8(0), tuple(value.shape))
        for name, value in launch.bound.arguments.items()
        if is_array(value)
    }
    try:
        variant, sizes = launch.bound.loaded.source.variant, launch.bound.signature.sizes_of(shapes)
        return int(variant.template.cost(variant.problem, sizes).bytes)
    except Exception:  # A user's own template may have none, or one that fails.
        return None

"""How many bytes a step of a program moves, by the cost models of its kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tikgen.program.plan import Call, Item, Plan, Repeat
from tikgen.program.slots import is_array


def bytes_a_step(plan: Plan) -> int | None:
    """Return the bytes of the first step; None if a kernel has no cost model, or none is known."""
    return _bytes(plan.phases[0])


def _bytes(items: Sequence[Item]) -> int | None:
    total = 0
    for item in items:
        if isinstance(item, Call):
            found = _bytes_of(item)
        elif isinstance(item, Repeat) and item.until is None:
            found = _bytes(item.items)
            found = None if found is None else item.times * found
        else:
            return None  # What it does shows at run time.
        if found is None:
            return None
        total += found
    return total


def _bytes_of(call: Call) -> int | None:
    kernel = call.kernel
    shapes = {
        name: np.broadcast_to(np.int8(0), tuple(value.shape))
        for name, value in call.bound.arguments.items()
        if is_array(value)
    }
    try:
        return int(kernel.template.cost(kernel.problem, kernel.sizes_of(shapes)).bytes)
    except Exception:  # A user's own template may have none, or one that fails.
        return None

"""What equations read of a grid, for grids that are divided among processes."""

from typing import Any

from tikgen.expression import Update
from tikgen.template.grid_use import ArrayUse, GridUse
from tikgen.template.vectors import Held, held_arrays

from .boundaries import faces_of, reach, reads_of, rules_of
from .matched import kept_layers
from .reading import update_of


def grid_use(p: Any) -> GridUse:
    """Return what the equations of a problem read and write."""
    update = update_of(p)
    held = held_arrays(p, update.arrays)
    return GridUse(
        p.dim,
        {argument: _use(p, update, own) for argument, own in held.items()},
        {name: axes[0] for name, axes in faces_of(p).items()},
        dict(update.reductions),
        {"equations": p.equations.with_terms()},
        # Points of a line may be computed in buffers or one by one, as windows happen to end.
        {"loop": "function"} if p.dim > 1 else None,
        kept_layers(p),
        frozenset(update.indices.values()),
    )


def _use(p: Any, update: Update, held: Held) -> ArrayUse:
    """Return what is read and written of the arrays or components that an argument holds."""
    every = rules_of(p, update)
    rules = {name: every[name] for name in held.names if name in every}
    reaches, periodic = [], []
    for axis in range(p.dim):
        low = high = 0
        kinds = set()
        for name, pairs in rules.items():
            below, above = reads_of(update, name, axis, pairs[axis])
            if below or above:
                kinds |= {kind for kind, _ in pairs[axis]}
            low, high = max(low, below), max(high, above)
        reaches.append((low, high))
        periodic.append(frozenset(kind == "periodic" for kind in kinds))
    diagonal = any(sum(map(bool, step)) > 1 for name in rules for step in update.offsets(name))
    return ArrayUse(
        held.first_axis,
        tuple(reaches),
        diagonal,
        tuple(periodic),
        held.role in ("out", "inout"),
        held.role == "out" and held.is_whole and not any(map(any, reach(p, update, inside=True))),
    )

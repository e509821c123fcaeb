"""The wave equation in Devito, which generates C with OpenMP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from devito import Eq, Function, Grid, Operator, SubDomain, TimeFunction, configuration

Array = np.ndarray[Any, Any]
configuration["log-level"] = "ERROR"
configuration["language"] = "openmp"


class _Inner(SubDomain):
    """The points whose neighbours all lie inside."""

    name = "inner"

    def define(self, dimensions: Any) -> dict[Any, Any]:
        return dict.fromkeys(dimensions, ("middle", 4, 4))


def wave(p: Array, q: Array, c: Array) -> tuple[Callable[[int], object], Callable[[], Any]]:
    """Return what does leapfrog steps of order 8, and what returns ``p`` and ``q`` after them."""
    grid = Grid(shape=p.shape, extent=tuple(n - 1.0 for n in p.shape), dtype=np.float32)
    inner = _Inner(grid=grid)
    field = TimeFunction(name="p", grid=grid, space_order=8, time_order=2)
    speed = Function(name="c", grid=grid, space_order=0)
    field.data[0], field.data[1], field.data[2], speed.data[:] = q, p, q, c
    update = 2 * field - field.backward + speed * field.laplace
    step = Operator([Eq(field.forward, update, subdomain=inner)], subs=grid.spacing_map)
    now = 1

    def run(steps: int) -> None:
        nonlocal now
        step.apply(time_m=now, time_M=now + steps - 1)
        now += steps

    def read() -> dict[str, Array]:
        return {"p": np.array(field.data[now % 3]), "q": np.array(field.data[(now - 1) % 3])}

    return run, read

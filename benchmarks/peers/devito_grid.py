"""Steps over a grid in Devito, which generates C and exchanges ghost layers by MPI."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from mpi4py import MPI

os.environ["DEVITO_MPI"] = "basic"  # Devito reads it as it is imported.
from devito import Eq, Function, Grid, Operator, SubDomain, TimeFunction, configuration

Array = np.ndarray[Any, Any]
# What does some steps, and what returns the field after them on rank 0.
Form = tuple[Callable[[int], object], Callable[[], Any]]
configuration["log-level"] = "ERROR"
configuration["language"] = "C"  # A thread a rank.
MODES = ("basic", "diag", "diag2", "overlap", "overlap2", "full")
TUNING_STEPS = 30


class _Inner(SubDomain):
    """The points whose neighbours all lie inside."""

    name = "inner"

    def define(self, dimensions: Any) -> dict[Any, Any]:
        return dict.fromkeys(dimensions, ("middle", 4, 4))


def heat(u: Array) -> Iterator[tuple[str, Form]]:
    """Yield forms of the heat equation of order 2, with zeros outside."""
    for mode, is_tuned in _ways():
        grid = _grid_of(u)
        field = TimeFunction(name="u", grid=grid, space_order=2, time_order=1)
        update = Eq(field.forward, field + 0.1 * field.laplace)
        yield from _form(mode, is_tuned, field, update, [u])


def wave(p: Array, q: Array, c: Array) -> Iterator[tuple[str, Form]]:
    """Yield forms of the wave equation of order 8, on the inner points."""
    for mode, is_tuned in _ways():
        grid = _grid_of(p)
        field = TimeFunction(name="p", grid=grid, space_order=8, time_order=2)
        speed = Function(name="c", grid=grid, space_order=0)
        speed.data[:] = c
        right = 2 * field - field.backward + speed * field.laplace
        update = Eq(field.forward, right, subdomain=_Inner(grid=grid))
        yield from _form(mode, is_tuned, field, update, [q, p, q])


def _ways() -> Iterator[tuple[str, bool]]:
    for mode in MODES if MPI.COMM_WORLD.size > 1 else ("",):
        for is_tuned in (False, True):
            yield mode, is_tuned


def _grid_of(array: Array) -> Any:
    return Grid(shape=array.shape, extent=tuple(n - 1.0 for n in array.shape), dtype=np.float32)


def _form(
    mode: str, is_tuned: bool, field: Any, update: Any, first: list[Array]
) -> Iterator[tuple[str, Form]]:
    """Yield the form that goes on from some layers of time, unless there is nothing to tune."""
    configuration["mpi"] = mode or False
    step = Operator([update], subs=field.grid.spacing_map)
    begin = now = max(0, len(first) - 2)
    blocks: dict[str, int] = {}
    if is_tuned:
        step.apply(time_m=begin, time_M=begin + TUNING_STEPS - 1, autotune="aggressive")
        found = step._state.get("autotuning")
        blocks = MPI.COMM_WORLD.bcast(found[-1]["tuned"] if found else {})
        if not blocks:
            return
        # Rank 0 may have more points than others; at sides the wave leaves out four of them.
        own = (MPI.COMM_WORLD.allreduce(n, MPI.MIN) - 8 for n in field.grid.distributor.shape)
        most = dict(zip("xyz", own, strict=True))
        blocks = {name: min(size, most[name[0]]) for name, size in blocks.items()}
    field.data[:] = 0
    for number, layer in enumerate(first):
        field.data[number] = layer

    def run(steps: int) -> None:
        nonlocal now
        step.apply(time_m=now, time_M=now + steps - 1, **blocks)
        now += steps

    def read() -> Any:
        layers = field.data_gather(rank=0)
        return None if layers is None else layers[now % len(layers)]

    yield " ".join(filter(None, (mode, "tuned" if is_tuned else ""))) or "alone", (run, read)

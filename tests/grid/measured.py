"""Measures a small program on all processes; rank 0 prints what it found."""

from __future__ import annotations

import numpy as np

import start
import tikgen
from tikgen.scaling import measure, predict

start.init()
grid = tikgen.Grid((24, 20), periodic=True)
step = tikgen.update("u' = u + dt*lap(u); total = sum(u)", dim=2, scalars="dt", boundary="periodic")
u, un, total = grid.full(2.0), grid.zeros(), np.full(1, 7, np.float32)
bound = grid.bind(step, u=u, u_next=un, dt=0.1, total=total)
program = tikgen.Program([bound, grid.swap((u, un))])
machine = measure(program, rounds=2)
assert machine.network is not None and machine.network.latency > 0
assert total[0] == 7 and (u.owned == 2).all() and not un.array.any()  # Nothing is changed.
assert program.steps == 0
found = predict(program, [1, 2, 3, 100], machine=machine)
assert found.strong[2].exchanging > 0 and found.strong[2].joining >= machine.network.join
assert found.weak[0].shape == tuple(-(-n // c) for n, c in zip(grid.shape, grid.ranks, strict=True))
if grid.rank == 0:
    print(f"measured on {machine.ranks}", sorted(machine.kernels)[0])

"""Heat on a torus, alone or divided among processes, without a changed line.

``python examples/heat_grid.py`` and ``mpiexec -n 4 python examples/heat_grid.py`` (extra ``mpi``)
compute the same bits. The initial field is an eigenfunction, so that its exact decay is known.
"""

import math
import tempfile
from pathlib import Path

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN, fast_math=False)

shape, ratio = (96, 80), 0.2  # dt / h^2, stable up to 1/4.
waves = 2 * np.pi * np.array([1, 2]) / shape  # A wave along one axis, two along the other.
whole = np.cos(waves[0] * np.arange(96))[:, None] * np.sin(waves[1] * np.arange(80))

grid = tikgen.Grid(shape, periodic=True)
u, un = grid.field(whole), grid.zeros("f64")
warmest = np.ones(1)
step = tikgen.update(
    "u' = u + r*lap(u); warmest = max(u')", dim=2, scalars="r", boundary="periodic", dtype="f64"
)
bound = grid.bind(step, u=u, u_next=un, r=ratio, warmest=warmest)
names = {"u": u, "warmest": warmest, "cold": 0.1}
program = tikgen.Program([bound, grid.swap((u, un))], **names)
ran = program.run(until="warmest < cold", check_every=10, most=10_000)

with tempfile.TemporaryDirectory() as folder:  # Rank 0 writes and reads.
    program.save(Path(folder) / "cool.npz")  # Any number of processes may go on from there.
    program.run(100)
    program.load(Path(folder) / "cool.npz")

found = grid.gather(program["u"])  # None but on rank 0.
if found is not None:
    decay = 1 - 4 * ratio * float((np.sin(waves / 2) ** 2).sum())
    error = np.abs(found - decay**program.steps * whole).max()
    print(f"{ran.steps} steps, warmest {warmest[0]:.15f}, largest error {error:.1e}")
    assert ran.reached and error < 1e-12 and math.isclose(found.max(), warmest[0])

"""Runs a program that SIGTERM stops; started again, on any number of processes, it goes on.

Arguments: folder of the checkpoint, last step, how it is stopped, the step at which it is, and the
width of ghost layers, and the name of the checkpoint.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import start
import tikgen
from tikgen.errors import ProgramError

FOLDER, LAST, HOW, AT = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
HALO = int(sys.argv[5])
PATH = FOLDER / sys.argv[6]
SHAPE = (23, 7)


def rate(step: int) -> float:
    """Return the scalar of a step; at one of them a process, or what started all, is stopped."""
    if step == AT:
        if HOW == "one" and grid.rank == grid.size - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        if HOW in ("all", "no folder"):
            time.sleep(0.01 * grid.rank)
            os.kill(os.getpid(), signal.SIGTERM)
        if HOW == "mpiexec" and grid.rank == 0:
            os.kill(int(os.environ["STARTER"]), signal.SIGTERM)
        if HOW == "no folder" and grid.rank == 0:
            shutil.rmtree(FOLDER, ignore_errors=True)  # The step may be asked for twice.
    if HOW == "mpiexec":
        time.sleep(0.001)  # It takes a while until the signal arrives.
    return 0.1 + 0.001 * (step % 7)


start.init(fast_math=False)
grid = tikgen.Grid(SHAPE, periodic=True, halo=HALO)
heat = tikgen.update(
    "u' = u + dt*lap(u)", dim=2, scalars="dt", boundary="periodic", engine="taichi"
)
u = grid.field(np.random.default_rng(LAST).random(SHAPE).astype(np.float32))
un = grid.zeros()
step = tikgen.varying(grid.bind(heat, u=u, u_next=un, dt=0.1), dt=rate)
program = tikgen.Program([step, grid.swap((u, un))], u=u)
there = program.load(PATH, missing_ok=True)
try:
    program.run(LAST - program.steps, checkpoint=PATH)
except ProgramError as error:
    print(f"rank {grid.rank} is told: {error}", flush=True)
    MPI.COMM_WORLD.Barrier()  # The first one that raises it ends the others.
    raise
whole = grid.gather(program["u"])
if whole is not None:
    print(f"went on: {there}", flush=True)
    np.save(FOLDER / "whole.npy", whole)

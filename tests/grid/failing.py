"""Runs a program of which one process fails, as the argument says; the others wait for it."""

from __future__ import annotations

import os
import signal
import sys

import start
import tikgen


def fail(step: int) -> float:
    """Return the scalar of a step; the process of rank 1 fails at one of them."""
    if step == 3 and grid.rank == 1:
        if how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ArithmeticError("no such number")
    return 0.1


def called(program: tikgen.Program) -> None:
    """Leave the interpreter in the middle of a run."""
    if how == "exits in a call" and grid.rank == 1:
        sys.exit("rank 1 leaves")
    if how == "exits with a status" and grid.rank == 1:
        sys.exit(4)


how = sys.argv[1]
start.init()
grid = tikgen.Grid((40,))
step = tikgen.update("u' = u + dt*lap(u)", dim=1, scalars="dt", boundary="zero", engine="taichi")
u, un = grid.full(1), grid.zeros()
if how == "raises outside of a program" and grid.rank == 1:
    raise ArithmeticError("no such number")
bound = tikgen.varying(grid.bind(step, u=u, u_next=un, dt=0.1), dt=fail)
if how.startswith("exits"):
    bound = grid.bind(step, u=u, u_next=un, dt=0.1)
program = tikgen.Program([bound, grid.swap((u, un))])
program.run(1_000_000_000, every=2, call=called)

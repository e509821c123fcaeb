"""Has some processes idle, as a grid has fewer points; all of them do together what takes all."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from mpi4py import MPI

import start
import tikgen
from tikgen.grid.mpi import meet
from tikgen.grid.processes import Processes

FOLDER = Path(sys.argv[1])
WORLD = MPI.COMM_WORLD
start.init(fast_math=False)
whole = np.array([[0.5, 2.25, -1.0]])
last = WORLD.size - 1
heat = tikgen.update(
    "u' = 0.9*u + dt*lap(u); top = max(abs(u')); least = min(u')",
    dim=2,
    scalars="dt",
    on_device="dt",
    dtype="f64",
    boundary="clamp",
)


def made(comm: Any, halo: int | None, native: bool | None = None) -> tuple[Any, Any, Any]:
    """Return a grid, a program on it, and its greatest value after a step."""
    grid = tikgen.Grid(whole.shape, comm=comm, halo=halo)
    u, un = grid.field(whole), grid.zeros("f64")
    dt, top, least = np.full(1, 0.1), np.ones(1), np.zeros(1)
    step = grid.bind(heat, u=u, u_next=un, dt=dt, top=top, least=least)
    program = tikgen.Program(
        [step, "dt = 0.1 + 0.01*top", grid.swap((u, un))], native=native, u=u, top=top, dt=dt
    )
    return grid, program, top


@contextlib.contextmanager
def interrupting(name: str) -> Iterator[None]:
    """Interrupt the last process whenever it calls a method of them all, and later the first."""
    method, times = getattr(Processes, name), itertools.count()

    def interrupted(processes: Processes, *given: Any, **named: Any) -> Any:
        if next(times) or WORLD.rank == last:
            interrupt(0, last)
        return method(processes, *given, **named)

    with patch.object(Processes, name, interrupted):
        yield


def interrupt(*which: int) -> None:
    """Interrupt this process if it is one of some."""
    if WORLD.rank in which:
        signal.raise_signal(signal.SIGINT)


def check_interrupted(program: tikgen.Program, call: Callable[[], Any]) -> None:
    """Check that a run that a process interrupts ends so on all of them, after the same step."""
    how: Any = {"until": "top < -1", "check_every": 3, "most": 10**9, "every": 5}
    how |= {"checkpoint": FOLDER / "often.npz", "minutes": 1e-9}
    try:
        program.run(call=lambda program: call(), **how)
    except KeyboardInterrupt:
        steps = WORLD.allgather(program.steps)
        assert len(set(steps)) == 1, steps
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    else:
        raise AssertionError(f"rank {WORLD.rank} went on to step {program.steps}")


def check_interrupts(program: tikgen.Program) -> None:
    """Check what Ctrl-C does that one or two processes hear, anywhere in a run."""
    number, times = WORLD.bcast(os.getpid(), last), itertools.count()

    def interrupt_last() -> None:
        if WORLD.rank == 0 and not next(times):  # Once, as it may arrive late.
            os.kill(number, signal.SIGINT)

    check_interrupted(program, interrupt_last)
    check_interrupted(program, lambda: interrupt(last))
    for name in ("compare", "check", "greatest", "agreed"):
        with interrupting(name):
            check_interrupted(program, lambda: None)
    # A handler that raises nothing lets it go on.
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(program.steps))
    assert program.run(9, every=3, call=lambda program: interrupt(last)).steps == 9
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert [step % 3 for step in heard] == [0, 0, 0] * (WORLD.rank == last)


for native in (None, False):
    grid, program, top = made(WORLD, 2, native)
    assert grid.ranks == (1, 1)
    assert f"beside {last} idle" in repr(grid), repr(grid)
    assert program.is_native is (native is None), program.why_not_native
    assert grid.owned == (slice(0, 1), slice(0, 3)) if grid.rank == 0 else (slice(0, 0),) * 2
    # What a function finds of no points is not asked.
    ramp = grid.field(lambda i, j: j - j.min())
    ramp[0, 1] = 7
    assert ramp[0].tolist() == [0, 7, 2]
    gathered = grid.gather(ramp)
    assert gathered is None or gathered.tolist() == [[0, 7, 2]]
    grid.scatter(ramp, whole.astype(np.float32) if grid.rank == 0 else None)
    assert ramp[...].tolist() == whole.tolist()
    program.verify(2).raise_for_failure()
    ahead = program.reference(2)
    program.run(2)
    np.testing.assert_allclose(ahead["u"], program["u"][:], rtol=1e-13)
    program.save(FOLDER / "small.npz")
    ran = program.run(until="top < 0.5", most=1000)
    assert ran.reached
    found = [program.steps, top.tobytes(), program["u"][:].tobytes()]
    # On other numbers of processes, with and without idle ones, it goes on bit for bit.
    others = ((WORLD, 1), (MPI.COMM_SELF, None)) if native is None else ()
    for comm, wide in others:
        _, other, top = made(comm, wide, native)
        if comm is WORLD or WORLD.rank == 0:
            other.load(FOLDER / "small.npz")
            other.run(until="top < 0.5", most=1000)
            assert [other.steps, top.tobytes(), other["u"][:].tobytes()] == found
    before = program.steps
    program.run(100, every=2, call=lambda program: WORLD.rank == last and program.stop())
    assert before < program.steps <= before + 2  # An idle process ended the run of all.
    check_interrupts(program)
meet(WORLD)
print("all is done together", flush=True)

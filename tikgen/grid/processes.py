"""The processes that share a grid: MPI through mpi4py, or this one alone."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from tikgen.errors import GridError, ProgramError

# What starts processes tells each of them how many there are.
_COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PMIX_SIZE")
# How often a process looks for messages before it sleeps, and for how many seconds it does.
_YIELDS, _SLEEP = 500, 5e-5


class Processes:
    """The processes of a communicator.

    Args:
        comm: a communicator of mpi4py of its own; None for this process alone.
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank: int = 0 if comm is None else comm.Get_rank()
        self.size: int = 1 if comm is None else comm.Get_size()

    def all(self, value: Any) -> list[Any]:
        """Return the values that the processes have, in their order."""
        return [value] if self.size == 1 else list(self.comm.allgather(value))

    def shared(self, value: Any) -> Any:
        """Return the value that the process of rank 0 has."""
        return value if self.size == 1 else self.comm.bcast(value)

    def greatest(self, values: Sequence[float]) -> list[float]:
        """Return the greatest of each of some numbers among all processes."""
        own = np.array(values, np.float64)
        found = own.copy()
        if self.size > 1:
            wait([self.comm.Iallreduce(own, found, mpi().MAX)])
        return [float(value) for value in found]

    def agreed(self, what: str, value: bool) -> bool:
        """Return a value that all processes have; raise GridError on all of them if they differ."""
        found = self.all(value)
        if len(set(found)) > 1:
            told = ", ".join(f"{each} on rank {rank}" for rank, each in enumerate(found))
            raise GridError(
                f"the processes disagree about {what}: {told}; let it depend on results of "
                "reductions over the grid, which all of them have, and on numbers that are equal"
            )
        return value

    def check(self, problem: str) -> None:
        """Raise ProgramError on all processes if one of them has a problem."""
        if found := self._problem(problem):
            raise ProgramError(found)

    def refuse(self, problem: str) -> None:
        """Raise GridError on all processes if one of them has a problem."""
        if found := self._problem(problem):
            raise GridError(found)

    def _problem(self, problem: str) -> str:
        for rank, found in enumerate(self.all(problem)):
            if found:
                return found if rank == self.rank or problem else f"rank {rank}: {found}"
        return ""

    @contextlib.contextmanager
    def ending_together(self) -> Iterator[None]:
        """Have an error end all processes: the others would wait for this one forever."""
        try:
            yield
        except BaseException:
            if self.size == 1:
                raise
            traceback.print_exc()
            self.end()

    def end(self) -> None:
        """End all processes, with exit status 1."""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        self.comm.Abort(1)


def processes_of(comm: Any) -> Processes:
    """Return the processes of a communicator, by default those that were started together.

    From then on an error that nobody catches in one of several processes ends all of them.

    Raises:
        GridError: if ``comm`` is no communicator, or several processes were started and MPI cannot
            be used.
    """
    if comm is not None and not all(hasattr(comm, name) for name in ("Get_size", "Dup", "Abort")):
        got = type(comm).__name__
        raise GridError(f"comm takes a communicator of mpi4py, as MPI.COMM_WORLD; got {got}")
    found = _world() if comm is None else Processes(comm.Dup())
    if found.size > 1:
        _end_together_at_errors(found)
    return found


@functools.cache
def _world() -> Processes:
    try:
        return Processes(mpi().COMM_WORLD.Dup())
    except (ImportError, RuntimeError) as error:
        if (count := _started()) > 1:
            raise GridError(
                f"{count} processes were started together, and they need mpi4py to share a grid: "
                f"{error}; pip install tikgen[mpi]"
            ) from None
        return Processes(None)


def _started() -> int:
    """Return how many processes were started together, as far as that is known."""
    counts = [os.environ.get(name, "") for name in _COUNTS]
    return max((int(count) for count in counts if count.isdecimal()), default=1)


def mpi() -> Any:
    """Return the module ``mpi4py.MPI``; importing it starts MPI."""
    return importlib.import_module("mpi4py.MPI")


def wait(requests: Sequence[Any]) -> None:
    """Wait until some requests are done: at first ready, then sleeping, as cores may be shared."""
    test = mpi().Request.Testall
    for _ in range(_YIELDS):
        if test(requests):
            return
        os.sched_yield()
    while not test(requests):
        time.sleep(_SLEEP)


@functools.cache
def _end_together_at_errors(processes: Processes) -> None:
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        processes.end()

    sys.excepthook = hook

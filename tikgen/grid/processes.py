"""The processes that share a grid: those of a transport, or this one alone."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.errors import GridError, ProgramError
from tikgen.grid.mpi import MPITransport, is_communicator, mpi
from tikgen.grid.torch_distributed import TorchTransport, is_group
from tikgen.grid.transports import Alone, Transport

NDArray = npt.NDArray[Any]
# What starts processes tells each of them how many there are.
_COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PMIX_SIZE")


class Processes:
    """The processes of a transport.

    Args:
        transport: what carries their messages.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.rank, self.size = transport.rank, transport.size
        # Why they have no mailboxes; None until they were asked.
        self.mailbox_problem: str | None = None
        # Whether no two of them share a GPU, as far as they were asked.
        self.has_own_gpu = False

    def all(self, value: Any, awaited: str = "") -> list[Any]:
        """Return the values that the processes have, in their order.

        Args:
            value: that of this process.
            awaited: a call that all make; a process that waits for long says so.
        """
        return [value] if self.size == 1 else self.transport.all(value, awaited)

    def difference(self, value: Any) -> tuple[int, Any, Any] | None:
        """Return the first rank whose value is not that of rank 0, with both values, or None."""
        every = self.all(value)
        found = ((rank, every[0], its) for rank, its in enumerate(every) if its != every[0])
        return next(found, None)

    def shared(self, value: Any) -> Any:
        """Return the value that the process of rank 0 has."""
        return value if self.size == 1 else self.transport.shared(value)

    def all_bytes(self, own: NDArray, every: NDArray) -> None:
        """Write the records that each process has one after the other into ``every``."""
        self.transport.all_bytes(own.view(np.uint8), every.view(np.uint8))

    def greatest(self, values: Sequence[float]) -> list[float]:
        """Return the greatest of each of some numbers among all processes."""
        own = np.array(values, np.float64)
        every = np.broadcast_to(own, (self.size, own.size))
        if self.size > 1:
            every = np.empty((self.size, own.size))
            self.all_bytes(own, every)
        return [float(value) for value in every.max(axis=0)]

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
        if found := self._problem(self.all(problem)):
            raise ProgramError(found)

    def refuse(self, problem: str) -> None:
        """Raise GridError on all processes if one of them has a problem."""
        if found := self._problem(self.all(problem)):
            raise GridError(found)

    @contextlib.contextmanager
    def refusing(self, awaited: str = "") -> Iterator[None]:
        """Have an error of one process be one of all, each of which enters and leaves the context.

        Others raise a GridError that says on which process it is.

        Args:
            awaited: a call that all make; a process that waits for long says so.
        """
        own: Exception | None = None
        try:
            yield
        except Exception as error:
            own = error
        problem = "" if own is None else str(own) or type(own).__name__
        is_common = self.size == 1 or self._is_common(problem, awaited)
        problems = [] if is_common else self.all(problem)
        if own is not None:
            raise own
        if found := self._problem(problems):
            raise GridError(found)

    def compare(self, what: str, text: str, problem: str = "", awaited: str = "") -> None:
        """Raise ProgramError on all processes if one has a problem, or another text."""
        if self.size == 1 or self._is_common(text + problem, awaited):
            if problem:
                raise ProgramError(problem)
            return
        problems, texts = zip(*self.all((problem, text)), strict=True)
        if found := self._problem(problems):
            raise ProgramError(found)
        if found := different(texts):
            raise ProgramError(f"the processes {what}: {found}")

    def _is_common(self, text: str, awaited: str) -> bool:
        """Return whether all processes have the same text."""
        own = np.array([*hashlib.sha256(text.encode()).digest()], np.uint8)
        every = np.empty((self.size, own.size), np.uint8)
        self.transport.all_bytes(own, every, awaited)
        return bool((every == own).all())

    def _problem(self, problems: Sequence[str]) -> str:
        for rank, found in enumerate(problems):
            if found:
                is_own = rank == self.rank or found == problems[self.rank]
                return found if is_own else f"rank {rank}: {found}"
        return ""

    @contextlib.contextmanager
    def ending_together(self) -> Iterator[None]:
        """Have an error end all processes: the others would wait for this one forever."""
        try:
            yield
        except BaseException as error:
            if self.size == 1:
                raise
            traceback.print_exc()
            self.end(_status_of(error))

    def end(self, status: int = 1) -> None:
        """End all processes, with an exit status."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # It may be closed.
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        self.transport.end(status)


def _status_of(error: BaseException) -> int:
    """Return the exit status of an error: that of ``sys.exit`` if it is one of an error, or 1."""
    code = error.code if isinstance(error, SystemExit) else 1
    return code if isinstance(code, int) and 0 < code < 256 else 1


def different(texts: Sequence[str]) -> str:
    """Return where the text of a process differs from that of rank 0 first, or nothing."""
    for rank, text in enumerate(texts):
        if text != texts[0]:
            lines = itertools.zip_longest(
                texts[0].split("\n"), text.split("\n"), fillvalue="nothing more"
            )
            one, other = next(pair for pair in lines if pair[0] != pair[1])
            return f"rank 0 has {one.strip()}, rank {rank} has {other.strip()}"
    return ""


def processes_of(comm: Any) -> Processes:
    """Return the processes of a communicator, by default those that were started together.

    From then on an error that nobody catches in one of several processes ends all of them.

    Args:
        comm: a communicator of mpi4py, ``torch.distributed``, or a process group of it.

    Raises:
        GridError: if it is none of these, or several processes were started and MPI cannot be
            used.
    """
    if comm is None:
        found = _world()
        if found.size == 1 and (count := _started_by_torch()) > 1:
            raise GridError(
                f"torchrun started {count} processes, which share a grid with "
                "Grid(..., comm=torch.distributed)"
            )
    elif is_group(comm):
        found = Processes(TorchTransport(comm))
    elif is_communicator(comm):
        found = Processes(MPITransport(comm))
    else:
        got = type(comm).__name__
        raise GridError(
            "comm takes a communicator of mpi4py, as MPI.COMM_WORLD, or torch.distributed; "
            f"got {got}"
        )
    if found.size > 1:
        _end_together_at_errors(found)
    return found


@functools.cache
def _world() -> Processes:
    try:
        return Processes(MPITransport(mpi().COMM_WORLD))
    except (ImportError, RuntimeError) as error:
        if (count := _started()) > 1:
            raise GridError(
                f"{count} processes were started together, and they need mpi4py to share a grid: "
                f"{error}; pip install tikgen[mpi]"
            ) from None
        return Processes(Alone())


def _started() -> int:
    """Return how many processes were started together, as far as that is known."""
    counts = [os.environ.get(name, "") for name in _COUNTS]
    return max((int(count) for count in counts if count.isdecimal()), default=1)


def _started_by_torch() -> int:
    """Return how many processes torchrun started; 1 without it."""
    count = os.environ.get("WORLD_SIZE", "") if "TORCHELASTIC_RUN_ID" in os.environ else ""
    return int(count) if count.isdecimal() else 1


@functools.cache
def _end_together_at_errors(processes: Processes) -> None:
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        processes.end()

    sys.excepthook = hook

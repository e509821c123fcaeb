"""The transport MPI, through mpi4py."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.errors import GridError
from tikgen.grid.boxes import Message
from tikgen.grid.transports import Requests, Transport

NDArray = npt.NDArray[Any]
# How often a process looks for messages before it sleeps; for how many seconds it does, and at most
# where processes meet outside of steps.
_YIELDS, _SLEEP, _LONGEST = 500, 5e-5, 2e-3
# Seconds after which a process says for which call of the others it waits.
_PATIENCE = 20.0


def mpi() -> Any:
    """Return the module ``mpi4py.MPI``; importing it starts MPI."""
    return importlib.import_module("mpi4py.MPI")


def is_communicator(comm: Any) -> bool:
    """Return whether something is a communicator of mpi4py."""
    return all(hasattr(comm, name) for name in ("Get_size", "Dup", "Abort"))


class MPITransport(Transport):
    """Messages of MPI.

    Args:
        comm: a communicator of mpi4py, which is duplicated.

    Raises:
        GridError: if this thread may not call MPI.
    """

    name = "MPI"
    ends_all = True

    def __init__(self, comm: Any) -> None:
        if (why := thread_problem()) != "":
            raise GridError(why)
        meet(comm)
        self._comm = comm.Dup()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        self.takes_device = takes_device()

    def all(self, value: Any, awaited: str = "") -> list[Any]:
        """Return the values that the processes have, in their order."""
        meet(self._comm, awaited)
        return list(self._comm.allgather(value))

    def shared(self, value: Any) -> Any:
        """Return the value that the process of rank 0 has."""
        meet(self._comm)
        return self._comm.bcast(value)

    def all_bytes(self, own: NDArray, every: NDArray, awaited: str = "") -> None:
        """Write the bytes that each process has behind each other into ``every``."""
        _wait([self._comm.Iallgather(own, every)], note=_note(self._comm, awaited))

    def send(self, array: NDArray, other: int) -> None:
        """Send a contiguous array of the host to another process."""
        self._comm.Send(_bytes(array), other)

    def receive(self, array: NDArray, other: int) -> None:
        """Receive a contiguous array of the host from another process."""
        self._comm.Recv(_bytes(array), other)

    def requests(self, messages: Sequence[tuple[Message, Any]]) -> Requests:
        """Return messages that can be repeated."""
        begin = {True: self._comm.Send_init, False: self._comm.Recv_init}
        return _Persistent(
            [
                begin[message.is_sent]([buffer, mpi().BYTE], message.other, message.tag)
                for message, buffer in messages
            ]
        )

    def end(self, status: int) -> None:
        """End all processes, with an exit status."""
        self._comm.Abort(status)


def _bytes(array: NDArray) -> list[Any]:
    """Return the memory of a contiguous array, as not every MPI has a datatype for f16."""
    return [array.reshape(-1).view(np.uint8), mpi().BYTE]


class _Persistent:
    """Persistent requests.

    Args:
        requests: those of mpi4py.
    """

    def __init__(self, requests: list[Any]) -> None:
        self._requests = requests
        weakref.finalize(self, _free, requests)

    def start(self) -> None:
        """Begin to send and to receive."""
        mpi().Prequest.Startall(self._requests)

    def wait(self) -> None:
        """Wait until all is sent and received."""
        _wait(self._requests)


def _free(requests: Sequence[Any]) -> None:
    if not mpi().Is_finalized():
        for request in requests:
            request.Free()


def _wait(requests: Sequence[Any], longest: float = _SLEEP, note: str = "") -> None:
    """Wait until some requests are done: at first ready, then sleeping, as cores may be shared.

    Args:
        requests: the requests.
        longest: how many seconds it sleeps at most.
        note: what is said once if that takes long.
    """
    test = mpi().Request.Testall
    for _ in range(_YIELDS):
        if test(requests):
            return
        os.sched_yield()
    seconds, late = _SLEEP, time.monotonic() + _PATIENCE
    while not test(requests):
        if note and time.monotonic() > late:
            print(note, file=sys.stderr, flush=True)
            note = ""
        time.sleep(seconds)
        seconds = min(longest, 1.1 * seconds)  # About a tenth of what it has waited.


def meet(comm: Any, awaited: str = "") -> None:
    """Wait until all processes of a communicator are here, as calls that block wait without sleep.

    They would take time from the processes that still compile, where these share cores.

    Args:
        comm: the communicator.
        awaited: a call that all make, which is named if others keep this process waiting.
    """
    _wait([comm.Ibarrier()], _LONGEST, _note(comm, awaited))


def _note(comm: Any, awaited: str) -> str:
    """Return what a process says that waits for others to make a call."""
    if not awaited:
        return ""
    return (
        f"tikgen: rank {comm.rank} has waited {_PATIENCE:g} s in {awaited}, which all processes of "
        "a grid have to call"
    )


def thread_problem() -> str:
    """Return why this thread may not call MPI, or an empty string."""
    module = mpi()
    if module.Query_thread() >= module.THREAD_SERIALIZED or module.Is_thread_main():
        return ""
    name = threading.current_thread().name
    return (
        f"this MPI takes calls of the thread that started it only, and the grid is made in {name}; "
        "make it in that thread, or start MPI with mpi4py.rc.thread_level = 'multiple'"
    )


@functools.cache
def takes_device() -> bool:
    """Return whether MPI says that it takes the memory of NVIDIA's GPUs."""
    try:  # A function of Open MPI and MPICH, which no standard knows.
        return bool(ctypes.CDLL(mpi().__file__).MPIX_Query_cuda_support())
    except (OSError, AttributeError):
        return False

"""Reductions over a grid: what each process found of its part becomes one number that all have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.grid import mailboxes
from tikgen.grid.boxes import Message
from tikgen.grid.domain import Domain
from tikgen.grid.messages import in_turn
from tikgen.program.team import Job, Work
from tikgen.taichi import arrays as taichi_arrays

NDArray = npt.NDArray[Any]


class Totals(Work):
    """The join of what the reductions of a kernel gave in each process.

    All processes get all results, and join them in the order of ranks, so that they have the same
    bits.

    Args:
        domain: the grid.
        results: the one-element arrays that the kernel wrote, by argument.
        operations: ``"sum"``, ``"max"`` or ``"min"``, by argument.
    """

    def __init__(
        self, domain: Domain, results: Mapping[str, Any], operations: Mapping[str, str]
    ) -> None:
        self._processes = domain.processes
        self.arrays = tuple(results.values())
        self._operations = [operations[name] for name in results]

    def made_for(self, arrays: Sequence[Any]) -> Job:
        """Return the job that joins what some arrays hold."""
        is_on_host = all(isinstance(array, np.ndarray) for array in arrays)
        if is_on_host and not mailboxes.problem(self._processes):
            return self._by_mailboxes(arrays)
        return Job(self._by_messages(arrays))

    def _by_mailboxes(self, arrays: Sequence[NDArray]) -> Job:
        """Return the job of native code: each process has a message for each other one."""
        processes = self._processes
        # What each process found, after the arrays of this one.
        found = [np.zeros(1, array.dtype) for _ in range(processes.size) for array in arrays]
        count, messages = len(arrays), []
        for rank in range(processes.size):
            if rank == processes.rank:
                continue
            own = tuple((n, [(0, 1)]) for n in range(count))
            its = tuple((count * (rank + 1) + n, [(0, 1)]) for n in range(count))
            messages += [Message(rank, 0, True, own), Message(rank, 0, False, its)]
        exchange = mailboxes.Mailboxes(processes, [messages], [*arrays, *found]).halves
        jobs = [*exchange]
        for n, (array, operation) in enumerate(zip(arrays, self._operations, strict=True)):
            values = [found[rank * count + n] for rank in range(processes.size)]
            values[processes.rank] = array
            jobs.append(mailboxes.fold(operation, values, array))
        return in_turn(*jobs)

    def _by_messages(self, arrays: Sequence[Any]) -> Callable[[], None]:
        kinds = [np.asarray(taichi_arrays.to_host(array)).dtype for array in arrays]
        record = np.dtype([(f"f{number}", kind) for number, kind in enumerate(kinds)])
        own, every = np.zeros(1, record), np.zeros(self._processes.size, record)

        def join() -> None:
            for name, array in zip(record.names or (), arrays, strict=True):
                own[name] = taichi_arrays.to_host(array)
            self._processes.all_bytes(own, every)
            named = zip(record.names or (), arrays, self._operations, strict=True)
            for name, array, operation in named:
                taichi_arrays.write(array, joined(operation, every[name]))

        return join

    def described(self, names: Sequence[str]) -> str:
        """Return it in words."""
        pairs = zip(self._operations, names, strict=True)
        return "join " + ", ".join(f"{operation} {name}" for operation, name in pairs)


def joined(operation: str, found: NDArray) -> NDArray:
    """Return the sum, the greatest or the least of some numbers, as an array of one element.

    Sums of floats are added up in double precision, from the first to the last.
    """
    if operation != "sum":
        extreme = {"max": np.max, "min": np.min}[operation]
        return np.array([extreme(found)], found.dtype)  # NaN wins.
    wide = np.dtype(np.float64) if found.dtype.kind == "f" else found.dtype
    total = np.zeros(1, wide)
    with np.errstate(all="ignore"):
        for each in found:
            total += wide.type(each)
        return total.astype(found.dtype)

"""Exact sums over a grid: what each process found of its terms becomes one number that all have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tikgen.grid.domain import Domain
from tikgen.grid.exact_sums import COUNT, add, rounded
from tikgen.program.team import Job, Work
from tikgen.taichi import arrays as taichi_arrays


class ExactTotals(Work):
    """The sums of terms that a kernel stored, each rounded once.

    Args:
        domain: the grid.
        terms: arrays of terms, 0 at ghost points.
        results: the one-element arrays that receive their sums.
    """

    def __init__(self, domain: Domain, terms: Sequence[Any], results: Sequence[Any]) -> None:
        self._processes = domain.processes
        self.arrays = (*terms, *results)

    def made_for(self, arrays: Sequence[Any]) -> Job:
        """Return the job that adds up what some arrays hold."""
        count = len(arrays) // 2
        terms, results = arrays[:count], arrays[count:]
        kinds = [np.asarray(taichi_arrays.to_host(array)).dtype for array in results]
        own = np.zeros((count, COUNT), np.int64)
        every = np.zeros((self._processes.size, *own.shape), np.int64)

        def total() -> None:
            own[...] = 0
            for found, array in zip(own, terms, strict=True):
                add(found, taichi_arrays.to_host(array))
            self._processes.all_bytes(own.reshape(-1), every.reshape(self._processes.size, -1))
            for number, (array, kind) in enumerate(zip(results, kinds, strict=True)):
                taichi_arrays.write(array, rounded(every[:, number], kind))

        return Job(total, why="Python rounds exact sums, as Grid(..., sums='exact') wants")

    def described(self, names: Sequence[str]) -> str:
        """Return it in words."""
        return f"add exactly {', '.join(names[len(names) // 2 :])}"

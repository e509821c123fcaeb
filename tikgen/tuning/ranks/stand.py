"""The fields of a problem on all ranks, and on rank 0 the data and the expected results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.grid.binding import GridStep
from tikgen.grid.field import Field
from tikgen.grid.grid import Grid
from tikgen.grid.processes import Processes
from tikgen.pipeline.kernel import Kernel
from tikgen.taichi import arrays as taichi_arrays
from tikgen.taichi import runtime
from tikgen.template.arguments import Array
from tikgen.template.base import Template
from tikgen.tuning.job import RanksJob
from tikgen.tuning.measuring import Disagrees, verify_small
from tikgen.tuning.ranks.agreement import agreed
from tikgen.tuning.ranks.division import division_of
from tikgen.tuning.workload import Workload

NDArray = npt.NDArray[Any]


class Stand:
    """A problem on a grid; all ranks make it and call its methods together.

    Attributes:
        kinds: names of the kinds of data.
        verified: the worst error of what agreed with the reference, by parameters and kind of data.

    Raises:
        Ends: if the data, the reference or the grid cannot be made.
    """

    def __init__(
        self, processes: Processes, template: Template, problem: Any, job: RanksJob
    ) -> None:
        self._processes, self._template, self._job = processes, template, job
        self._problem = problem
        division = agreed(processes, lambda: division_of(template, problem, job.sizes))
        self._workload = agreed(processes, self._made_workload)
        self.kinds: tuple[str, ...] = processes.shared(self._workload and self._workload.kinds)
        self._grid = Grid(division.shape, periodic=division.periodic, halo=division.halo)
        self._arguments = template.arguments(problem)
        self._faces = division.use.faces
        self._fields: dict[str, Field] = {}
        arrays = {a.name: a for a in self._arguments if isinstance(a, Array)}
        for name, layers in division.use.layers.items():
            kept = arrays[name]
            self._fields[name] = self._grid.layers(kept.dtype, int(kept.shape[0]), layers)
        for name, use in division.use.arrays.items():
            argument = arrays[name]
            components = [extent for extent in argument.shape if isinstance(extent, int)]
            layout: Any = "first" if use.first_axis or not components else "last"
            self._fields[name] = self._grid.zeros(
                argument.dtype, components=components[0] if components else 0, layout=layout
            )
        self._written = [a.name for a in self._arguments if isinstance(a, Array) and a.written]
        self._values: dict[str, Any] = {}
        # What this rank owns of fields that launches read and change.
        self._updated = [
            a.name for a in self._arguments if isinstance(a, Array) and a.role == "inout"
        ]
        self._starts: dict[str, NDArray] = {}
        self.verified: dict[tuple[str, str], float] = {}

    @property
    def is_updated(self) -> bool:
        """Return whether launches change what they read."""
        return bool(self._updated)

    def use(self, kind: str) -> None:
        """Have fields hold a kind of data, and outputs poison."""
        workload = self._workload
        given = agreed(self._processes, lambda: workload and self._named(workload.use(kind)))
        others = self._processes.shared(
            given and {name: value for name, value in given.items() if name not in self._fields}
        )
        for name, field in self._fields.items():
            self._grid.scatter(field, given and given[name])
        self._values = {name: self._held(name, value) for name, value in others.items()}
        self._starts = {
            name: np.array(self._fields[name].to_numpy())
            for name in self._updated
            if name in self._fields
        }

    def restore(self) -> None:
        """Restore the first values of fields that are read and written."""
        for name, values in self._starts.items():
            self._fields[name].from_numpy(values)

    def bound(self, kernel: Kernel) -> GridStep:
        """Return a kernel with the fields and values of the current kind of data."""
        given = {**self._values, **self._fields}
        return self._grid.bind(kernel, **{a.name: given[a.name] for a in self._arguments})

    def judge(self, kernel: Kernel, kind: str) -> float:
        """Return the worst error of what fields hold after one step from a kind of data.

        Raises:
            Ends: if it is too large, or rank 0 cannot tell.
        """
        whole = {name: self._gathered(name) for name in self._written}
        worst = agreed(self._processes, lambda: self._judged(kernel, kind, whole))
        return float(self._processes.shared(worst))

    def _judged(self, kernel: Kernel, kind: str, outputs: Mapping[str, Any]) -> float:
        if self._workload is None:
            return 0.0
        worst = self._know(kernel, kind)
        self._workload.take(outputs)
        found, message = self._workload.judge()
        if message:
            raise Disagrees(f"{message}, on {self._job.ranks} ranks", max(worst, found))
        return max(worst, found)

    def _know(self, kernel: Kernel, kind: str) -> float:
        """Have the expected results: where the reference takes long, those of one process."""
        assert self._workload is not None
        if self._workload.is_judge:
            return 0.0
        worst = verify_small(self._template, kernel, self._problem, self._job)
        kernel(*self._workload.use(kind))
        runtime.sync()
        self._workload.judge()
        return worst

    def _made_workload(self) -> Workload | None:
        if self._processes.rank:
            return None
        # The whole arrays lie on the host, on any arch.
        return Workload(self._template, self._problem, replace(self._job, arch="cpu"))

    def _named(self, values: list[Any]) -> dict[str, Any]:
        return {a.name: value for a, value in zip(self._arguments, values, strict=True)}

    def _held(self, name: str, value: Any) -> Any:
        """Return a value as the grid takes it, one-element arrays without a copy for the arch."""
        is_array = isinstance(value, np.ndarray) and name not in self._faces
        if not is_array or self._job.arch == "cpu":
            return value
        array = taichi_arrays.make_ndarray(str(value.dtype), value.shape)
        array.from_numpy(value)
        return array

    def _gathered(self, name: str) -> Any:
        if name in self._fields:
            return self._grid.gather(self._fields[name])
        return taichi_arrays.to_host(self._values[name])

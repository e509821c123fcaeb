"""What is done between launches is part of a graph, if a graph can record it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen import engines
from tikgen.program import graphs, steppers
from tikgen.program.graphs import GraphStepper
from tikgen.program.launchers import Launchers
from tikgen.program.team import Job, Work
from tikgen.taichi import arrays


class Doubling(Work):
    """Doubles an array."""

    def __init__(self, array: Any, is_recordable: bool) -> None:
        self.arrays, self._is_recordable = (array,), is_recordable

    def made_for(self, arrays: Sequence[Any]) -> Job:
        (array,) = arrays

        def run() -> None:
            array[...] *= 2

        return Job(run, is_recordable=self._is_recordable)

    def described(self, names: Sequence[str]) -> str:
        return f"double {names[0]}"


@pytest.mark.parametrize("is_recordable", [True, False])
def test_graphs_hold_jobs_that_can_be_recorded(
    is_recordable: bool, ti_arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ti_arch != "cpu" or engines.problem(engines.DIRECT_CPU):
        pytest.skip("launches by direct-cpu stand for those of a GPU")
    recorded: list[int] = []
    monkeypatch.setattr(graphs, "_LAUNCHES", 32)

    def record(launches: Sequence[Callable[[], object]]) -> Callable[[], object]:
        recorded.append(len(launches))
        return lambda: [launch() for launch in launches]

    def made(plan: Any, *_: Any, **__: Any) -> GraphStepper:
        return GraphStepper(plan, Launchers(engines.DIRECT_CPU), record, lambda: None)

    monkeypatch.setattr(steppers, "NativeStepper", made)
    monkeypatch.setattr(arrays, "is_copied", lambda array: False)
    u, un = np.ones(8), np.zeros(8)
    add = tikgen.elementwise("un = u + 1", dtype="f64")
    parts = [Doubling(u, is_recordable), add.bind(u=u, un=un), tikgen.swap((u, un))]
    found = tikgen.Program(parts, u=u, un=un)
    assert found.is_native, found.why_not_native
    stepper = found._walk.stepper
    stepper.run(found._walk.at, 0, 45)
    assert (stepper.done, recorded) == (45, [32, 16, 8, 2] if is_recordable else [])
    assert (un == 2.0**46 - 1).all()

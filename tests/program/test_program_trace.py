"""A trace has a program's runs, and counts the launches within them."""

from __future__ import annotations

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from steppers import graphs_on_cpu, stepped

pytestmark = pytest.mark.usefixtures("ti_arch")


@stepped
def test_a_trace_has_runs_and_launches(native: bool) -> None:
    x = np.zeros(4, np.float32)
    add = tikgen.elementwise("x = x + 1")
    program = tikgen.Program([tikgen.loop(3, [add.bind(x)])], native=native)
    program.run(1)
    with tikgen.trace() as trace:
        program.run(20)
        program.run(5)
    runs = [event for event in trace.events if event.stage == "run"]
    assert [event.details["steps"] for event in runs] == [20, 5]
    (launched,) = trace.launches
    assert launched.subject.name == add.name
    assert launched.count == 75
    text = str(trace)
    assert text.startswith("1 kernel, 0 compilations, 75 launches in ")
    assert "program  [a program]" in text
    assert "test_program_trace.py:" in text
    natively = "CUDA graphs" if ARCH == "cuda" else "native code"
    how = natively if native else "launches from Python"
    assert f"steps=20, how={how}" in text
    assert "steps=20" in trace._repr_html_()
    assert len(trace.rows()) == 3


@pytest.mark.skipif(ARCH != "cpu", reason="cuda has graphs")
def test_a_trace_has_the_launches_of_graphs_and_those_beside_them(ti_arch: str) -> None:
    x, y = np.zeros((2, 4), np.float32)
    beside, within = tikgen.elementwise("x = x + a"), tikgen.elementwise("y = y - 1")
    with graphs_on_cpu():
        changing = tikgen.varying(beside.bind(x=x, a=0), a=lambda step: step)
        program = tikgen.Program([changing, within.bind(y=y), within.bind(y=y)], native=True)
        with tikgen.trace() as trace:
            program.run(7)
    assert (x[0], y[0]) == (21, -14)
    counts = {launched.subject.name: launched.count for launched in trace.launches}
    assert counts == {beside.name: 7, within.name: 14}

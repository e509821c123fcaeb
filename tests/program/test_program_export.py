"""A program's steps as a graph that runs without Python."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.aot.manifest import Failure
from tikgen.errors import ExportError, ProgramError

pytestmark = pytest.mark.usefixtures("ti_arch")


def heat() -> tikgen.Program:
    step = tikgen.build("stencil", dim=1, update=True, boundary="periodic")
    u = np.random.default_rng(5).random(20, np.float32)
    un = np.zeros_like(u)
    looped = tikgen.loop(3, [step.bind(u, un, 0.25), tikgen.swap((u, un))])
    return tikgen.Program([looped], u=u, un=un)


def test_a_graph_has_the_launches_of_all_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    bundle = SimpleNamespace(graphs=("program",), failures=())

    def export(kernels: Any, path: str, archs: Any, **options: Any) -> SimpleNamespace:
        given.update(kernels=kernels, **options)
        return bundle

    monkeypatch.setattr("tikgen.aot.exporting.export.export", export)
    assert heat().export("heat.zip", ["cpu"], verify=True) is bundle
    ((name, kernel),) = given["kernels"].items()
    built = tikgen.build("stencil", dim=1, update=True, boundary="periodic")
    assert (kernel.template, kernel.problem) == (built.template, built.problem)
    forth = (name, {"x": "u", "y": "un", "scale": 0.25})
    back = (name, {"x": "un", "y": "u", "scale": 0.25})
    assert given["graphs"] == {"program": {"steps": [forth, back] * 3, "program_steps": 2}}
    assert given["verify"] is True
    bundle.graphs = ()
    bundle.failures = Failure("program", "x64", "it lacks k."), Failure("k", "x64", "it is wrong")
    with pytest.raises(ExportError, match="program: k on x64: it is wrong; program on x64"):
        heat().export("heat.zip", ["cpu"])
    with pytest.raises(ExportError, match="a native bundle has no graphs"):
        heat().export("heat.zip", native=True)


@pytest.mark.slow
def test_a_graph_takes_the_same_steps(tmp_path: Path) -> None:
    program = heat()
    start = program["u"].copy()
    arch = "x64" if ARCH == "cpu" else ARCH
    program.export(tmp_path / "heat", [arch], verify=True, max_examples=1, examples=1)
    said = tikgen.aot.Bundle(tmp_path / "heat").manifest.graphs["program"].program_steps
    assert said == 2
    header = (tmp_path / "heat" / "include" / "heat.h").read_text()
    assert "each call does 2 steps of the program" in " ".join(header.replace(" *", "").split())
    program.run(said)
    with tikgen.aot.load(tmp_path / "heat") as runtime:
        given, other = runtime.array(start), runtime.array(np.zeros_like(start))
        runtime.program(u=given, un=other)
        np.testing.assert_allclose(given.to_numpy(), program["u"], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(ARCH != "cpu", reason="the workspace is the same on every arch")
def test_a_graph_has_the_workspace_of_sums(tmp_path: Path) -> None:
    x = np.random.default_rng(6).random(3000, np.float32)
    err = np.zeros(1, np.float32)
    step = tikgen.update("y' = y + dx(y); err = sum(y)", dim=1, boundary="periodic")
    program = tikgen.Program([step.bind(y=x, y_next=x.copy(), err=err)])
    assert program.export(tmp_path / "p", ["cpu"], verify=True, max_examples=1, examples=1).ok
    with tikgen.aot.load(tmp_path / "p") as runtime:
        y, total = np.zeros_like(x), np.zeros(1, np.float32)
        runtime.program(x, y, total)
    np.testing.assert_allclose(y, x + (np.roll(x, -1) - np.roll(x, 1)) / 2, atol=1e-6)
    np.testing.assert_allclose(total, x.sum(dtype=np.float64), rtol=1e-5)


def test_what_a_graph_cannot_hold_is_refused(tmp_path: Path) -> None:
    x = np.zeros(1, np.float32)
    add = tikgen.elementwise("x = x + a").bind(x=x, a=1)
    for part, message in (
        (tikgen.varying(add, a=[1.0]), "whose scalars change with the step"),
        (tikgen.when("x > 1", [add]), "cannot hold the condition 'x > 1'"),
        (tikgen.loop(2, [add], until="x > 2"), "cannot hold the condition 'x > 2'"),
        (tikgen.loop(1001, [add]), "more than 1000 launches"),
    ):
        with pytest.raises(ProgramError, match=message):
            tikgen.Program([part], x=x).export(tmp_path / "graph", ["x64"])


def test_a_reshaped_array_changes_places_with_the_other_one(tmp_path: Path) -> None:
    u, un = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    grow = tikgen.elementwise("y = x + 1", dim=2).bind(u, un)
    double = tikgen.elementwise("x = 2*x").bind(u.reshape(-1))
    program = tikgen.Program([grow, tikgen.swap((u, un)), double], u=u, un=un)
    program.run(3)
    assert np.all(program["u"] == 22)  # 2*(x + 1) three times, from 1.
    for parts in ([grow, tikgen.swap((u, un)), double], [double, grow]):
        message = r"cannot hold \w+ \(.*\), to which kernels write, and .*, which shares memory"
        with pytest.raises(ProgramError, match=message):
            tikgen.Program(parts).export(tmp_path / "graph", ["x64"])


def test_arrays_that_are_read_alone_may_share_memory_in_a_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(
        "tikgen.aot.exporting.export.export",
        lambda *given, graphs, **_: kept.append(graphs) or SimpleNamespace(graphs=("program",)),
    )
    u, un, flat = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32), np.zeros(6, np.float32)
    grow = tikgen.elementwise("y = x + y", dim=2).bind(u, un.copy())
    parts = [grow, tikgen.elementwise("z = z + x").bind(x=u.ravel(), z=flat)]
    tikgen.Program(parts).export("graph.zip", ["x64"])
    assert len(kept[0]["program"]["steps"]) == 2
    assert kept[0]["program"]["program_steps"] == 1
    read = tikgen.elementwise("y = x + y", dim=2).bind(un, np.zeros((2, 3), np.float32))
    swapped = tikgen.Program([*parts, read, tikgen.swap((u, un))])
    with pytest.raises(ProgramError, match="cannot hold a reshaped array that changes places"):
        swapped.export("graph.zip", ["x64"])

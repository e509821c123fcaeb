"""Public functions take anything for an argument, and refuse it by an error of tikgen."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen import aot, scaling

pytestmark = pytest.mark.skipif(ARCH != "cpu", reason="the same on every arch")

STRANGE = (None, 5, -1, "", "no such", [], {}, object(), 1.5, (1, 2), float("nan"), lambda: 0)
FLAT = scaling.Machine(1, {"copy": ((1e3, 1e-6), (1e12, 1e3))}, None)
UPDATE = {"equations": "u' = u + dt*lap(u)", "dim": 2, "scalars": "dt", "boundary": "zero"}
OF_UPDATES = "order spacing constants mask where vectors at types outputs part dtype"


def calls() -> dict[str, tuple[Callable[..., object], dict[str, Any]]]:
    """Return functions with arguments that they take, which launch and measure nothing."""
    x, y, n = np.zeros(4, np.float32), np.zeros(4, np.float32), np.zeros(1, np.float32)
    kernel = tikgen.build("map", expr="y = a*x", dtype="f32")
    bound = kernel.bind(x=x, y=y, a=1.0)
    program = tikgen.Program([bound, "n = n + 1"], n=n)
    grid, heat = tikgen.Grid((4, 5)), tikgen.update(**UPDATE)
    layers = tikgen.update(**UPDATE | {"boundary": tikgen.absorbing(2, kind="cpml")})
    fields = {"u": grid.zeros(), "u_next": grid.zeros(), "dt": 0.1}
    step = grid.bind(heat, **fields)
    loader, source = tikgen.live.Loader(), tikgen.render("map", expr="y = x")
    with tikgen.trace() as trace:
        pass
    return {
        "Array": (tikgen.Array, {"name": "x", "dtype": "f32", "shape": ("n",)}),
        "Scalar": (tikgen.Scalar, {"name": "x", "dtype": "f32"}),
        "Assignments": (tikgen.Assignments, {}),
        "Expression": (tikgen.Expression, {}),
        "Equations": (tikgen.Equations, {}),
        "DType": (lambda value: tikgen.DType(value), {"value": "f32"}),
        "Identifier": (tikgen.Identifier, {}),
        "Grid": (tikgen.Grid, {"shape": (4, 4)}),
        "Program": (tikgen.Program, {"parts": [bound]}),
        "absorbing": (tikgen.absorbing, {"width": 4}),
        "dirichlet": (tikgen.dirichlet, {"value": 4}),
        "neumann": (tikgen.neumann, {"slope": 4}),
        "matched_layers": (
            tikgen.matched_layers,
            {"kernel": layers, "shape": (9, 9), "courant": 0.5},
        ),
        "load_template": (tikgen.load_template, {}),
        "build": (tikgen.build, {"name": "map", "expr": "y = x", "dim": 1, "part": None}),
        "update": (tikgen.update, UPDATE | dict.fromkeys(OF_UPDATES.split())),
        "render": (tikgen.render, {"name": "map", "expr": "y = x"}),
        "copy": (tikgen.copy, {"source": x, "target": y}),
        "loop": (tikgen.loop, {"times": 2, "parts": [bound]}),
        "when": (tikgen.when, {"condition": "n < 1", "parts": [bound]}),
        "swap": (lambda pair: tikgen.swap(pair), {"pair": (x, y)}),
        "varying": (tikgen.varying, {"bound": bound, "a": [1.0]}),
        "elementwise": (tikgen.elementwise, {"expr": "y = x"}),
        "reduce": (tikgen.reduce, {"expr": "sum(x)"}),
        # With a wrong expression nothing is measured. A verification would take seconds.
        "sweep": (tikgen.sweep, {"name": "map", "shape": 5, "expr": "y = q +"}),
        "tune": (tikgen.tune, {"name": "map", "shape": 5, "expr": "y = q +"}),
        "aot.load": (aot.load, {"path": "absent"}),
        "aot.export": (aot.export, {"kernels": [], "path": "bundle"}),
        "aot.Module": (aot.Module, {}),
        "aot.export_recording": (aot.export_recording, {"file": "absent", "path": "bundle"}),
        "scaling.measure": (scaling.measure, {"program": program}),
        "scaling.predict": (
            scaling.predict,
            {"program": tikgen.Program([step]), "ranks": [1], "machine": FLAT},
        ),
        "Kernel.with_engine": (kernel.with_engine, {}),
        "Kernel.eject": (kernel.eject, {}),
        "Kernel.ir": (kernel.ir, {"kind": "python"}),
        "Kernel.bind": (kernel.bind, {"x": x, "y": y, "a": 1.0}),
        "Program.run": (program.run, {"steps": 0}),
        "Program.current": (program.current, {}),
        "Program[]": (program.__getitem__, {}),
        "Program.save": (program.save, {}),
        "Program.load": (program.load, {"path": "absent"}),
        "Program.restore": (program.restore, {}),
        "Grid.full": (grid.full, {"value": 1.0}),
        "Grid.field": (grid.field, {"values": np.zeros((4, 5))}),
        "Grid.bind": (grid.bind, {"kernel": heat, **fields}),
        "Grid.gather": (grid.gather, {}),
        "Grid.matched_layers": (grid.matched_layers, {"kernel": layers, "courant": 0.5}),
        "Loader.load": (loader.load, {"text": "", "id": "a"}),
        "Loader.rollback": (loader.rollback, {}),
        "Loader[]": (loader.__getitem__, {}),
        "Trace.save": (trace.save, {}),
        "Trace.table": (trace.table, {}),
        "Source.line": (source.line, {}),
        "Source.template_line": (source.template_line, {}),
    }


def test_no_error_of_python_reaches_a_user(
    ti_arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for name, (function, given) in calls().items():
        known = inspect.signature(function).parameters.values()
        first = [p.name for p in known if p.kind is p.POSITIONAL_ONLY]
        taken = [p.name for p in known if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        for argument in dict.fromkeys((*taken, *given)):
            for value in STRANGE:
                named = {**given, argument: value}
                ordered = [named.pop(each) for each in first if each in named]
                try:
                    function(*ordered, **named)
                except tikgen.TikgenError:
                    pass
                except Exception as error:
                    found.append(f"{name}({argument}={value!r:.20}): {error!r:.90}")
    assert found == []

"""The command sweep: axes from texts, files it writes, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tikgen.cli import sweep_command as sweeps
from tikgen.errors import ParameterError, TemplateError, TikgenError
from tikgen.template.catalogue import find_template
from tikgen.tuning.sweeps.table import SweepResult

APP = typer.Typer()
APP.command("other")(lambda: None)
APP.command("sweep")(sweeps.sweep_command)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dtype=[f32,f64]", ["f32", "f64"]),
        ("dtype=[f32, 'f64' ]", ["f32", "f64"]),
        ("dim=[2,3]", [2, 3]),
        ("dim=2", 2),
        ("spacing=(1.0, 2.0)", (1.0, 2.0)),
        ("expr=[x + y, min(x, y), z]", ["x + y", "min(x, y)", "z"]),
        ("dtype=[]", []),
    ],
)
def test_brackets_make_an_axis(text: str, value: object) -> None:
    (parsed,) = sweeps.parse_axes("stencil", [text]).values()
    assert parsed == value


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(ParameterError, match="given twice"):
        sweeps.parse_axes("stencil", ["dim=2", "dim=3"])


def test_the_command_writes_what_it_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    table, plot, roofline = (tmp_path / n for n in ("table.csv", "plot.png", "roofline.png"))
    arguments = ["sweep", "stencil", "-p", "dim=2", "-p", "order=[2,4]", "--shape", "24"]
    arguments += ["--shape", "16,40", "--rounds", "2", "-o", str(table), "--plot", str(plot)]
    arguments += ["--roofline", str(roofline), "--results", str(tmp_path / "results.jsonl")]
    shown = CliRunner().invoke(APP, arguments)
    assert shown.exit_code == 0, shown.output
    assert "4 combinations, 4 timed" in shown.output
    assert all(f"wrote {path}" in shown.output for path in (table, plot, roofline))
    assert plot.stat().st_size > 1000
    assert roofline.stat().st_size > 1000
    again = CliRunner().invoke(APP, [*arguments, "--json"])
    found = json.loads(again.output)
    assert found["about"]["counts"]["measured"] == 0
    loaded = SweepResult.load(table)
    assert [row["shape"] for row in loaded.rows] == ["24x24", "24x24", "16x40", "16x40"]
    assert [row["seconds"] for row in found["rows"]] == [row["seconds"] for row in loaded.rows]


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        (["timed", "timed"], 0),
        (["timed", "refused"], 0),
        (["timed", "mismatch"], 1),
        (["timed", "crash"], 1),
        (["refused", "refused"], 2),
    ],
)
def test_a_failure_of_one_kernel_shows_in_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, kinds: list[str], code: int
) -> None:
    from tikgen.cli.app import app
    from tikgen.tuning.job import Measurement
    from tikgen.tuning.process import MeasuringProcess

    left = iter(kinds)

    def run(self, job, baseline=None) -> Measurement:
        kind = next(left) if job.template == "stencil" else "timed"
        return Measurement(kind, f"{kind} by the test", "d", seconds=1.0)

    monkeypatch.setattr(MeasuringProcess, "run", run)
    monkeypatch.setattr(MeasuringProcess, "start", lambda self: "")
    shown = CliRunner().invoke(app, ["sweep", "stencil", "-p", "order=[2,4]", "--shape", "9"])
    assert shown.exit_code == code, shown.output
    for kind in set(kinds) - {"timed"}:
        assert shown.output.count(f"{kind} by the test") == 1


@pytest.mark.parametrize(
    ("option", "column"),
    [
        ("--x", "nope"),
        ("--y", "secondz"),
        ("--hue", "size_n2"),
        ("--x", "size_n1"),
        ("--y", "worst"),
    ],
)
def test_unknown_columns_are_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str, column: str
) -> None:
    pytest.importorskip("matplotlib")
    from tikgen.tuning.sweeps import sweep as sweeping

    def sweep(*_: object, **__: object) -> None:
        raise RuntimeError("it would measure")

    monkeypatch.setattr(sweeping, "sweep", sweep)
    arguments = ["sweep", "stencil", "-p", "dim=2", "-p", "order=[2,4]", "--shape", "9"]
    shown = CliRunner().invoke(APP, [*arguments, "--plot", str(tmp_path / "p.png"), option, column])
    if column in ("size_n1", "worst"):
        assert isinstance(shown.exception, RuntimeError)
    else:
        assert isinstance(shown.exception, ParameterError)
        assert f"'{column}' is unknown" in str(shown.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", [("-o", "x.xlsx"), ("-o", "no/x.csv"), ("--plot", "x.txt")])
def test_files_that_cannot_be_written_are_refused_first(option: tuple[str, str]) -> None:
    shown = CliRunner().invoke(APP, ["sweep", "stencil", "--shape", "9", *option])
    assert shown.exit_code != 0
    assert isinstance(shown.exception, TikgenError) or "cannot write" in shown.output


def test_a_roofline_without_operations_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    from tikgen.template.base import Template
    from tikgen.tuning.sweeps import sweep as sweeping

    monkeypatch.setattr(sweeping, "sweep", lambda *_, **__: pytest.fail("it would measure"))
    for method in ("flops", "cost"):
        monkeypatch.setattr(type(find_template("stencil")), method, getattr(Template, method))
    arguments = ["sweep", "stencil", "--shape", "9", "--roofline", str(tmp_path / "r.png")]
    shown = CliRunner().invoke(APP, arguments)
    assert isinstance(shown.exception, TemplateError)
    assert "declare flops(p, sizes)" in str(shown.exception)

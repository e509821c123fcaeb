"""How commands end: what they print last, and their exit codes, without any measurement."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tikgen.cli import app, bundle_commands, common, export_command, tuning_commands, watch_command
from tikgen.cli.exit_codes import FAILED, INTERRUPTED, MISUSED, OK
from tikgen.cli.given_arrays import given_arrays
from tikgen.cli.output import print_result
from tikgen.errors import ArgumentError, ParameterError, TemplateError
from tikgen.template import catalogue
from tikgen.tuning.sweeps.table import SweepResult

ROW = {"digest": "d", "kind": "timed", "message": None, "seconds": 1.0}


def code_of(*words: str) -> int:
    return CliRunner().invoke(app, list(words)).exit_code


def test_a_sweep_that_was_interrupted_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"template": "map", "arch": "cpu", "shape": "(64,)", "baked": False, **ROW}
    result = SweepResult([row], {"complete": False})
    monkeypatch.setattr("tikgen.tuning.sweeps.sweep.sweep", lambda *_, **__: result)
    done = CliRunner().invoke(app, ["sweep", "map", "-p", "expr=y = x", "--shape", "64"])
    assert done.exit_code == INTERRUPTED, repr(done.exception)


def test_a_demonstration_that_disagrees_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = SimpleNamespace(ok=False)
    monkeypatch.setattr("tikgen.demo.demonstration.run_demo", lambda *_: wrong)
    assert code_of("demo", "--arch", "cpu") == FAILED


def test_a_reader_that_went_away_is_no_error_of_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def closed(*_: Any) -> None:
        raise OSError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(catalogue, "list_templates", closed)
    outcome = CliRunner().invoke(app, ["list"])
    assert "Broken pipe" not in outcome.output


def test_a_folder_without_a_text_is_no_template(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"the folder holds no kernel\.py\.j2"):
        common.template_name(f"{tmp_path}{os.sep}")


def test_a_bundle_that_is_not_there_cannot_be_verified(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(app, ["bundle", "verify", str(tmp_path / "none")])
    assert isinstance(outcome.exception, SystemExit)
    assert outcome.exit_code == 2
    assert "does not exist" in " ".join(outcome.output.split())


def test_a_native_bundle_takes_no_recording(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="a graph, which a native bundle cannot have"):
        export_command._check_native(True, "", False, tmp_path / "recording")


def drawn_for(**texts: tuple[str, str]) -> dict[str, Any]:
    """Return the arrays of a run, of which the dtype and the text are given."""
    arguments: Any = {
        name: SimpleNamespace(name=name, dtype=dtype) for name, (dtype, _) in texts.items()
    }
    wanted = {name: text for name, (_, text) in texts.items()}
    return given_arrays("k", wanted, arguments, np.random.default_rng(0))


def test_random_integers_of_a_run_are_indices() -> None:
    drawn = drawn_for(x=("i16", "random:40x5"), y=("u8", "zeros:5"))["x"]
    assert (drawn.dtype, drawn.shape, set(drawn.ravel())) == (np.int16, (40, 5), {0, 1, 2, 3})
    drawn = drawn_for(x=("i32", "random:40"), y=("f32", "random:3x9"))
    assert set(drawn["x"]) == {0, 1, 2} and -1 <= drawn["y"].min() < 0 < drawn["y"].max() < 1


def test_random_numbers_of_a_run_lie_between_limits() -> None:
    drawn = drawn_for(x=("i32", "random(-1, 3):400"), y=("f16", "random(2,4.5):20000"))
    assert set(drawn["x"]) == {-1, 0, 1, 2}
    assert 2 <= drawn["y"].min() < 2.1 and 4.4 < drawn["y"].max() < 4.5
    assert set(drawn_for(x=("u8", "random(255,256):9"))["x"]) == {255}
    for dtype, limits in (
        ("u8", "0,257"), ("u8", "-1,4"), ("i32", "0,1.5"), ("i32", "3,3"), ("f32", "0,inf"),
        ("f32", "a,b"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=r"takes random\(LOW,HIGH\)"):
            drawn_for(x=(dtype, f"random({limits}):5"))


def test_results_of_a_run_are_shown() -> None:
    shown = bundle_commands._summary(np.array([1.0, np.inf]))
    assert (shown["min"], shown["max"]) == (1.0, None)
    assert [bundle_commands._shown(shown[key]) for key in ("min", "max", "shape")] == [
        "1",
        "not finite",
        "2",
    ]


def test_a_terminal_gets_the_drawing_of_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    class Result:
        def __rich__(self) -> str:
            return "[bold]drawn[/]"

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    print_result(Result(), as_json=False)
    assert "drawn" in terminal.getvalue() and "Result" not in terminal.getvalue()


def test_a_record_says_why_it_is_not_current() -> None:
    names = ("map", "no_such_template")
    said = [tuning_commands._why_not_current(SimpleNamespace(template=name)) for name in names]
    assert said == ["of another version", "template not found here"]


def test_watching_goes_on_after_parameters_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verified: list[int] = []

    def verify(folder: Path, *_: Any) -> None:
        verified.append(1)
        if len(verified) == 2:
            raise ParameterError("map", {"dim": "is unknown now"})

    monkeypatch.setattr(watch_command, "_saves", lambda folder: iter(range(3)))
    monkeypatch.setattr(watch_command, "_verify", verify)
    assert code_of("watch", "map") == 0
    assert len(verified) == 3
    found = SimpleNamespace(status="passed", arch="cpu", summary="3 runs", skipped={"no f64": 2})
    monkeypatch.undo()
    monkeypatch.setattr(
        "tikgen.verification.verify", lambda *_, **__: SimpleNamespace(archs=[found])
    )
    watch_command._verify(catalogue.find_template("map").folder, ["cpu"], 1, {})
    assert "2 skipped: no f64" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("render", "transpose", "-o"),
        ("eject", "transpose", "-o"),
        ("submit", "-o", "FILE", __file__),
        ("tuned", "export"),
    ],
    ids=lambda words: words[0],
)
def test_a_file_that_was_edited_is_overwritten_by_force_alone(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tikgen.tuning.exchange.exported", lambda *_: ("[[record]]\n", 1))
    file = tmp_path / "mine"
    command = [str(file) if word == "FILE" else word for word in words]
    command += [str(file)] if "FILE" not in words else []
    file.touch()  # As mktemp does.
    assert code_of(*command) == code_of(*command) == OK
    written = file.read_text()
    file.write_text(edited := f"{written}# mine\n")
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == MISUSED
    assert "pass --force to overwrite it" in " ".join(refused.output.split())
    assert file.read_text() == edited
    at = 2 if words[0] == "tuned" else 1
    assert code_of(*command[:at], "--force", *command[at:]) == OK
    assert file.read_text() == written

"""Exit codes, which mean the same in every command."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli_process import run_cli
from tikgen import errors
from tikgen.cli import app, exit_codes
from tikgen.cli.exit_codes import FAILED, MISUSED, OK
from tikgen.verification import Report
from tikgen.verification.case import Case, Outcome
from tikgen.verification.report import ArchReport, Failure

NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "TI_ENABLE_CUDA": "0"}
RIGHT = ArchReport("cpu", examples=3, variants=2)
CASE = Case("scan", "", "cpu", {}, {})
WRONG = ArchReport("cpu", failure=Failure(CASE, Outcome("mismatch", "2, not 3")))
ABSENT = ArchReport("cuda", absent="there is no such device")
SKIPPED = ArchReport("vulkan", skipped={"exp in f64": 9})


FEW = [
    ("build", "scan"),
    ("verify", "scan", "--max-examples", "1", "--arch", "cpu"),
    ("export", "scan", "--to", "bundle", "--arch", "cpu", "--verify"),
    ("tune", "scan", "--shape", "100"),
    ("demo",),
]
MORE = [
    ("verify", "scan", "--max-examples", "1"),
    ("export", "scan", "--to", "bundle"),
    ("ir", "scan", "llvm"),
    ("sweep", "scan", "--shape", "100"),
]


@pytest.mark.parametrize("commands", [FEW, pytest.param(MORE, marks=pytest.mark.slow)], ids=len)
def test_an_arch_that_does_not_work_here_is_2(
    commands: list[tuple[str, ...]], tmp_path: Path
) -> None:
    folders = [tmp_path / command[0] for command in commands]
    for folder in (results := tmp_path / "results", *folders):
        folder.mkdir()
    words = [(*command, "--arch", "cuda") for command in commands]
    found = run_cli(*words, results=results, folders=folders, environment=NO_GPU)
    for command, folder, done in zip(commands, folders, found, strict=True):
        told = done.output + done.errors
        assert done.code == MISUSED, (command, told)
        assert "cuda" in told, command
        assert "Traceback" not in done.errors, (command, told)
        assert not list(folder.iterdir()), command


# Commands that take a template, with what else they need.
OF_TEMPLATES: dict[str, tuple[str, ...]] = {
    "describe": (),
    "render": (),
    "verify": (),
    "watch": (),
    "build": (),
    "eject": (),
    "ir": ("llvm",),
    "why": (),
    "tune": ("--shape", "10"),
    "sweep": ("--shape", "10"),
    "export": ("--to", "bundle"),
}


def test_each_command_that_takes_a_template_is_tried() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    named = set(re.findall(r"^│ (\w+) ", shown, re.MULTILINE))
    of_none = {"list", "new", "trace", "submit", "doctor", "demo", "tuned", "bundle", "cache"}
    assert named == of_none | OF_TEMPLATES.keys()


@pytest.mark.some
@pytest.mark.parametrize("command", OF_TEMPLATES)
@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (("scam",), "There is no template 'scam'"),
        (("scan", "op=most"), "scan: parameter 'op' takes sum, prod, min or max; got 'most'."),
        (("scan", "ops=sum"), "scan: parameter 'ops' is unknown"),
    ],
)
def test_wrong_usage_is_2_and_reported_once(
    command: str,
    template: tuple[str, ...],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *params = template
    given = params if command == "export" else [w for param in params for w in ("-p", param)]
    shown = CliRunner().invoke(app, [command, name, *OF_TEMPLATES[command], *given])
    told = " ".join(shown.output.split())
    assert shown.exit_code == MISUSED, told
    assert told.startswith("error: ")
    assert told.count(problem) == 1, told
    assert not list(tmp_path.iterdir())


def test_a_new_template_needs_a_folder_to_stand_in(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["new", "mine", "--path", str(tmp_path / "missing")])
    assert shown.exit_code == MISUSED
    assert "make it first" in " ".join(shown.output.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("archs", "code", "code_if_named"),
    [
        ((RIGHT,), OK, OK),
        ((RIGHT, ABSENT), OK, MISUSED),
        ((RIGHT, SKIPPED), OK, MISUSED),
        ((ABSENT,), MISUSED, MISUSED),
        ((SKIPPED,), MISUSED, MISUSED),
        ((WRONG,), FAILED, FAILED),
        ((RIGHT, WRONG, ABSENT), FAILED, FAILED),
    ],
)
def test_a_verification_fails_where_an_arch_does(
    archs: tuple[ArchReport, ...], code: int, code_if_named: int
) -> None:
    report = Report("scan", 1, archs)
    assert exit_codes.of_report(report, every_arch=False) == code
    assert exit_codes.of_report(report, every_arch=True) == code_if_named


def test_tuning_a_kernel_that_does_not_compile_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from tikgen.tuning.job import Measurement
    from tikgen.tuning.process import MeasuringProcess

    refused = Measurement("error", "KernelCompileError: Taichi cannot compile the kernel")
    monkeypatch.setattr(MeasuringProcess, "start", lambda self: "")
    monkeypatch.setattr(MeasuringProcess, "run", lambda *_: refused)
    shown = CliRunner().invoke(app, ["tune", "scan", "--shape", "100"])
    assert shown.exit_code == FAILED, shown.output
    assert "Taichi cannot compile the kernel" in shown.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.KernelCompileError("scan", "is refused"), FAILED),
        (errors.RenderError("scan", "cannot be rendered"), FAILED),
        (errors.VerificationError("scan", "mismatch"), FAILED),
        (errors.ExportError("scan", "it is refuted"), FAILED),
        (errors.RecordingError("calls.yml", "it is damaged"), MISUSED),
        (errors.LibraryError("loading", "it is damaged", 3), FAILED),
        (errors.TuningError("scan: no schedule could be timed"), FAILED),
        (errors.UnknownTemplate("scam", ["scan"]), MISUSED),
        (errors.ParameterError("scan", {"op": "is unknown"}), MISUSED),
        (errors.UnsupportedOnArch("scan", "cuda", "there is none"), MISUSED),
        (errors.BundleError("heat", "is no bundle"), MISUSED),
        (OSError(errno.ENOSPC, "No space left on device"), FAILED),
        (OSError(errno.EIO, "Input/output error"), FAILED),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), MISUSED),
        (PermissionError(errno.EACCES, "Permission denied"), MISUSED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_has_its_code(error: Exception, code: int) -> None:
    assert exit_codes.of_error(error) == code


def test_the_help_explains_them() -> None:
    shown = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    assert exit_codes.MEANING in shown

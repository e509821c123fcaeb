"""Exit codes, which mean the same in every command."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

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


@pytest.mark.parametrize(
    "command",
    [
        ("build", "scan"),
        pytest.param(("verify", "scan", "--max-examples", "1"), marks=pytest.mark.slow),
        ("verify", "scan", "--max-examples", "1", "--arch", "cpu"),
        pytest.param(("export", "scan", "--to", "bundle"), marks=pytest.mark.slow),
        ("export", "scan", "--to", "bundle", "--arch", "cpu", "--verify"),
        pytest.param(("ir", "scan", "llvm"), marks=pytest.mark.slow),
        ("tune", "scan", "--shape", "100"),
        pytest.param(("sweep", "scan", "--shape", "100"), marks=pytest.mark.slow),
        ("demo",),
    ],
    ids=" ".join,
)
def test_an_arch_that_does_not_work_here_is_2(command: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tikgen", *command, "--arch", "cuda"],
        capture_output=True,
        text=True,
        env=os.environ | NO_GPU,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert done.returncode == MISUSED, done.stdout + done.stderr
    assert "cuda" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
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

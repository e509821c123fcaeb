"""The demonstration: the exact solutions are exact, the run agrees, the picture is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tikgen.cli import app
from tikgen.demo.demonstration import DemoResult
from tikgen.demo.heat import RATIO, ExactHeat, NumpyHeat, initial_field


def demo(
    arch: str, *arguments: str, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tikgen", "demo", "--arch", arch, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env=os.environ | environment,
        check=False,
    )


def test_the_discrete_solution_is_what_numpy_steps_give() -> None:
    start = initial_field(12)
    heat = NumpyHeat(start)
    for _ in range(30):
        heat.step()
    exact = ExactHeat(start)
    np.testing.assert_allclose(heat.field, exact.discrete(30), atol=1e-12)
    np.testing.assert_allclose(exact.discrete(0), start, atol=1e-12)
    norm = np.sqrt(np.mean(heat.field**2))
    assert exact.norms(30)[0] == pytest.approx(norm, rel=1e-9)


def test_the_continuous_solution_decays_as_an_eigenfunction_does() -> None:
    n, steps = 15, 40
    x = np.arange(1, n + 1) / (n + 1)
    x, y, z = np.meshgrid(x, x, x, indexing="ij")
    start = np.sin(np.pi * x) * np.sin(2 * np.pi * y) * np.sin(3 * np.pi * z)
    time = RATIO * steps / (n + 1) ** 2
    expected = start * np.exp(-(1 + 4 + 9) * np.pi**2 * time)
    np.testing.assert_allclose(ExactHeat(start).continuous(steps), expected, atol=1e-12)


def test_a_wrong_result_is_not_ok() -> None:
    right = {
        "n": 8,
        "steps": 10,
        "seconds": 1.0,
        "gigabytes_per_second": 1.0,
        "numpy_seconds": 3.0,
        "error_to_discrete": 1e-7,
        "error_to_continuous": 0.5,
        "error_to_numpy": 1e-7,
    }
    assert DemoResult(**right).ok
    assert DemoResult(**right).speed_ratio == 3.0
    assert not DemoResult(**right | {"error_to_discrete": 1e-3}).ok
    assert not DemoResult(**right | {"error_to_numpy": float("nan")}).ok


@pytest.mark.once
@pytest.mark.parametrize("steps", ["1", pytest.param("25", marks=pytest.mark.slow)])
def test_the_demo_runs_agrees_and_draws(tmp_path: Path, steps: str, ti_arch: str) -> None:
    done = demo(ti_arch, "--n", "16", "--steps", steps, "--output", "heat.png", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("resolve", "render", "load", "compile", "run", "numpy", "GB/s", "steps/s"):
        assert word in done.stdout
    assert "It agrees with the exact decay of the difference equation" in done.stdout
    assert "DISAGREES" not in done.stdout
    picture = (tmp_path / "heat.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


@pytest.mark.once
def test_the_demo_of_equations_agrees_and_draws(tmp_path: Path, ti_arch: str) -> None:
    options = ("--n", "32", "--steps", "40", "--output", "pattern.png")
    done = demo(ti_arch, "gray-scott", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("resolve", "render", "load", "3 steps agree with NumPy", "steps/s"):
        assert word in " ".join(done.stdout.split())
    assert (tmp_path / "pattern.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.once
def test_without_matplotlib_it_names_the_extra(tmp_path: Path, ti_arch: str) -> None:
    blocker = tmp_path / "blocked" / "matplotlib"
    blocker.mkdir(parents=True)
    (blocker / "__init__.py").write_text("raise ModuleNotFoundError('No module matplotlib')")
    done = demo(ti_arch, "--n", "8", "--steps", "2", cwd=tmp_path, PYTHONPATH=str(blocker.parent))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pip install 'tikgen[plot]'" in done.stdout
    assert not list(tmp_path.glob("*.png"))


def test_a_picture_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["demo", "--arch", "cpu", "--output", "heat.xyz"])
    assert done.exit_code == 2
    assert "name a .png, .pdf, .svg, .jpg file" in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["demo", "--arch", "cpu", "--output", "absent/heat.png"])
    assert done.exit_code == 2
    assert "cannot write" in done.output
    assert "resolve" not in done.output

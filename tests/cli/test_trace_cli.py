"""The command ``tikgen trace``: runs a script as Python would, and tells of its kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tikgen.cli import app

pytestmark = pytest.mark.once

# What every script begins with; Taichi reads the arch from the environment.
HEAD = "import sys\nimport taichi as ti\nti.init(log_level=ti.ERROR, enable_fallback=False)\n"
ADD = """
@ti.kernel
def add(x: ti.template(), n: ti.i32):
    for i in x:
        x[i] += n

x = ti.field(ti.i32, shape=8)
add(x, 40)
add(x, 2)
print("sum", x.to_numpy().sum(), *sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path: Path, ti_arch: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where to write a script, which will run on the arch of this process."""
    monkeypatch.setenv("TI_ARCH", "x64" if ti_arch == "cpu" else ti_arch)
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "script.py"


def run(
    script: Path, *arguments: str, code: int = 0, before: tuple[str, ...] = ()
) -> tuple[str, str]:
    """Run ``tikgen trace`` with options before the script; return its two outputs."""
    done = subprocess.run(
        [sys.executable, "-m", "tikgen", "trace", *before, str(script), *arguments],
        cwd=script.parent.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_script_runs_and_its_kernels_are_told(script: Path) -> None:
    script.write_text(HEAD + ADD)
    written = [
        f"--{kind}={kind}.{end}"
        for kind, end in (("save", "json"), ("html", "html"), ("timeline", "png"))
    ]
    printed, told = run(script, "--save", "-x", before=(*written, "--device-time"))
    assert printed.splitlines()[-1] == "sum 336 --save -x"
    lines = squeezed(told)
    assert f"add [your own] {script}:5" in " ".join(lines)
    assert any(line.startswith("tensor_to_ext_arr [Taichi's own]") for line in lines)
    assert any(line.startswith("launch 2 ") for line in lines)
    assert any(line.startswith("device ") for line in lines)
    events = json.loads((script.parents[1] / "save.json").read_text())["traceEvents"]
    assert "compile add" in {event["name"] for event in events}
    assert "compile" in (script.parents[1] / "html.html").read_text("utf-8")
    assert (script.parents[1] / "timeline.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote" in told


def test_the_script_is_main_and_finds_its_neighbours(script: Path) -> None:
    (script.parent / "neighbour.py").write_text("print('neighbour')")
    script.write_text(
        "import sys, os, neighbour\n"
        "print(__name__, __file__, sys.argv[0] == __file__, sys.modules['__main__'].__file__)\n"
        "os.chdir('/')\n"
    )
    printed, told = run(script, before=("--html=x.html",))
    assert "neighbour\n" in printed
    assert f"__main__ {script} True {script}" in printed
    assert "No kernel was touched" in told
    assert (script.parents[1] / "x.html").exists()


def test_an_error_of_the_script_shows_the_script_only(script: Path) -> None:
    script.write_text(HEAD + ADD + "def f():\n    1 / 0\nf()\n")
    printed, told = run(script, code=1)
    assert "sum 336" in printed
    assert "ZeroDivisionError" in told
    assert f'File "{script}"' in told
    assert "runpy" not in told
    assert "tikgen/cli" not in told
    assert "add [your own]" in " ".join(squeezed(told))


def test_a_script_that_is_no_python_shows_its_syntax_error(script: Path) -> None:
    script.write_text("def f(:\n")
    _, told = run(script, code=1)
    assert "SyntaxError" in told
    assert "runpy" not in told


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [("sys.exit(7)", 7, ""), ("sys.exit()", 0, ""), ("sys.exit('that is all')", 1, "that is all")],
)
def test_exit_codes_pass_through(script: Path, call: str, code: int, message: str) -> None:
    script.write_text(f"import sys\n{call}\nprint('never')")
    printed, told = run(script, code=code)
    assert "never" not in printed
    assert message in told
    assert "Traceback" not in told
    assert "No kernel was touched" in told


def test_own_leaves_out_what_is_not_tikgens(script: Path) -> None:
    build = "import tikgen\nimport numpy as np\na = np.ones(4, np.float32)\nb = a.copy()\n"
    call = "tikgen.elementwise('y = 3*x', dtype='f32')(a, b)\n"
    script.write_text(HEAD + ADD + build + call)
    _, told = run(script, before=("--own",))
    assert "[tikgen]" in told
    assert "your own" not in told
    assert "Taichi's own" not in told


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("missing.py",), "there is no such file"),
        (("folder.py",), "it is a folder"),
        (("--save", "x.txt", "good.py"), "name a .json file"),
        (("--html", "missing/x.html", "good.py"), "is not a folder"),
        ((), "Missing argument"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(
    arguments: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.py").mkdir()
    Path("good.py").write_text("raise SystemExit(99)")
    result = CliRunner().invoke(app, ["trace", *arguments], env=dict(os.environ))
    assert result.exit_code == 2, result.output
    assert reason in " ".join(result.output.split())

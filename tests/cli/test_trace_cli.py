"""The command ``tikgen trace``: runs a script as Python would, and reports on its kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from cli_process import Done, run_cli
from tikgen import lifecycle
from tikgen.cli import app, trace_command
from tikgen.errors import TraceError

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


# Scripts that launch no kernel.
PLAIN = {
    "neighbours": (
        "import sys, os, neighbour\n"
        "print(__name__, __file__, sys.argv[0] == __file__, sys.modules['__main__'].__file__)\n"
        "os.chdir('/')\n"
    ),
    "damaged": "def f(:\n",
    "seven": "import sys\nsys.exit(7)\nprint('never')",
    "nothing": "import sys\nsys.exit()\nprint('never')",
    "text": "import sys\nsys.exit('that is all')\nprint('never')",
    "stopped": "raise KeyboardInterrupt",
    "thread": "import threading\nthreading.Timer(0.05, print, ['late']).start()",
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Done]]:
    """Trace the scripts in one process; return their folder, and the outcome of each."""
    top = tmp_path_factory.mktemp("plain")
    folder, results = top / "folder", top / "results"
    folder.mkdir()
    results.mkdir()
    (folder / "neighbour.py").write_text("print('neighbour')")
    for name, text in PLAIN.items():
        (folder / f"{name}.py").write_text(text)
    commands = [("trace", f"--html={name}.html", f"{folder}/{name}.py") for name in PLAIN]
    found = run_cli(*commands, results=results, folders=[top] * len(commands))
    return folder, dict(zip(PLAIN, found, strict=True))


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_script_runs_and_its_kernels_are_reported(script: Path) -> None:
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


def test_the_script_is_main_and_finds_its_neighbours(plain: tuple[Path, dict[str, Done]]) -> None:
    folder, found = plain
    script, done = folder / "neighbours.py", found["neighbours"]
    assert done.code == 0, done.errors
    assert "neighbour\n" in done.output
    assert f"__main__ {script} True {script}" in done.output
    assert "No kernel was used" in done.errors
    assert (folder.parent / "neighbours.html").exists()


def test_a_script_that_is_no_python_shows_its_syntax_error(
    plain: tuple[Path, dict[str, Done]],
) -> None:
    done = plain[1]["damaged"]
    assert done.code == 1
    assert "SyntaxError" in done.errors
    assert "runpy" not in done.errors


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [("seven", 7, ""), ("nothing", 0, ""), ("text", 1, "that is all"), ("stopped", 130, "")],
)
def test_exit_codes_pass_through(
    plain: tuple[Path, dict[str, Done]], script: str, code: int, message: str
) -> None:
    done = plain[1][script]
    assert done.code == code
    assert "never" not in done.output
    assert message in done.errors
    assert "Traceback" not in done.errors
    assert "No kernel was used" in done.errors


def test_threads_of_a_script_end_before_its_trace(plain: tuple[Path, dict[str, Done]]) -> None:
    assert "late" in plain[1]["thread"].output


def test_a_file_that_cannot_be_written_in_the_end_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def full(path: Path) -> None:
        raise TraceError(f"cannot write {path}: the disk is full")

    write = {"save": full, "html": lambda path: None, "timeline": None}
    traced: Any = SimpleNamespace(table=lambda width: "", **write)
    assert not trace_command._report(traced, tmp_path / "t.json", tmp_path / "t.html", None)
    said = capsys.readouterr().err
    assert "the disk is full" in said and "wrote" in said


def test_an_error_shows_the_script_only_and_own_leaves_out_what_is_not_tikgens(
    script: Path,
) -> None:
    wrong = script.with_name("wrong.py")
    wrong.write_text(HEAD + ADD + "def f():\n    1 / 0\nf()\n")
    build = "import tikgen\nimport numpy as np\na = np.ones(4, np.float32)\nb = a.copy()\n"
    call = "tikgen.elementwise('y = 3*x', dtype='f32')(a, b)\n"
    script.write_text(HEAD + ADD + build + call)
    (results := script.parent / "results").mkdir()
    failed, own = run_cli(("trace", str(wrong)), ("trace", "--own", str(script)), results=results)
    assert (failed.code, own.code) == (1, 0), failed.errors + own.errors
    assert "sum 336" in failed.output
    assert "ZeroDivisionError" in failed.errors
    assert f'File "{wrong}"' in failed.errors
    assert "runpy" not in failed.errors
    assert "tikgen/cli" not in failed.errors
    assert "add [your own]" in " ".join(squeezed(failed.errors))
    assert "[tikgen]" in own.errors
    assert "your own" not in own.errors
    assert "Taichi's own" not in own.errors


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
def test_wrong_usage_is_refused_before_anything_runs(
    arguments: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.py").mkdir()
    Path("good.py").write_text("raise SystemExit(99)")
    result = CliRunner().invoke(app, ["trace", *arguments], env=dict(os.environ))
    assert result.exit_code == 2, result.output
    assert reason in " ".join(result.output.split())


def test_a_timeline_is_refused_before_the_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where matplotlib is broken, whether a test drew one before or not.
    monkeypatch.delattr(lifecycle, "timeline", raising=False)
    monkeypatch.setitem(sys.modules, "tikgen.lifecycle.timeline", None)
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit('ran')")
    picture = str(tmp_path / "lanes.png")
    result = CliRunner().invoke(app, ["trace", "--timeline", picture, str(script)])
    assert result.exit_code == 2
    assert "needs matplotlib" in result.output
    assert "ran" not in result.output

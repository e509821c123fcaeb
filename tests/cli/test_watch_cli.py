"""The command watch: verifies at the start and at each save, and ends with Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tikgen.cli import app

pytestmark = pytest.mark.once

DEADLINE = 300.0  # Only of a test that fails.
# Ctrl-C must arrive even where the shell that started the tests ignores it.
PROGRAM = """
import signal
from tikgen.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


class Running:
    """A ``tikgen watch`` in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output, self.errors = folder / "output.txt", folder / "errors.txt"
        with self.output.open("w") as output, self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "watch", *arguments],
                cwd=folder,
                stdout=output,
                stderr=errors,
            )

    def after(self, verifications: int) -> str:
        """Return what was printed once it waits again after so many verifications."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and self.process.poll() is None:
            text = self.output.read_text()
            if text.count("waiting for a save") >= verifications:
                return text
            time.sleep(0.02)
        raise AssertionError(self.output.read_text() + self.errors.read_text())

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(DEADLINE)


def put(path: Path, text: str) -> None:
    """Save a file at once: a half of it would be a change of its own."""
    whole = path.with_name(f"{path.name}.new")
    whole.write_text(text)
    whole.replace(path)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Give the folder of a new template."""
    # In a process of its own, where no other test has made a template of that name known.
    command = [sys.executable, "-m", "tikgen", "new", "mine", "--path", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    return tmp_path / "mine"


@pytest.fixture
def running(mine: Path, ti_arch: str) -> Iterator[Running]:
    arguments = ("./mine", "-p", "dtype=f32", "--arch", ti_arch, "--max-examples", "1")
    found = Running(mine.parent, *arguments)
    yield found
    if found.process.poll() is None:
        found.process.kill()
        found.process.wait()


def test_each_save_is_verified(mine: Path, running: Running, ti_arch: str) -> None:
    text = mine / "kernel.py.j2"
    whole = text.read_text()
    first = running.after(1)
    assert f" passed  mine on {ti_arch}: " in first
    assert " in " in first
    put(text, whole.replace("scale *", "scal *"))
    assert f" failed  mine on {ti_arch}: " in running.after(2)
    errors = running.errors.read_text()
    assert "template: mine/kernel.py.j2:" in errors
    assert "scal * x[i]" in errors
    text.unlink()
    assert f"the file {text} is missing" in running.after(3)
    put(text, whole)
    assert running.after(4).count(" passed ") == 2
    assert running.interrupt() == 0
    assert running.output.read_text().endswith("stopped\n")
    assert "Traceback" not in running.errors.read_text()


@pytest.mark.slow
def test_saves_during_a_verification_lead_to_one_more(mine: Path, running: Running) -> None:
    running.after(1)
    text, code = mine / "kernel.py.j2", mine / "template.py"
    begun, go_on = mine.parent / "begun", mine.parent / "go on"
    before, plain = text.read_text(), code.read_text()
    waiting = (
        f"\n        import pathlib, time\n        pathlib.Path({str(begun)!r}).touch()\n"
        f"        while not pathlib.Path({str(go_on)!r}).exists():\n            time.sleep(0.01)\n"
    )
    put(code, re.sub(r"(def reference\(.*?:)\n", rf"\1{waiting}", plain))
    while not begun.exists():  # The second verification waits for the saves that follow.
        assert running.process.poll() is None
        time.sleep(0.01)
    for count in range(3):
        put(text, before + "#\n" * (count + 1))
    go_on.touch()
    running.after(3)
    put(text, before.replace("scale *", "scal *"))
    told = [line.split()[1] for line in running.after(4).splitlines() if " mine " in line]
    assert told == ["passed", "changed", "passed", "failed"]
    assert running.interrupt() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stensil",), "There is no template 'stensil'. Did you mean 'stencil'"),
        (("./absent",), "'./absent': there is no such folder"),
        (("stencil", "-p", "dimm=2"), "parameter 'dimm' is unknown. Did you mean 'dim'?"),
        (("stencil", "--max-examples", "0"), "Invalid value"),
    ],
)
def test_wrong_usage_ends_at_once(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["watch", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())

"""Ctrl-C: a command ends in silence with exit status 130, also where it is still importing."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Stands in for a module that takes long to import, and takes an interruption for a failure.
ENDLESS = """
import time
print("importing", flush=True)
try:
    while True:
        time.sleep(0.01)
except BaseException:
    raise ImportError("failed") from None
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to another process")
@pytest.mark.parametrize("module", ["typer", "taichi"])
@pytest.mark.parametrize("entry", ["import sys; from tikgen.cli import main; main()", None])
def test_a_command_can_be_interrupted_while_it_imports(
    tmp_path: Path, module: str, entry: str | None
) -> None:
    (tmp_path / f"{module}.py").write_text(ENDLESS)
    start = ["-m", "tikgen"] if entry is None else ["-c", entry]
    with subprocess.Popen(
        [sys.executable, *start, "verify", "map", "--max-examples", "1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell may have it ignored in what runs behind it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as command:
        assert command.stdout is not None
        try:
            assert command.stdout.readline() == "importing\n"
            command.send_signal(signal.SIGINT)
            told = command.communicate(timeout=60)
        finally:
            command.kill()
    assert (command.returncode, *told) == (130, "", "")


# Presses Ctrl-C at each import: in a copy of the process, whose end it reports if that is wrong.
PRESSED_AT_EACH_IMPORT = """
import os, signal, sys

def press(event, arguments):
    if event != "import":
        return
    copy = os.fork()
    if not copy:
        os.kill(os.getpid(), signal.SIGINT)
    else:
        status = os.waitpid(copy, 0)[1]
        if os.waitstatus_to_exitcode(status) != 130:
            os.write(1, f"SHOWN AT {arguments[0]}\\n".encode())

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.addaudithook(press)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="copies the process")
@pytest.mark.parametrize("start", [None, ["-m", "tikgen"]], ids=["script", "module"])
def test_ctrl_c_shows_nothing_from_the_first_module_of_tikgen_on(
    tmp_path: Path, start: list[str] | None
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PRESSED_AT_EACH_IMPORT)
    if start is None:
        (entry,) = importlib.metadata.entry_points(group="console_scripts", name="tikgen")
        script = tmp_path / "tikgen"
        script.write_text(
            f"import re, sys\nfrom {entry.module} import {entry.attr} as main\nmain()"
        )
        start = [str(script)]
    done = subprocess.run(
        [sys.executable, *start, "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    shown = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("SHOWN AT ")]
    # Before it are Python's own, and the search for this module.
    assert shown[-1] == "tikgen.ending"


@pytest.mark.parametrize("imports", ["tikgen", "tikgen, tikgen.cli", "tikgen, tikgen.ring"])
def test_importing_tikgen_leaves_the_handler_of_sigint_alone(imports: str) -> None:
    program = f"import signal, {imports}; print(signal.getsignal(signal.SIGINT))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert "default_int_handler" in done.stdout, done.stderr

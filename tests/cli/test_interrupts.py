"""Ctrl-C: a command ends in silence with exit status 130, also where it is still importing."""

from __future__ import annotations

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

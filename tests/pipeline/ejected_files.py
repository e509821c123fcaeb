"""Runs ejected files as their readers do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def run_alone(folder: Path, names: Sequence[str]) -> str:
    """Run files of a folder without tikgen, and return what they print.

    One process runs all: compiling is quick, starting Taichi is not.
    """
    runner = (
        "import runpy, sys\n"
        "sys.modules['tikgen'] = None\n"
        f"for name in {list(names)!r}:\n"
        "    print('running', name, flush=True)\n"
        "    runpy.run_path(name, run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", runner],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "TI_LOG_LEVEL": "error"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

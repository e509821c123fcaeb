"""Starts a script on several processes of MPI."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def mpiexec() -> str:
    """Return the command that starts processes; skip where there is no MPI, and fail in CI."""
    beside = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=os.pathsep.join([str(beside), os.environ["PATH"]]))
    why = "" if found else "there is no mpiexec"
    if not importlib.util.find_spec("mpi4py"):
        why = "mpi4py is missing"
    if why:
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    assert found is not None
    return found


def command(ranks: int, script: str, *arguments: str) -> list[str]:
    """Return the command that runs a script of this folder on some processes."""
    own = [sys.executable, str(HERE / script), *arguments]
    return [mpiexec(), "-n", str(ranks), *own]


def run(ranks: int, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of this folder on some processes, until all of them ended."""
    return subprocess.run(
        command(ranks, script, *arguments), capture_output=True, text=True, timeout=300
    )

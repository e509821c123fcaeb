"""Starts a script on several processes of MPI."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import forked
from forked_ranks import command as command_of
from tikgen.children import safe_path

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


def run(
    ranks: int, script: str, *arguments: str, anew: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a script of this folder on some processes, until all of them ended.

    Args:
        ranks: how many.
        script: its name.
        arguments: what it is given.
        anew: whether they are started, even where they could be forked.
    """
    server = None if anew else forked.server_for(safe_path.environment())
    with contextlib.nullcontext([sys.executable]) if server is None else command_of(server) as own:
        words = [mpiexec(), "-n", str(ranks), *own, str(HERE / script), *arguments]
        return subprocess.run(words, capture_output=True, text=True, timeout=300)

"""Processes of MPI that are forked in place of a start do what started ones do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import forked
import ranks

# Each tells of what it was given; one of them ends as it is told, while the other waits for it.
TEXT = """
import os, sys
from mpi4py import MPI
rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
sys.stdout.write(f"{rank} of {size}: {sys.argv} {__name__} {'taichi' in sys.modules}\\n")
sys.stdout.flush()
open(os.path.join(sys.argv[1], f"{rank}"), "w").write(str(os.getpid()))
MPI.COMM_WORLD.Barrier()
if sys.argv[2] != "0":
    if rank == 1:
        os.abort() if sys.argv[2] == "abort" else os._exit(int(sys.argv[2]))
    while True:
        MPI.COMM_WORLD.recv(source=1)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[forked.Server]:
    ranks.mpiexec()
    server = forked.Server()
    yield server
    server.close()


@pytest.mark.parametrize("how", ["0", "7", "abort"])
def test_forked_ranks_end_as_started_ones(
    how: str, server: forked.Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forked, "_server", server)
    script = tmp_path / "script.py"
    script.write_text(TEXT)
    done = ranks.run(2, str(script), str(tmp_path), how)
    argv = [str(script), str(tmp_path), how]
    told = {f"{rank} of 2: {argv} __main__ True" for rank in (0, 1)}
    assert told <= set(done.stdout.splitlines()), done.stderr
    assert (done.returncode == 0) is (how == "0")
    for rank in (0, 1):
        until_gone(int((tmp_path / str(rank)).read_text()))


def until_gone(number: int) -> None:
    """Wait for the end of a process."""
    while True:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)

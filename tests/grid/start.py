"""Initialises Taichi in a process of MPI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import taichi as ti
from mpi4py import MPI

COMPILED = Path(__file__).parents[2] / ".pytest_cache" / "compiled"


def init(**options: Any) -> None:
    """Initialise Taichi on cpu with a thread, unless options say otherwise.

    Each process keeps what it compiled in a folder of its own: of processes that end together
    only the first could lock a common one, and the others would keep nothing.
    """
    folder = COMPILED / f"rank {MPI.COMM_WORLD.rank}"
    folder.mkdir(parents=True, exist_ok=True)
    options = {"arch": ti.cpu, "cpu_max_num_threads": 1, "log_level": ti.ERROR} | options
    ti.init(offline_cache_file_path=str(folder), **options)

"""Runs cases on two processes with fields on the device; ``python on_device.py FOLDER ARCH``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import taichi as ti
from mpi4py import MPI

import tikgen
from cases import CASES, alone, shared

FOLDER, ARCH = Path(sys.argv[1]), sys.argv[2]
tikgen.choose_gpu()
ti.init(arch=getattr(ti, ARCH), fast_math=False, log_level=ti.ERROR)
for name, overlap in (("far", True), ("vectors behind", False)):
    case = CASES[name]
    grid, program = shared(case, MPI.COMM_WORLD, device=True, overlap=overlap)
    program.run(1)
    program.save(FOLDER / "half.npz")
    program.run(1)
    program.load(FOLDER / "half.npz")
    program.run(case.steps - 1)
    found = {n: v if isinstance(v := program[n], np.ndarray) else grid.gather(v) for n in program}
    if grid.rank == 0:
        expected = alone(case)
        said = [n for n in found if not np.array_equal(expected[n], found[n], equal_nan=True)]
        print(f"{name}: {' and '.join(said) or 'nothing'} differs", flush=True)

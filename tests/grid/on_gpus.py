"""Runs cases on GPUs, one a process, and says what differs from one process.

``torchrun --nproc-per-node 2 on_gpus.py BACKEND``, where the backend is nccl or gloo, or
``mpiexec -n 2 python on_gpus.py mpi``. The process of rank 0 writes a line for each case.
"""

from __future__ import annotations

import sys

import numpy as np
import taichi as ti
import torch
import torch.distributed as dist
from mpi4py import MPI

import tikgen
from cases import CASES, alone, shared

BACKEND = sys.argv[1]
# Corners, layers that lie apart, several fields, vectors both ways, faces, scalars that change.
CHOSEN = [
    *("far", "mixed", "vectors", "layers", "edges", "faces and masks", "vectors behind"),
    *("periodic", "staggered", "integers"),
]
tikgen.choose_gpu()
ti.init(arch=ti.cuda, fast_math=False, log_level=ti.ERROR)
torch.cuda.set_device(0)
COMM = MPI.COMM_WORLD if BACKEND == "mpi" else dist
if BACKEND != "mpi":
    device = torch.device("cuda:0") if BACKEND == "nccl" else None
    dist.init_process_group(BACKEND, device_id=device)
for number, name in enumerate(CHOSEN):
    case = CASES[name]
    grid, program = shared(case, COMM, overlap=number % 2 == 0)
    assert program.is_native, program.why_not_native
    program.run(case.steps - 1)
    state = program.state()
    program.run(2)
    program.restore(state)
    program.run(1)
    found = {n: v if isinstance(v := program[n], np.ndarray) else grid.gather(v) for n in program}
    if grid.rank == 0:
        expected = {n: value for n, value in alone(case).items() if n in found}
        assert expected.keys() >= {*case.results}.union(*case.swaps)
        said = [n for n, v in expected.items() if not np.array_equal(v, found[n], equal_nan=True)]
        print(f"{name}: {' and '.join(said) or 'nothing'} differs", flush=True)
if BACKEND != "mpi":
    dist.barrier()
    dist.destroy_process_group()
elif grid.rank == 0:
    print(grid, flush=True)

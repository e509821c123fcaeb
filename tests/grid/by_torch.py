"""Runs cases on processes of torch.distributed with gloo, and says what differs from one process.

``python by_torch.py FOLDER RANK SIZE``. The process of rank 0 writes a line for each case.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import taichi as ti
import torch.distributed as dist

import tikgen
from cases import CASES, alone, shared
from tikgen.errors import GridError, ProgramError
from tikgen.grid.torch_distributed import TorchTransport

FOLDER, RANK, SIZE = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

ti.init(arch=ti.cpu, fast_math=False, cpu_max_num_threads=1, log_level=ti.ERROR)
if RANK == 0:
    with pytest.raises(GridError, match="no process group yet; call torch"):
        tikgen.Grid(8, comm=dist)
dist.init_process_group("gloo", init_method=f"file://{FOLDER}/group", rank=RANK, world_size=SIZE)
for number, name in enumerate(["mixed", "vectors behind", "staggered"]):
    case = CASES[name]
    if SIZE not in case.ranks:
        continue
    grid, program = shared(case, dist, overlap=number % 2 == 0)
    program.run(case.steps - 2)
    program.save(FOLDER / "half.npz")
    program.run(1)
    program.load(FOLDER / "half.npz")
    program.run(2)
    found = {n: v if isinstance(v := program[n], np.ndarray) else grid.gather(v) for n in program}
    if RANK == 0:
        expected = alone(case)
        said = [n for n in found if not np.array_equal(expected[n], found[n], equal_nan=True)]
        print(f"{name}: {' and '.join(said) or 'nothing'} differs", flush=True)

# What does not go together is refused on all processes.
step = tikgen.update("u' = u + dt*lap(u)", dim=1, scalars="dt")
grid = tikgen.Grid(20, comm=dist)
u, un = grid.zeros(), grid.zeros()
with pytest.raises(GridError, match=r"rank 0 has dt=0\.0, rank 1 has dt=0\.5"):
    grid.bind(step, u=u, u_next=un, dt=RANK / 2)
with pytest.raises(ProgramError, match="shared by different processes"):
    other = tikgen.Grid(20, comm=dist)
    pairs = [(grid, u, un), (other, other.zeros(), other.zeros())]
    tikgen.Program([each.bind(step, u=a, u_next=b, dt=0.1) for each, a, b in pairs])
with pytest.raises(GridError, match=r"NCCL carries messages between GPUs, and fields lie on the"):
    nccl = tikgen.Grid(20, comm=dist)
    nccl._domain.processes.transport.needs_own_gpu = True
    nccl._domain.processes.transport.name = "NCCL"
    nccl.bind(step, u=nccl.zeros(), u_next=nccl.zeros(), dt=0.1)
with pytest.raises(GridError, match="device=True needs a device, and Taichi runs on cpu"):
    gpu = tikgen.Grid(20, comm=dist, device=True)
    gpu.bind(step, u=gpu.zeros(), u_next=gpu.zeros(), dt=0.1)
assert TorchTransport(dist).name == "gloo"
dist.barrier()
print("all is refused", flush=True)

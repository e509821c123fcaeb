"""Weak and strong scaling of grids over the GPUs of a host, by NCCL; writes a page's table.

``torchrun --nproc-per-node 2 benchmarks/grid_gpus.py`` draws sizes from a new seed beside 256 and
512 points along each axis; ``--seed N`` draws those of that one, ``--only heat`` runs works of that
name, ``--backend gloo`` sends through the host; the page is for all works and NCCL. With
``mpiexec -n 2 python benchmarks/grid_gpus.py --backend mpi`` MPI starts the processes.

First each work is compared, bit for bit, with one process. Then runs of 1,000 steps or more, of
all processes and of a process alone, on all GPUs at once, are timed in turn; the slowest process
counts.
"""

from __future__ import annotations

import argparse
import functools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import taichi as ti
import torch
import torch.distributed as dist

import tikgen
from page import write_works
from tikgen.units import duration

PAGE = Path(__file__).parents[1] / "docs" / "grids.md"
ROUNDS, SECONDS, STEPS = 5, 0.3, 1000
Shape = tuple[int, ...]
Made = tuple[tikgen.Program, list[Any]]

FACES = {"hx": "face x", "hy": "face y", "hz": "face z"}
EDGES = {"ex": "edge x", "ey": "edge y", "ez": "edge z"}
ROUND = {"dim": 3, "boundary": "periodic"}
heat = tikgen.update("u' = u + 0.1*lap(u)", **ROUND)
wave = tikgen.update("old = 2*p - old + 0.1*lap(p)", order=8, **ROUND)
electric, magnetic = (
    tikgen.update(
        "; ".join(
            f"{a}{x} = {a}{x} {sign} 0.3*(d{y}({b}{z}) - d{z}({b}{y}))"
            for x, y, z in ("xyz", "yzx", "zxy")
        ),
        at=FACES | EDGES,
        **ROUND,
    )
    for a, b, sign in ("eh+", "he-")
)


def noise(number: int, period: int) -> Callable[..., Any]:
    """Return a function of the indices that has no symmetry, and a period along the first axis."""

    def values(i: Any, j: Any, k: Any) -> Any:
        return np.sin(0.37 * (i % period) + 1.7 * number) * np.cos(0.53 * j + 0.29 * k)

    return values


def heated(grid: tikgen.Grid, period: int) -> Made:
    """Return the program of the heat equation, and its fields."""
    u, un = grid.field(noise(0, period)), grid.zeros()
    return tikgen.Program([grid.bind(heat, u=u, u_next=un), grid.swap((u, un))]), [u]


def waving(grid: tikgen.Grid, period: int) -> Made:
    """Return the program of the wave equation, and its fields."""
    p, old = grid.field(noise(0, period)), grid.field(noise(1, period))
    return tikgen.Program([grid.bind(wave, p=p, old=old), grid.swap((p, old))]), [p, old]


def shining(grid: tikgen.Grid, period: int) -> Made:
    """Return the program of Maxwell's equations, and their fields."""
    f = {name: grid.field(noise(number, period)) for number, name in enumerate(FACES | EDGES)}
    return tikgen.Program([grid.bind(each, **f) for each in (magnetic, electric)]), [*f.values()]


WORKS: dict[str, Callable[[tikgen.Grid, int], Made]] = {
    "heat": heated,
    "wave, order 8": waving,
    "Maxwell": shining,
}
# How messages go: in each step behind the kernel, or while the inner points are computed; or as
# the grid chooses, which may exchange wider layers every few steps.
WAYS: dict[str, dict[str, Any]] = {
    "behind": {"overlap": False, "exchange_every": 1},
    "beside": {"overlap": True, "exchange_every": 1},
    "default": {},
}


def cases(rng: random.Random, count: int) -> Iterator[tuple[str, str, Shape, Shape]]:
    """Yield work, kind, shape on all processes, and shape on one alone."""

    def drawn(low: int, high: int) -> Shape:
        return tuple(rng.randint(low, high) for _ in range(3))

    for work, sizes in (("heat", (256, 512)), ("wave, order 8", (256, 512)), ("Maxwell", (256,))):
        for n in sizes:
            yield work, "weak", (count * n, n, n), (n, n, n)
    yield "heat", "strong", (512, 512, 512), (512, 512, 512)
    for work, low, high in (
        *(("heat", 60, 130), ("heat", 130, 220), ("heat", 220, 330), ("heat", 400, 600)),
        *(("wave, order 8", 200, 400), ("Maxwell", 100, 200), ("Maxwell", 200, 300)),
    ):
        n, *others = drawn(low, high)
        yield work, "weak", (count * n, *others), (n, *others)
    shape = drawn(400, 600)
    yield "heat", "strong", shape, shape


class ByTorch:
    """Processes that torchrun started.

    Args:
        backend: the backend of torch.distributed.
    """

    def __init__(self, backend: str) -> None:
        self._device = torch.device("cuda:0") if backend == "nccl" else None
        dist.init_process_group(backend, device_id=self._device)
        self.comm: Any = dist
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.own = [dist.new_group([n], backend="gloo") for n in range(self.count)][self.rank]
        self.barrier, self.end = dist.barrier, dist.destroy_process_group

    def shared(self, value: Any) -> Any:
        """Return the value that the process of rank 0 has."""
        told = [value]
        dist.broadcast_object_list(told, 0)
        return told[0]

    def greatest(self, value: float) -> float:
        """Return the greatest value of all processes."""
        found = torch.tensor([value], device=self._device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return float(found)


class ByMPI:
    """Processes that mpiexec started."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self.comm, self.own = MPI.COMM_WORLD, MPI.COMM_SELF
        self.rank, self.count = self.comm.rank, self.comm.size
        self.barrier, self.shared = self.comm.Barrier, self.comm.bcast
        self.greatest = functools.partial(self.comm.allreduce, op=MPI.MAX)

    def end(self) -> None:
        """Do nothing: MPI ends with the processes."""


def compare(rng: random.Random, team: ByTorch | ByMPI, works: Sequence[str]) -> None:
    """Compare programs on all processes with those of one, at sizes drawn at random."""
    count = team.count
    for work in works:
        for axis in range(3):
            shape = tuple(rng.randint(20, 90) for _ in range(3))
            steps = rng.randint(3, 200)
            program, fields = WORKS[work](tikgen.Grid(shape, True, team.own), shape[0])
            program.run(steps)
            expected = [program.current(field).to_numpy() for field in fields]
            ranks = tuple(count if each == axis else 1 for each in range(3))
            for overlap in (False, True):
                how = {"overlap": overlap, "exchange_every": rng.randint(1, 4)}
                grid = tikgen.Grid(shape, True, team.comm, ranks=ranks, **how)
                program, fields = WORKS[work](grid, shape[0])
                program.run(steps)
                for field, wanted in zip(fields, expected, strict=True):
                    found = grid.gather(program.current(field))
                    if found is not None and not np.array_equal(found, wanted):
                        raise SystemExit(f"{work} of {shape} on {ranks}, {how=}: bits differ")
        if team.rank == 0:
            print(f"{work}: the same bits on {grid}", flush=True)


def seconds(program: tikgen.Program, steps: int, team: ByTorch | ByMPI) -> float:
    """Return the time of a step, that of the slowest process."""
    torch.cuda.synchronize()
    team.barrier()
    torch.cuda.synchronize()
    start = time.perf_counter()
    program.run(steps)
    return team.greatest((time.perf_counter() - start) / steps)


def measured(work: str, whole: Shape, part: Shape, team: ByTorch | ByMPI) -> dict[str, float]:
    """Return the time of a step alone, and of all processes in each way.

    All compute the same numbers: memory moves zeros faster than noise.
    """
    made = {"alone": WORKS[work](tikgen.Grid(part, True, team.own), part[0])[0]}
    for way, how in WAYS.items():
        made[way] = WORKS[work](tikgen.Grid(whole, True, team.comm, **how), part[0])[0]
    steps = {}
    for way, program in made.items():
        program.run(200)
        steps[way] = max(STEPS, int(SECONDS / seconds(program, 100, team)))
        program.run(steps[way])
    found: dict[str, list[float]] = {way: [] for way in made}
    for _ in range(ROUNDS):
        for way, program in made.items():
            found[way].append(seconds(program, steps[way], team))
    return {way: statistics.median(times) for way, times in found.items()}


def main() -> None:
    """Compare, measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", default="")
    parser.add_argument("--backend", choices=("nccl", "gloo", "mpi"), default="nccl")
    options = parser.parse_args()
    tikgen.choose_gpu()
    ti.init(arch=ti.cuda, fast_math=False, log_level=ti.ERROR)
    torch.cuda.set_device(0)
    team = ByMPI() if options.backend == "mpi" else ByTorch(options.backend)
    rank, count = team.rank, team.count
    seed = team.shared(options.seed or random.SystemRandom().randrange(10**6))
    rng = random.Random(seed)
    works = [work for work in WORKS if options.only in work]
    if rank == 0:
        print(f"seed {seed}", flush=True)
    compare(rng, team, works)
    rows = []
    for work, kind, whole, part in cases(rng, count):
        if work not in works:
            continue
        found = measured(work, whole, part, team)
        ratio = found["alone"] / found["default"]
        shown = f"{ratio:.1%}" if kind == "weak" else f"{ratio:.2f} x"
        sizes = " x ".join(map(str, part)) + (" each" if kind == "weak" else "")
        rows.append((work, sizes, *(duration(found[way]) for way in found), shown))
        if rank == 0:
            print(*rows[-1], sep=" | ", flush=True)
        torch.cuda.empty_cache()
    if rank == 0 and not options.only and options.backend == "nccl":
        write_works(
            PAGE,
            "cuda",
            f"Sizes of seed {seed} beside those of 256 and 512; {count} GPUs of a host, medians "
            f"of {ROUNDS} rounds in turn",
            ("work", "points", "one alone", "behind", "beside", "default", "of alone"),
            rows,
            section=f"{count} GPUs",
        )
    team.barrier()
    team.end()


if __name__ == "__main__":
    main()

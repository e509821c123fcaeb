"""Programs over grids beside Devito's MPI on cpu, on 1 and 2 ranks with a thread each.

In an environment of its own, since Devito wants versions of its own::

    pip install -e . llvmlite devito mpi4py mpich
    python benchmarks/grid_devito.py

The mpicc that Devito calls has to be of the MPI that mpi4py loads, as that of the wheel mpich is.
Sizes are 128 and 256 points along each axis, and others that a new seed draws; ``--seed N`` draws
those of that one. ``--ranks 1 2`` says how many processes, which are bound to a core each.

Devito runs in each of its modes of MPI, with its default blocks and with those that its aggressive
tuning finds; the three that are fastest in a few rounds go on, and the fastest of them counts.
tikgen runs as it does by default. All begin with the same fields and must agree after some steps.
They take turns in short rounds; the slowest rank counts. Other programs only add time, so that the
shortest round of each stands beside the median.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).parents[1] / "docs" / "grids.md"
ROUNDS, SECONDS, CHECKED, GO_ON = 21, 0.12, 7, 3
# Programs find out what is fastest once they have run for a second.
WARM_UP_SECONDS = 2.5
Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]
OURS = "tikgen"


def fields_of(work: str, shape: Shape) -> list[Array]:
    """Return what a work begins with, the same on all ranks."""
    rng = np.random.default_rng(17)
    u = rng.random(shape, np.float32)
    if work == "heat":
        return [u]
    # The same where nothing is computed, since Devito keeps three fields instead of two.
    before, inner = u.copy(), (slice(4, -4),) * 3
    before[inner] = rng.random(before[inner].shape, np.float32)
    return [u, before, 0.05 + 0.05 * rng.random(shape, np.float32)]


def ours(work: str, given: list[Array]) -> tuple[Callable[[int], object], Callable[[], Any]]:
    """Return what does steps of a program over a grid, and what returns its field on rank 0."""
    import tikgen

    grid = tikgen.Grid(given[0].shape)
    fields = [grid.field(array) for array in given]
    if work == "heat":
        kernel = tikgen.update("u' = u + 0.1*lap(u)", dim=3, boundary="zero")
        pair = fields[0], grid.zeros()
        step = grid.bind(kernel, u=pair[0], u_next=pair[1])
    else:
        kernel = tikgen.update("q = 2*p - q + c*lap(p)", dim=3, order=8)
        pair = fields[0], fields[1]
        step = grid.bind(kernel, p=pair[0], q=pair[1], c=fields[2])
    program = tikgen.Program([step, grid.swap(pair)])
    if program.why_not_native:
        raise SystemExit(f"the program is not native: {program.why_not_native}")
    return program.run, lambda: grid.gather(program.current(pair[0]))


def cases(seed: int) -> Iterator[tuple[str, Shape]]:
    """Yield works and sizes, those with a name first."""
    draw = random.Random(seed)
    for work in ("heat", "wave"):
        for n in (128, 256):
            yield work, (n, n, n)
        for low, high in ((60, 110), (110, 180), (180, 300)):
            yield work, tuple(draw.randint(low, high) for _ in range(3))


def child(path: Path, seed: int, only: str) -> None:
    """Measure on the ranks that were started together; rank 0 writes what was found."""
    import taichi as ti
    from mpi4py import MPI

    from peers import devito_grid

    ti.init(arch=ti.cpu, cpu_max_num_threads=1, log_level=ti.ERROR)
    world = MPI.COMM_WORLD

    def seconds(run: Callable[[int], object], steps: int) -> float:
        world.Barrier()
        start = time.perf_counter()
        run(steps)
        return float(world.allreduce((time.perf_counter() - start) / steps, MPI.MAX))

    rows = []
    for work, shape in cases(seed):
        if only not in work:
            continue
        given = fields_of(work, shape)
        forms = {OURS: ours(work, given)} | dict(getattr(devito_grid, work)(*given))
        after = {}
        for name, (run, read) in forms.items():
            run(CHECKED)
            after[name] = read()
        if world.rank == 0:
            for name, found in after.items():
                np.testing.assert_allclose(found, after[OURS], 2e-3, 2e-3, err_msg=name)
        once = {name: min(seconds(run, 4) for _ in range(5)) for name, (run, _) in forms.items()}
        steps = {name: max(4, int(SECONDS / each)) for name, each in once.items()}
        theirs = sorted((name for name in forms if name != OURS), key=once.__getitem__)
        forms = {name: forms[name] for name in (OURS, *theirs[:GO_ON])}
        times: dict[str, list[float]] = {name: [] for name in forms}
        forms[OURS][0](max(32, int(WARM_UP_SECONDS / once[OURS])))
        for _ in range(ROUNDS):
            for name, (run, _) in forms.items():
                times[name].append(seconds(run, steps[name]))
        rows.append((work, shape, world.size, times))
        if world.rank == 0:
            shown = ", ".join(f"{name} {min(each) * 1e6:.0f}" for name, each in times.items())
            print(f"{work} {shape} {world.size}: {shown}", flush=True)
        del forms
    if world.rank == 0:
        path.write_text(json.dumps(rows))


def started(ranks: int, seed: int, only: str, folder: Path) -> list[Any]:
    """Run this script on some ranks; return what they found."""
    own = str(Path(sys.executable).parent)
    found = os.pathsep.join([own, os.environ["PATH"]])  # Devito looks for mpicc.
    path = folder / f"{ranks}.json"
    command = [shutil.which("mpiexec", path=found) or "mpiexec", "-n", str(ranks)]
    command += ["-bind-to", "core", sys.executable, __file__, "--child", str(path)]
    command += ["--seed", str(seed), "--only", only]
    subprocess.run(command, check=True, env=os.environ | {"PATH": found, "OMP_NUM_THREADS": "1"})
    return list(json.loads(path.read_text()))


def row_of(work: str, shape: Shape, ranks: int, times: dict[str, list[float]]) -> tuple[str, ...]:
    """Return the row of a work, steps a second of both."""
    mine = times.pop(OURS)
    best = min(times, key=lambda name: min(times[name]))
    theirs = times[best]
    middle = min(map(statistics.median, times.values()))
    return (
        "heat, order 2" if work == "heat" else "wave, order 8",
        " x ".join(map(str, shape)),
        str(ranks),
        f"{1 / min(mine):.4g}",
        f"{1 / min(theirs):.4g}",
        best,
        f"{min(theirs) / min(mine):.2f} x",
        f"{middle / statistics.median(mine):.2f} x",
    )


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", default="", help="works of that name; no page is written")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.seed, given.only)
        return
    from page import write_works

    with tempfile.TemporaryDirectory() as folder:
        found = [started(n, given.seed, given.only, Path(folder)) for n in given.ranks]
    rows = [row_of(*each) for case in zip(*found, strict=True) for each in case]
    for row in rows:
        print(*row, sep=" | ")
    if not given.only:
        head = ("work", "points", "ranks", "tikgen", "Devito", "its way", "shortest", "median")
        write_works(
            PAGE,
            "cpu",
            f"Steps a second; sizes of seed {given.seed} beside those of 128 and 256; the shortest "
            f"of {ROUNDS} rounds in turn, and medians",
            head,
            rows,
        )


if __name__ == "__main__":
    main()

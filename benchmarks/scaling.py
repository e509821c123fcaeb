"""Weak and strong scaling over the cores, model beside measurement.

``python benchmarks/scaling.py`` measures kernels and messages of programs on 1, 2, ... ranks, and
their steps; both in turn, several times, the shortest of each counts. It prints what the model
says of each step, and how far it is off. ``--seed N`` draws the grids, ``--plot FILE`` draws a
picture.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import taichi as ti

import tikgen
from tikgen.scaling import Machine, measure, predict
from tikgen.scaling.network import Messages
from tikgen.units import duration

Extents = tuple[int, ...]
# Equations, options, and grids of one rank.
WORKS: Mapping[str, tuple[str, dict[str, Any], Sequence[Extents]]] = {
    "heat, 3D": (
        "u' = u + dt*lap(u)",
        {"dim": 3},
        [(30, 41, 36), (70, 52, 61), (90, 101, 80), (150, 140, 130)],
    ),
    "heat, 2D, order 4, warmest": (
        "u' = u + dt*lap(u); warmest = max(u')",
        {"dim": 2, "order": 4},
        [(190, 230), (530, 410), (1210, 1100)],
    ),
    "heat, 3D, exchange every 4": (
        "u' = u + dt*lap(u)",
        {"dim": 3},
        [(12, 17, 15), (30, 41, 36), (70, 52, 61)],
    ),
}
EXCHANGE_EVERY = {"heat, 3D, exchange every 4": 4}
TURNS = 5


def program_of(work: str, shape: Extents) -> tikgen.Program:
    """Return the program of a work over a periodic grid."""
    text, options, _ = WORKS[work]
    grid = tikgen.Grid(shape, periodic=True, exchange_every=EXCHANGE_EVERY.get(work))
    kernel = tikgen.update(text, scalars="dt", boundary="periodic", **options)
    u, un = grid.field(lambda *at: np.cos(sum(at))), grid.zeros()
    results = {"warmest": np.zeros(1, np.float32)} if "warmest" in text else {}
    bound = grid.bind(kernel, u=u, u_next=un, dt=0.05, **results)
    # Several ranks do one step at a time, and so does one here.
    return tikgen.Program([bound, grid.swap((u, un))], temporal_blocking=False)


def drawn(seed: int) -> dict[str, Sequence[Extents]]:
    """Return grids of a seed, from some ten thousand points to some million."""
    random = np.random.default_rng(seed)
    return {
        work: [
            tuple(int(side * random.uniform(0.7, 1.4)) for _ in range(options["dim"]))
            for side in np.geomspace(2e4, 2e6, 4) ** (1 / options["dim"])
        ]
        for work, (_, options, _) in WORKS.items()
    }


def doubled(shape: Extents, ranks: int) -> Extents:
    """Return the grid that has a rank's points for each of some ranks."""
    return shape[0] * ranks, *shape[1:]


def timed(program: tikgen.Program, steps: int) -> float:
    """Return seconds of a step, without what a run does at its beginning and its end."""
    program._walk.advance(2)  # Other programs had the caches.
    start = time.perf_counter()
    program._walk.advance(steps)
    return (time.perf_counter() - start) / steps


def child(path: Path, turns: int, grids: Mapping[str, Sequence[Extents]]) -> None:
    """Measure on the processes that were started together; rank 0 writes what was found."""
    ti.init(arch=ti.cpu, cpu_max_num_threads=1, log_level=ti.ERROR)
    rank, size = (lambda grid: (grid.rank, grid.size))(tikgen.Grid(64))
    programs = {
        (work, kind, shape): program_of(work, doubled(shape, size) if kind == "weak" else shape)
        for work, shapes in grids.items()
        for shape in shapes
        for kind in (["strong", "weak"] if size > 1 else ["strong"])
    }
    counts = {}
    for key, program in programs.items():
        points = float(np.prod(key[2])) * (size if key[1] == "weak" else 1)
        counts[key] = max(4, int(2e6 / points))  # The same on all ranks, and short.
        program.run(5)
    machines: dict[Any, list[Machine]] = {(w, s): [] for w, _, s in programs}
    seconds: dict[Any, list[float]] = {key: [] for key in programs}
    for _ in range(turns):
        for (work, shape), each in machines.items():
            each.append(measure(program_of(work, doubled(shape, size)), rounds=40))
        for _ in range(40):
            for key, program in programs.items():
                seconds[key].append(timed(program, counts[key]))
    if rank == 0:
        for number, each in enumerate(machines.values()):
            shortest_of(each).save(path.with_suffix(f".{number}"))
        steps = [[*key, min(each), statistics.median(each)] for key, each in seconds.items()]
        path.write_text(json.dumps([[*machines], steps]))


def shortest_of(machines: Sequence[Machine]) -> Machine:
    """Return the machine with the shortest of several measurements of each size."""
    kernels = {
        name: tuple(
            (pairs[0][0], min(seconds for _, seconds in pairs))
            for pairs in zip(*(machine.kernels[name] for machine in machines), strict=True)
        )
        for name in machines[0].kernels
    }
    networks = [machine.network for machine in machines if machine.network]
    plane = Messages(2, 2 * 40_000, 2)
    best = min(networks, key=lambda network: network.seconds(plane), default=None)
    return replace(machines[0], kernels=kernels, network=best)


def started(
    ranks: int, folder: Path, turns: int, seed: int | None
) -> tuple[dict[Any, Machine], list[Any]]:
    """Run this script on some ranks; return the machine by work and grid, and the steps."""
    beside = str(Path(sys.executable).parent)
    mpiexec = shutil.which("mpiexec", path=os.pathsep.join([beside, os.environ["PATH"]]))
    path = folder / f"{ranks}.json"
    own = [sys.executable, __file__, "--child", str(path), "--turns", str(turns)]
    own += [] if seed is None else ["--seed", str(seed)]
    launcher = [mpiexec or "mpiexec", "-n", str(ranks)] if ranks > 1 else []
    subprocess.run([*launcher, *own], check=True)
    keys, steps = json.loads(path.read_text())
    return {
        (work, tuple(shape)): Machine.load(path.with_suffix(f".{number}"))
        for number, (work, shape) in enumerate(keys)
    }, steps


def main() -> None:
    """Measure, and print model beside measurement."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--ranks", type=int, nargs="*", help="numbers of ranks: 1 2 4 ...")
    options.add_argument("--turns", type=int, default=TURNS)
    options.add_argument("--seed", type=int, help="draws the grids")
    options.add_argument("--plot", type=Path, help="picture of the largest 3D grid")
    options.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    grids = {work: shapes for work, (_, _, shapes) in WORKS.items()}
    if given.seed is not None:
        grids = drawn(given.seed)
    if given.child:
        child(given.child, given.turns, grids)
        return
    cores = os.cpu_count() or 1
    counts = given.ranks or [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= cores]
    with tempfile.TemporaryDirectory() as folder:
        found = {ranks: started(ranks, Path(folder), given.turns, given.seed) for ranks in counts}
    machines = {key: [each[key] for each, _ in found.values()] for key in found[counts[0]][0]}
    ti.init(arch=ti.cpu, cpu_max_num_threads=1, log_level=ti.ERROR)
    print(f"| work | scaling | grid of a rank | ranks | measured | model | off |\n|{' --- |' * 7}")
    errors = []
    measured: dict[Extents, dict[str, dict[int, float]]] = {}
    for ranks, (_, steps) in found.items():
        for work, kind, listed, shortest, _ in steps:
            shape = tuple(listed)
            model = predict(program_of(work, shape), [ranks], machine=machines[work, shape])
            point = model.points(kind)[-1]
            error = point.seconds / shortest - 1
            if ranks > 1:  # A step on one rank is little more than the launch that was measured.
                errors.append(abs(error))
            for each in [kind] if ranks > 1 else ["strong", "weak"]:
                measured.setdefault(shape, {}).setdefault(each, {})[ranks] = shortest
            size = " x ".join(map(str, shape))
            print(
                f"| {work} | {kind if ranks > 1 else ''} | {size} | {ranks} | "
                f"{duration(shortest)} | {duration(point.seconds)} | {error:+.0%} |"
            )
    within = sum(error <= 0.15 for error in errors)
    if errors:
        middle, most = statistics.median(errors), max(errors)
        print(
            f"\nOn several ranks {within} of {len(errors)} within 15%; median {middle:.0%}, "
            f"largest {most:.0%}."
        )
    if given.plot:
        shape = grids["heat, 3D"][-1]
        many = [2**n for n in range(13)] + [10_000]
        found_ = predict(program_of("heat, 3D", shape), many, machine=machines["heat, 3D", shape])
        found_.plot(given.plot, measured[shape])
        print(found_)


if __name__ == "__main__":
    main()

"""Writes stores of Zarr on some processes, reads them on others; ``stored.py FOLDER HOW``.

``crosswise COUNTS GRIDS``: each of these numbers of processes, of which the last is that of all,
writes each of these grids, and each number reads them. ``killed``: a process is killed while it
writes over a store, of which the others end. ``kept``: that store is read.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

import start
import tikgen
from tikgen.grid.mpi import meet
from tikgen.program import zarr_arrays

NDArray = npt.NDArray[Any]
FOLDER, HOW = Path(sys.argv[1]), sys.argv[2]
COUNTS, GRIDS = ([int(n) for n in words.split(",")] for words in sys.argv[3:] or ("1", "0"))
WORLD = MPI.COMM_WORLD
start.init()
DTYPES = {"f16": np.float16, "f64": np.float64, "u8": np.uint8, "i64": np.int64}
# The second is divided by speeds. Of two points the third process owns none.
SHAPES = ((13,), (8, 5), (4, 5, 3), (2,))
KEPT = ("cpml_dxx_u",)
SPEEDS = (1, 3, 1.5, 5)
# The system keeps what a killed process wrote: nothing has to wait for the disk.
os.fsync = lambda _: None


def values(shape: tuple[int, ...], seed: int) -> dict[str, NDArray]:
    """Return whole arrays: two that change places, and one of each further type and layout."""
    rng = np.random.default_rng(seed)
    found = {name: rng.random(shape).astype(np.float32) for name in ("u", "un")}
    for number, (name, dtype) in enumerate(DTYPES.items()):
        components = ((), (3,), (2,), ())[number]
        extents = (*components, *shape) if number % 2 else (*shape, *components)
        found[name] = rng.integers(0, 200, extents).astype(dtype)
    return found


@functools.cache
def heat(dim: int) -> tikgen.Kernel:
    """Return a kernel whose first axis has matched layers, which keep something too."""
    boundary = dict.fromkeys("xyz"[:dim], "reflect")
    boundary |= {"x": tikgen.absorbing(3, kind="cpml", beyond="reflect")}
    text = "u' = u + dt*lap(u); most = max(u)"
    return tikgen.update(text, dim=dim, scalars="dt", boundary=boundary, engine="taichi")


def made(comm: Any, shape: tuple[int, ...], given: dict[str, NDArray]) -> tikgen.Program:
    """Return a program over a grid with such arrays, and two that every process has."""
    weights = SPEEDS[: comm.size] if shape == SHAPES[1] else None  # Parts of other sizes.
    grid = tikgen.Grid(shape, comm=comm, weights=weights)
    kernel = heat(len(shape))
    fields = {}
    for name, whole in given.items():
        layout = "first" if whole.shape[1:] == shape else "last"
        components = (whole.size // np.prod(shape)) if whole.ndim > len(shape) else 0
        fields[name] = grid.field(whole, components=int(components), layout=layout)
    layers = grid.matched_layers(kernel, courant=0.3)
    bound = grid.bind(
        *(kernel, fields["u"], 0.1, fields["un"]), most=np.zeros(1, np.float32), **layers
    )
    return tikgen.Program([bound, grid.swap((fields["u"], fields["un"])), "n = n + 1"], **fields,
                          **layers, n=np.zeros(1, np.float32))  # fmt: skip


def alone(given: dict[str, NDArray]) -> tikgen.Program:
    """Return a program of one process without a grid, with arrays of the same names."""
    arrays = {name: np.zeros_like(whole) for name, whole in given.items()}
    arrays |= tikgen.matched_layers(heat(given["u"].ndim), given["u"].shape, courant=0.3)
    one = {name: np.zeros(1, np.float32) for name in ("most", "n")}
    return tikgen.Program(["n = n + 1", "most = most"], **arrays, **one)


def own(program: tikgen.Program) -> dict[str, NDArray]:
    """Return what this process has of each array."""
    named = {name: program[name] for name in (*DTYPES, *KEPT, "u", "un", "most", "n")}
    return {n: v if isinstance(v, np.ndarray) else v.to_numpy() for n, v in named.items()}


def crosswise() -> int:
    """Return how many stores were read."""
    read = 0
    comms = {size: WORLD.Split(0 if WORLD.rank < size else MPI.UNDEFINED) for size in COUNTS}

    @functools.cache
    def reader(size: int, shape: tuple[int, ...]) -> tikgen.Program:
        """Return the program of so many processes; from the second store on it has read others."""
        return made(comms[size], shape, values(shape, 99))

    @functools.cache
    def lone_reader(shape: tuple[int, ...]) -> tikgen.Program:
        return alone(values(shape, 99))

    for writers in COUNTS:
        for number in GRIDS:
            shape = SHAPES[number]
            # Chunks of all that a process has, of several pieces, and of an element each.
            zarr_arrays.MOST = (1 << 24, 64, 8)[(writers + number) % 3]
            path = FOLDER / f"run_{writers}_{number}.zarr"
            whole = None
            if WORLD.rank < writers:
                program = made(comms[writers], shape, values(shape, writers))
                program.run(writers)  # An odd number leaves the arrays of a pair swapped.
                program.save(FOLDER / "other.zarr")
                program.save(path)
                named = {name: program[name] for name in own(program)}
                whole = {
                    n: v.copy() if isinstance(v, np.ndarray) else v.gathered()
                    for n, v in named.items()
                }
            meet(WORLD)
            whole = WORLD.bcast(whole)
            for readers in COUNTS:
                meet(WORLD)
                if WORLD.rank >= readers:
                    continue
                program = reader(readers, shape)
                program.load(path)
                assert program.steps == writers
                for name, found in own(program).items():
                    field = program[name]
                    wanted = whole[name]
                    if not isinstance(field, np.ndarray):
                        wanted = wanted[field.indices]
                    assert found.tobytes() == wanted.tobytes(), (writers, readers, shape, name)
                read += 1
            if WORLD.rank == 0:
                program = lone_reader(shape)
                program.load(path)
                for name, wanted in whole.items():
                    assert program[name].tobytes() == wanted.tobytes(), (writers, shape, name)
                program.save(path)
            meet(WORLD)
            program = reader(WORLD.size, shape)
            program.load(path)  # What one process without a grid wrote.
            for name, found in own(program).items():
                at = ... if isinstance(program[name], np.ndarray) else program[name].indices
                assert found.tobytes() == whole[name][at].tobytes(), (writers, shape, name)
    return read


def killed() -> None:
    """Kill a process when it has written a part of its chunks."""
    zarr_arrays.MOST = 64
    program = made(WORLD, SHAPES[1], values(SHAPES[1], 1))
    program.run(3)
    program.save(FOLDER / "run.zarr")
    np.savez(FOLDER / f"kept_{WORLD.rank}.npz", **own(program))
    program.run(4)
    sync, left = os.fsync, [3]

    def fsync(number: int) -> None:
        left[0] -= 1
        if left[0] == 0 and WORLD.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(number)

    os.fsync = fsync
    program.save(FOLDER / "run.zarr")


def kept() -> None:
    """Read what was written before, and write again."""
    program = made(WORLD, SHAPES[1], values(SHAPES[1], 99))
    program.load(FOLDER / "run.zarr")
    assert program.steps == 3
    with np.load(FOLDER / f"kept_{WORLD.rank}.npz") as before:
        for name, found in own(program).items():
            assert found.tobytes() == before[name].tobytes(), name
    program.save(FOLDER / "run.zarr")


try:
    if HOW == "crosswise":
        print(f"{crosswise()} reads", flush=True)
    else:
        {"killed": killed, "kept": kept}[HOW]()
except BaseException:  # Processes of a smaller communicator would not end the others.
    traceback.print_exc()
    WORLD.Abort(1)
print("done", flush=True)

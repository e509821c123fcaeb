"""Measures kernels of a program and messages, on all processes at the same time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tikgen.errors import EngineUnavailable, GridError
from tikgen.grid.boxes import Box, Message
from tikgen.grid.exchange import halves_of
from tikgen.grid.memory import memory_for
from tikgen.grid.messages import in_turn
from tikgen.grid.processes import Processes, processes_of
from tikgen.pipeline.builder import build
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.sized import SizedKernel
from tikgen.program.program import Program
from tikgen.program.team import Work
from tikgen.scaling.machine import COPY, Machine
from tikgen.scaling.network import Messages, Network, fitted
from tikgen.scaling.steps import Launch, by_name, grid_of, launches_of, steps_of
from tikgen.taichi import runtime
from tikgen.tuning.given_data import typical_values

# Bytes that launches move: from what a single thread does to what fits no cache.
_SIZES = tuple(2**n for n in range(14, 29, 2))
_BATCH_SECONDS = 5e-4
# Messages, bytes of each and pieces of memory in each that are exchanged.
_EXCHANGES = (
    *((count, size, 1) for count in (1, 2, 4) for size in (64, 16_384)),
    *((1, size, 1) for size in (65_536, 262_144, 1_048_576, 4_194_304)),
    *((1, size, size // 4) for size in (16_384, 65_536, 262_144)),
    *((1, size, size // 512) for size in (65_536, 1_048_576)),
)


def measure(
    program: Program, *, rounds: int = 60, largest: int | None = None, comm: Any = None
) -> Machine:
    """Measure how fast the kernels of a program are here, and messages between ranks.

    All processes call it, and work at the same time as those of a program do: start as many as a
    node has. It takes the shortest of some rounds, since other work on the machine only adds time.
    Kernels run on data of their own, and the program is not changed.

    Args:
        program: a program over a grid.
        rounds: how often each is measured, in turn.
        largest: points of the largest boxes; by default those that each process owns.
        comm: a communicator of mpi4py; by default ``MPI.COMM_WORLD``.

    Raises:
        GridError: if an argument does not fit, or the program has other parts than launches on a
            grid.
    """
    for name, value in (("rounds", rounds), ("largest", largest)):
        if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
            raise GridError(f"{name} takes a whole number of 1 or more; got {value!r}")
    processes = processes_of(comm)
    launches = by_name(launches_of(program))
    points = largest or math.prod(grid_of(program)[2])
    works: dict[tuple[str, float], Callable[[], object]] = {}
    for name, launch in launches.items():
        for extents in _boxes(launch, points):
            work = _ready(launch.kernel, launch.sizes(extents))
            works[name, launch.moved(extents)] = work
    most = max(moved for _, moved in works)
    copy = build("map", expr="y = x", dtype="f32")
    for wanted in _SIZES:
        if wanted <= max(most, _SIZES[0]):
            works[COPY, wanted] = _ready(copy, {"n0": wanted // 8})
    found: dict[str, list[tuple[float, float]]] = {}
    seconds = _in_turn(processes, list(works.values()), rounds)
    for (name, moved), each in zip(works, seconds, strict=True):
        found.setdefault(name, []).append((moved, each))
    rates = {name: tuple(sorted(pairs)) for name, pairs in found.items()}
    network = None if processes.size == 1 else _network(processes, program, rounds)
    return Machine(processes.size, rates, network)


def _boxes(launch: Launch, points: int) -> Iterator[tuple[int, ...]]:
    """Yield cubes whose launches move about as many bytes as are measured, the largest last."""
    dim = launch.use.dim
    each = launch.moved((32,) * dim) / 32**dim
    sides = {max(4, round((size / each) ** (1 / dim))) for size in _SIZES}
    largest = max(4, round(points ** (1 / dim)))
    for side in sorted({side for side in sides if side < 0.8 * largest} | {largest}):
        yield (side,) * dim


def _ready(kernel: Kernel, sizes: dict[str, int]) -> Callable[[], object]:
    """Return what launches a kernel on typical data of its own, without Taichi where it can."""
    values = next(iter(typical_values(kernel.template, kernel.problem, sizes, 0).values()))
    if runtime.current_arch() == "cpu":
        schedule = None if isinstance(kernel, SizedKernel) else dict(kernel.schedule)
        problem = dict(kernel.problem)
        try:  # As programs do, and bound kernels after some hundred launches.
            direct = build(kernel.template, schedule=schedule, engine="direct-cpu", **problem)
            bound = direct.bind(**values)
            bound()
            return bound
        except EngineUnavailable:
            pass
    return kernel.bind(**values)


def _in_turn(
    processes: Processes, works: Sequence[Callable[[], object]], rounds: int
) -> list[float]:
    """Return the seconds of each work where it takes longest, in the shortest of some rounds."""

    def timed(work: Callable[[], object], count: int) -> float:
        processes.all(None)  # So that all begin together.
        start = time.perf_counter()
        for _ in range(count):
            work()
        runtime.sync()
        return (time.perf_counter() - start) / count

    for work in works:
        timed(work, 2)
    once = processes.greatest([timed(work, 2) for work in works])
    counts = [max(1, min(10_000, int(_BATCH_SECONDS / seconds))) for seconds in once]
    best = [
        min(pair)
        for pair in zip(
            *(
                [timed(work, count) for work, count in zip(works, counts, strict=True)]
                for _ in range(max(2, rounds))
            ),
            strict=True,
        )
    ]
    return processes.greatest(best)


def _network(processes: Processes, program: Program, rounds: int) -> Network:
    """Return what messages cost between pairs of neighbours, all of which exchange at once."""
    other = processes.rank ^ 1
    exchanges = [_exchange(processes, other, *each) for each in _EXCHANGES]
    # More often than kernels: both ranks have to be undisturbed.
    *seconds, joined = _in_turn(processes, [*exchanges, _join(processes, program)], 4 * rounds)
    messages = [Messages(count, count * size, count * runs) for count, size, runs in _EXCHANGES]
    found = fitted(list(zip(messages, seconds, strict=True)))
    return replace(found, join=max(0.0, joined - found.joined(processes.size, 8)))


def _join(processes: Processes, program: Program) -> Callable[[], object]:
    """Return what joins the results of a kernel of the program, or what is most of it."""
    for step in steps_of(program.parts):
        work = step.parts[-1]
        if isinstance(work, Work) and all(np.size(array) == 1 for array in work.arrays):
            return work.made_for([np.array(array) for array in work.arrays]).run
    own, every = np.zeros(8, np.uint8), np.zeros((processes.size, 8), np.uint8)
    return lambda: processes.all_bytes(own, every)


def _exchange(
    processes: Processes, other: int, count: int, size: int, runs: int
) -> Callable[[], None]:
    """Return what sends messages to another rank and receives as many, as grids do."""
    length, messages = size // runs, []
    # Every other piece of as much memory again.
    arrays = [np.zeros((runs, 2 * length), np.uint8) for _ in range(count)]
    for tag in range(count if other < processes.size else 0):
        for is_sent, columns in ((True, (0, length)), (False, (length, 2 * length))):
            box: Box = [(0, runs), columns]
            messages.append(Message(other, tag, is_sent, ((tag, box),)))
    # All processes make it, with a partner or not.
    return in_turn(*halves_of(processes, memory_for(on_device=False), [messages], arrays)).run

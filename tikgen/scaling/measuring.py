"""Measures kernels of a program and messages, on all processes at the same time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tikgen.grid.arguments import whole_number
from tikgen.grid.boxes import Box, Message
from tikgen.grid.decomposition import Decomposition, balanced
from tikgen.grid.exchange import halves_of
from tikgen.grid.memory import memory_for
from tikgen.grid.messages import in_turn
from tikgen.grid.processes import Processes, processes_of
from tikgen.pipeline.builder import build
from tikgen.pipeline.kernel import Kernel
from tikgen.program.program import Program
from tikgen.program.team import Work
from tikgen.scaling.machine import COPY, Machine
from tikgen.scaling.network import Messages, Network, fitted
from tikgen.scaling.steps import Launch, by_name, grid_of, launches_of, steps_of
from tikgen.taichi import runtime
from tikgen.tuning.given_data import typical_values

# Bytes that launches move: from what a single thread does to what fits no cache.
_SIZES = tuple(2**n for n in range(14, 29))
# So long that what a run of a program does besides its steps, some 30 us, hardly counts.
_LAUNCHES_SECONDS = 1.5e-3
_MESSAGES_SECONDS = 5e-4
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
        largest: points of the largest boxes, which the first axis is made to fit; by default
            those that each process owns.
        comm: a communicator of mpi4py; by default ``MPI.COMM_WORLD``.

    Raises:
        GridError: if an argument does not fit, or the program has other parts than launches on a
            grid.
    """
    for name, value in (("rounds", rounds), ("largest", largest)):
        if value is not None:
            whole_number(name, value, least=1)
    processes = processes_of(comm)
    launches = by_name(launches_of(program))
    _, periodic, own = grid_of(program)
    if largest:
        own = (max(1, round(largest / math.prod(own[1:]))), *own[1:])
    works: dict[tuple[str, float], Callable[[int], object]] = {}
    for name, launch in launches.items():
        for extents in _boxes(launch, own, periodic):
            work = _ready(launch.kernel, launch.sizes(extents))
            works[name, launch.moved(extents)] = work
    most = max(moved for _, moved in works)
    copy = build("map", expr="y = x", dtype="f32")
    for wanted in _SIZES:
        if wanted <= max(most, _SIZES[0]):
            works[COPY, wanted] = _ready(copy, {"n0": wanted // 8})
    found: dict[str, list[tuple[float, float]]] = {}
    seconds = _in_turn(processes, list(works.values()), rounds, _LAUNCHES_SECONDS)
    for (name, moved), each in zip(works, seconds, strict=True):
        found.setdefault(name, []).append((moved, each))
    rates = {name: tuple(sorted(pairs)) for name, pairs in found.items()}
    network = None if processes.size == 1 else _network(processes, program, rounds)
    return Machine(processes.size, rates, network)


def _boxes(
    launch: Launch, own: tuple[int, ...], periodic: tuple[bool, ...]
) -> Iterator[tuple[int, ...]]:
    """Yield the parts that 1, 2, 4, ... ranks have of a box, down to the fewest bytes measured.

    How long a launch takes depends on how long rows are, and not on bytes alone.
    """
    halo = (1,) * len(own)
    for ranks in (2**n for n in range(64)):
        whole = Decomposition(own, balanced(own, ranks, halo), periodic)
        part = tuple(map(whole.most, range(len(own))))
        if ranks > 1 and (whole.count < ranks or launch.moved(part) < _SIZES[0]):
            return
        yield part


def _ready(kernel: Kernel, sizes: dict[str, int]) -> Callable[[int], object]:
    """Return what launches a kernel on typical data some times, as programs do where it can."""
    values = next(iter(typical_values(kernel.template, kernel.problem, sizes, 0).values()))
    return Program([kernel.bind(**values)], temporal_blocking=False).run


def _in_turn(
    processes: Processes, works: Sequence[Callable[[int], object]], rounds: int, batch: float
) -> list[float]:
    """Return the seconds of each work where it takes longest, in the shortest of some rounds.

    A round does each work as often as takes ``batch`` seconds.
    """

    def timed(work: Callable[[int], object], count: int) -> float:
        work(2)  # Leaves in caches what an earlier step would.
        processes.all(None)  # So that all begin together.
        start = time.perf_counter()
        work(count)
        runtime.sync()
        return (time.perf_counter() - start) / count

    for work in works:
        timed(work, 2)
    once = processes.greatest([timed(work, 2) for work in works])
    counts = [max(4, min(10_000, int(batch / seconds))) for seconds in once]
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
    jobs = [_repeated(job) for job in (*exchanges, _join(processes, program))]
    *seconds, joined = _in_turn(processes, jobs, 4 * rounds, _MESSAGES_SECONDS)
    messages = [Messages(count, count * size, count * runs) for count, size, runs in _EXCHANGES]
    found = fitted(list(zip(messages, seconds, strict=True)))
    return replace(found, join=max(0.0, joined - found.joined(processes.size, 8)))


def _repeated(job: Callable[[], object]) -> Callable[[int], None]:
    """Return what does a job some times."""

    def run(count: int) -> None:
        for _ in range(count):
            job()

    return run


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
    memory = memory_for(on_device=False)
    return in_turn(*halves_of(processes, processes.transport, memory, [messages], arrays)).run

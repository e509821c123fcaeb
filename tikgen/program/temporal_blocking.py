"""Temporal blocking: several steps over slabs of a grid that fit the cache.

A step over arrays that do not fit the cache waits for memory. Here each thread has a part of the
first axis, and a slab of it goes through several launches, the *stages*, while it is in the cache.
Each stage lags behind the one before by as many points as they reach, so that it finds all that it
reads, and leaves what others still need. At the ends of a part the stages leave out what depends on
the part beside it, a wedge, which is computed once all threads are there: split tiling.

Steps one by one and several at a time launch the same machine code, for all points of the first
axis or some. So the bits are the same, and nobody but the clock can tell.

Method: D. G. Wonnacott, "Using time skewing to eliminate idle time due to memory bandwidth and
network limitations", 14th International Parallel and Distributed Processing Symposium (2000).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tikgen.engines.thread_pool import ThreadPool
from tikgen.errors import TikgenError
from tikgen.machine.caches import cache_bytes
from tikgen.pipeline.builder import build
from tikgen.pipeline.sized import SizedKernel
from tikgen.program.instructions import LAUNCH, STEP
from tikgen.program.launchers import Launchers, address_of, scalar_of
from tikgen.program.plan import Arrangement, Call, Exchange, Launch, Node, Plan, Repeat, Task
from tikgen.taichi.arrays import size_of
from tikgen.template.grid_use import WINDOW, GridUse, Part
from tikgen.units import size as size_text

# After more steps, waiting for memory is a small part of the time.
MOST_STEPS = 16
_MANY_STEPS = 8
MOST_STAGES = 64
# Stands for the number of a part.
_WHOLE = -1
# Beyond the end of any axis.
_MOST_POINTS = 2**31 - 1
# Part of a cache that slabs fill; others use the last one as well.
_SHARE, _SHARE_OF_LAST = 0.9, 0.4
# Arrays that are smaller stay in the second cache: so many times what it holds.
_LEAST = 2.0


class Slab(NamedTuple):
    """Points of the first axis that a stage computes, from ``start`` to before ``stop``."""

    stage: int
    start: int
    stop: int


class Stage(NamedTuple):
    """A launch of a block.

    Attributes:
        call: the launch.
        use: what it reads and writes.
    """

    call: Call
    use: GridUse

    @property
    def reach(self) -> int:
        """Return how far it reads along the first axis."""
        return max((max(each.reach[0]) for each in self.use.arrays.values()), default=0)

    @property
    def wraps(self) -> bool:
        """Return whether it reads the other end of the first axis."""
        part = part_of(self.call)
        if part is not None and any(part[0][:2]):  # Ghost points stand for it.
            return False
        return any(True in each.periodic[0] for each in self.use.arrays.values())


class Block(NamedTuple):
    """Several steps as instructions for native code, after which arrays stand as before.

    Attributes:
        steps: how many.
        code: the instructions, as native.ll explains them.
        launches: how often each call is launched.
        kept: what the instructions point to.
    """

    steps: int
    code: npt.NDArray[np.int64]
    launches: Mapping[Call, int]
    kept: Any = None


def lags(reaches: Sequence[int]) -> list[int]:
    """Return by how many points each stage lags behind the first one."""
    steps = (max(pair) for pair in itertools.pairwise(reaches))
    return list(itertools.accumulate(steps, initial=0))


def slabs_of(
    points: int, parts: int, reaches: Sequence[int], wraps: bool, size: int
) -> tuple[list[list[Slab]], list[list[Slab]]]:
    """Return the slabs of each part, and those of each wedge between parts, in their order.

    Slabs of different parts may be computed at once, and those of different wedges once all parts
    are done.

    Args:
        points: how many points the first axis has.
        parts: how many parts it has.
        reaches: how far each stage reads along it.
        wraps: whether they read the other end.
        size: how many points of a part a stage computes at a time, at least 1.
    """
    late = lags(reaches)
    edges = [points * part // parts for part in range(parts + 1)]
    by_part = []
    for part, (low, high) in enumerate(itertools.pairwise(edges)):
        below = wraps or part > 0
        above = wraps or part + 1 < parts
        found = []
        for begin in range(low, high + late[-1], size):
            for stage, lag in enumerate(late):
                start = max(begin - lag, low + lag * below)
                stop = min(begin + size - lag, high - lag * above)
                if start < stop:
                    found.append(Slab(stage, start, stop))
        by_part.append(found)
    wedges = [
        [
            slab
            for stage, lag in enumerate(late)
            for slab in (
                Slab(stage, edge - lag, edge),
                # Beyond the last point lies the first one.
                Slab(stage, edge % points, edge % points + lag),
            )
            if lag
        ]
        for edge in (edges[1:] if wraps else edges[1:-1])
    ]
    return by_part, [wedge for wedge in wedges if wedge]


def slab_size(room: int, points: int, parts: int, reaches: Sequence[int]) -> int:
    """Return how many points of a part a stage computes at a time; 0 where that is of no use.

    Args:
        room: how many points of the first axis fit the cache of a thread.
        points: how many it has.
        parts: how many parts it has.
        reaches: how far each stage reads along it.
    """
    last = lags(reaches)[-1]
    part = points // parts
    size = min(room - last, part // 2)
    # What a wedge reads belongs to the parts beside it, and to no other wedge.
    return size if size >= max(last, 1) and part >= 2 * (last + max(reaches)) else 0


class TemporalBlocking:
    """Makes blocks of the steps of a program.

    Args:
        plan: what a step does.
        launchers: of the engine that runs the steps.
        phase: address of the function that runs lists of slabs.
        pool: the threads.
    """

    def __init__(self, plan: Plan, launchers: Launchers, phase: int, pool: ThreadPool) -> None:
        self._plan, self._launchers, self._phase, self._pool = plan, launchers, phase, pool
        # Several steps of processes begin with an exchange, and are one block each.
        first = plan.nodes[0] if plan.within is not None else None
        self._head = first if isinstance(first, Task) else None
        self._nodes = plan.nodes if self._head is None else plan.nodes[1:]
        # By call and part, as each thread sets numbers of its own.
        self._windowed: dict[tuple[Call, int], Call] = {}
        self._uses: dict[Call, GridUse | str] = {}
        # Why there was no block when one was last planned.
        self._why = ""

    def stand_in(self) -> str:
        """Have the calls of a step launch code with a window; return why there are no blocks.

        Nothing changes then. An empty string says that there are.
        """
        held, least = self._bytes(), int(_LEAST * cache_bytes()[0])
        if held < least:
            return f"its arrays have {size_text(held)}; {size_text(least)} stay in the caches"
        if not all(self._plan_of(at, MOST_STEPS) for at in self._plan.starts):
            return self._why
        every = (stages for at in self._plan.starts for stages in self._stages(at))
        calls = {stage.call for stages in every for stage in stages}
        try:
            windowed = {c: self._launchers.of(self._with_window(c, _WHOLE)) for c in calls}
        except TikgenError as error:  # Such as a name that the code of windows has.
            return f"a kernel cannot compute a part of its points: {error}"
        for call, launcher in windowed.items():
            self._launchers.take(call, launcher)
        return ""

    def block(self, at: Arrangement, most: int = MOST_STEPS) -> Block | None:
        """Return a block that begins with an arrangement; None where there is none of use.

        Args:
            at: the arrangement.
            most: how many steps at most, apart from those after which arrays stand as before.
        """
        found = self._plan_of(at, most)
        if found is None:
            return None
        stages, points, size, steps = found
        wraps = any(stage.wraps for stage in stages)
        reaches = [stage.reach for stage in stages]
        phases = slabs_of(points, self._pool.threads, reaches, wraps, size)
        head = () if self._head is None else self._plan.task(self._head, at).native or ()
        return self._written(stages, phases, steps, head)

    def _plan_of(self, at: Arrangement, most: int) -> tuple[list[Stage], int, int, int] | None:
        """Return the stages of a block, points of the first axis, those of a slab, and steps."""
        steps = self._stages(at)
        if not steps:
            return None
        points = _points(self._plan, [stage for step in steps for stage in step])
        if not points:
            self._why = "its arrays differ in the extent of the first axis, or share memory"
            return None
        bytes_each = self._bytes() / points
        found = [self._tiled(steps, cache, bytes_each, points, most) for cache in cache_bytes()]
        # A slab in a smaller cache is worth it for many steps.
        enough = _MANY_STEPS if self._head is None else 1
        times, size = next((f for f in found if f[0] * len(steps) >= enough), found[-1])
        if not times:
            self._why = "no slab of its arrays fits a cache"
            return None
        stages = [stage for step in steps for stage in step] * times
        return stages, points, size, times * len(steps)

    def _tiled(
        self,
        steps: Sequence[Sequence[Stage]],
        cache: int,
        bytes_each: float,
        points: int,
        most: int,
    ) -> tuple[int, int]:
        """Return how often the steps are done while a slab is in a cache, and the size of slabs."""
        threads = self._pool.threads
        share = _SHARE_OF_LAST if cache == cache_bytes()[-1] else _SHARE
        room = int(share * cache / threads / bytes_each)
        reaches = [stage.reach for step in steps for stage in step]
        times_at_most = 1 if self._head is not None else max(1, most // len(steps))
        for times in range(times_at_most, 0, -1):
            size = slab_size(room, points, threads, reaches * times)
            if size and len(reaches) * times <= MOST_STAGES:
                return times, size
        return 0, 0

    def _stages(self, at: Arrangement) -> list[list[Stage]]:
        """Return the stages of steps up to the one after which arrays stand as before."""
        found: list[list[Stage]] = []
        now = at
        while not found or now != at:
            stages: list[Stage] = []
            after = self._walked(self._nodes, now, stages)
            if after is None:
                return []
            is_whole = self._head is None or after == at
            if not stages or len(found) == MOST_STEPS or not is_whole:
                self._why = f"{MOST_STEPS} steps do not put its arrays back in their places"
                return []
            found.append(stages)
            now = after
        return found

    def _walked(
        self, nodes: Sequence[Node], at: Arrangement, found: list[Stage]
    ) -> Arrangement | None:
        """Add the stages of nodes; return the arrangement after them, None where they have none."""
        for node in nodes:
            if isinstance(node, Exchange):
                at = node.of(at)
            elif isinstance(node, Launch):
                call = self._plan.call(node, at)
                if call not in self._uses:
                    self._uses[call] = _use_of(call)
                use = self._uses[call]
                if isinstance(use, str):
                    self._why = use
                    return None
                if len(found) == MOST_STAGES:
                    self._why = f"a step has more than {MOST_STAGES} launches"
                    return None
                found.append(Stage(call, use))
            elif isinstance(node, Repeat) and node.until is None:
                for _ in range(node.times):
                    after = self._walked(node.nodes, at, found)
                    if after is None:
                        return None
                    at = after
            else:
                self._why = "a step has parts beside kernels, swaps and loops without a condition"
                return None
        return at

    def _bytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(map(size_of, self._plan.slots.arrays))

    def _written(
        self,
        stages: Sequence[Stage],
        phases: Sequence[list[list[Slab]]],
        steps: int,
        head: Sequence[tuple[int, int]],
    ) -> Block:
        kept: list[Any] = []
        code = [[LAUNCH, function, context, 0] for function, context in head]
        for lists in filter(None, phases):
            words = [self._words(stages, part, slabs) for part, slabs in enumerate(lists)]
            held = np.array([word for found in words for word in found], np.int64)
            ends = np.cumsum([0, *map(len, words)]) * held[0].nbytes + held.ctypes.data
            numbers = [self._pool.parallel_for, self._pool.address, len(lists)]
            phase = np.array([*numbers, ends.ctypes.data], np.int64)
            code.append([LAUNCH, self._phase, phase.ctypes.data, 0])
            kept += [held, ends, phase]
        launches = Counter(stage.call for stage in stages)
        return Block(steps, np.array([*code, [STEP, 0, 0, 0]], np.int64), launches, kept)

    def _words(self, stages: Sequence[Stage], part: int, slabs: Sequence[Slab]) -> list[list[int]]:
        """Return what native.ll takes for the slabs of a part."""
        made = []
        for stage in stages:
            call = self._with_window(stage.call, part)
            launcher = self._launchers.of(call)
            launcher.choose_loop(0)  # In one thread.
            places = [address_of(launcher, scalar_of(call, name)[0]) for name in WINDOW]
            made.append([launcher.function, launcher.context, *places])
        return [[*made[stage], start, stop] for stage, start, stop in slabs]

    def _with_window(self, call: Call, part: int) -> Call:
        """Return a call with a window of the first axis, all of it; made once for each part."""
        if (call, part) not in self._windowed:
            kernel = call.kernel
            problem = dict(kernel.problem) | {"window": True}
            schedule, engine = dict(kernel.schedule), kernel._engine
            windowed = build(kernel.template, schedule=schedule, engine=engine, **problem)
            whole = dict(zip(WINDOW, (0, _MOST_POINTS), strict=True))
            self._windowed[call, part] = Call(windowed.bind(**call.bound.arguments, **whole), {})
        return self._windowed[call, part]


def part_of(call: Call) -> Part | None:
    """Return the part of a grid that the arrays of a call hold; None where they hold all of it."""
    found: Part | None = getattr(call.kernel.problem, "part", None)
    return found


def _use_of(call: Call) -> GridUse | str:
    """Return what a call reads and writes of a grid, or why it cannot be a stage."""
    kernel = call.kernel
    try:
        use = kernel.template.grid_use(kernel.problem)
    except TikgenError as error:
        return str(error)
    name = kernel.template.name
    if use is None or use.window_schedule is None:
        return f"the template {name!r} computes all points of a grid of its own"
    for holds, what in (
        (use.totals, "has reductions"),
        (use.layers, "has layers of kind 'cpml'"),
        (call.varying, "has scalars that change with the step"),
        (isinstance(kernel, SizedKernel), "chooses its schedule at each call"),
        (
            not use.window_schedule.items() <= dict(kernel.schedule).items(),
            f"needs the schedule {use.window_schedule}",
        ),
    ):
        if holds:
            return f"a kernel of {name!r} {what}"
    return use


def _points(plan: Plan, stages: Sequence[Stage]) -> int:
    """Return the extent of the first axis, 0 where arrays differ in it or share memory."""
    found = {
        int(stage.call.bound.arguments[name].shape[use.first_axis])
        for stage in stages
        for name, use in stage.use.arrays.items()
    }
    return found.pop() if len(found) == 1 and plan.slots.are_apart() else 0

"""Steps in native code: a loop that walks the launches of a program without Python in between."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen import engines
from tikgen.engines import native, thread_pool
from tikgen.errors import EngineUnavailable
from tikgen.pipeline import events
from tikgen.program import varying
from tikgen.program.instructions import LAUNCH, PUT, Instructions
from tikgen.program.launchers import ByLaunchers, Launchers, address_of, scalar_of
from tikgen.program.paces import Paces
from tikgen.program.plan import Arrangement, Call, Choice, Plan, Repeat, Task
from tikgen.program.scalars import Flag
from tikgen.program.team import CONDITION, Team
from tikgen.program.temporal_blocking import Block, TemporalBlocking
from tikgen.taichi import runtime

# Steps for which values of scalars are computed ahead.
_AHEAD = 1024


class NativeStepper(ByLaunchers):
    """Does steps of a program in native code, without the GIL.

    Args:
        plan: what a step does.
        team: the processes that do it together; None for this one alone.
        blocking: whether several steps go over slabs that fit the cache; see temporal_blocking.py.

    Attributes:
        why_not_blocked: why they cannot, or an empty string.

    Raises:
        EngineUnavailable: if a kernel cannot run without Taichi.
    """

    def __init__(self, plan: Plan, team: Team | None = None, blocking: bool | None = False) -> None:
        self._team = team
        if why := _problem_of(plan):
            raise EngineUnavailable("the program", engines.DIRECT_CPU, why)
        self._launchers = Launchers(engines.DIRECT_CPU)
        self._loop, self._library = _loop()
        pool = thread_pool.pool_of(runtime.threads())
        phase = self._library.address("phase")
        blocks = TemporalBlocking(plan, self._launchers, phase, pool)
        # A step of several processes exchanges messages, several steps between them do not.
        is_apart = team is None or plan.within is not None
        if blocking is False:
            self.why_not_blocked = "temporal_blocking=False"
        elif is_apart:
            self.why_not_blocked = blocks.stand_in()
        else:
            self.why_not_blocked = "processes exchange layers in each step"
        self.done = 0
        self.at = plan.first
        self._tables: dict[tuple[Call, str], npt.NDArray[Any]] = {}
        self._instructions = Instructions(plan, self._instructions_of)
        self._words = np.array(self._instructions.code, np.int64)
        self._starts = self._instructions.starts
        self._arrangements = {place: at for at, place in self._starts.items()}
        self._control = np.zeros(3, np.int64)
        self._paces = Paces(blocks.block, False if self.why_not_blocked else blocking)
        self._blocks_done: dict[Call, int] = {}

    @property
    def how(self) -> str:
        """Return what launches the kernels, in words."""
        several = f", {self.together} steps at a time" if self.together > 1 else ""
        return f"native code{several or ', slab by slab' * self._paces.has_blocks}"

    @property
    def together(self) -> int:
        """Return how many steps go over a slab at a time."""
        return self._paces.together

    @property
    def stopped(self) -> bool:
        """Return whether it was told to stop."""
        return bool(self._control[2])

    @stopped.setter
    def stopped(self, value: bool) -> None:
        self._control[2] = value

    def value_of(self, flag: Flag) -> bool:
        """Return whether a condition held when it was last computed, on all processes alike."""
        found = flag.holds
        return found if self._team is None else self._team.agreed(CONDITION, found)

    def run(self, at: Arrangement, step: int, count: int) -> None:
        """Do some steps, fewer if it is told to stop; an error ends all processes of a team."""
        with contextlib.nullcontext() if self._team is None else self._team.ending_together():
            self._run_steps(at, step, count)

    def _run_steps(self, at: Arrangement, step: int, count: int) -> None:
        self.done, self.at = 0, at
        while self.done < count and not self.stopped:
            block, ahead = self._paces.next(self.at, count - self.done)
            before, start = self.done, time.perf_counter()
            if block is None:
                self._run_plainly(step, ahead)
            else:
                self._run_blocks(block, ahead // block.steps)
            self._paces.took(block, self.done - before, time.perf_counter() - start)

    def _run_blocks(self, block: Block, count: int) -> None:
        self._control[0], self._control[1] = 0, count
        self._loop(block.code.ctypes.data, 0, self._control.ctypes.data)
        done = int(self._control[0])
        self.done += done * block.steps
        for call, times in block.launches.items():
            self._blocks_done[call] = self._blocks_done.get(call, 0) + done * times

    def _run_plainly(self, step: int, count: int) -> None:
        end = self.done + count
        while self.done < end and not self.stopped:
            ahead = min(end - self.done, _AHEAD) if self._tables else end - self.done
            for (call, name), table in self._tables.items():
                first = step + self.done
                table[:ahead] = varying.values(call.bound, name, call.varying[name], first, ahead)
            self._control[0], self._control[1] = 0, ahead
            place = self._starts[self.at]
            place = self._loop(self._words.ctypes.data, place, self._control.ctypes.data)
            self.at = self._arrangements[place]
            self.done += int(self._control[0])

    def finish(self) -> None:
        """Add the launches since the last time to those of the kernels."""
        launches = self._instructions.launches
        for place, call in launches:
            events.record_bound_launches(self._launchers.code_of(call), int(self._words[place, 3]))
        self._words[[place for place, _ in launches], 3] = 0
        for call, count in self._blocks_done.items():
            events.record_bound_launches(self._launchers.code_of(call), count)
        self._blocks_done.clear()

    def _instructions_of(self, call: Call) -> list[list[int]]:
        """Return the instructions of a call: its scalars that change with the step, its launch."""
        made, found = self._launchers.of(call), []
        for name in call.varying:
            slot, argument = scalar_of(call, name)
            table = np.zeros(_AHEAD, argument.dtype.numpy)
            table = self._tables.setdefault((call, name), table)
            found.append([PUT, address_of(made, slot), table.ctypes.data, table.itemsize])
        return [*found, [LAUNCH, made.function, made.context, 0]]


def _problem_of(plan: Plan) -> str:
    """Return why steps need Python, or an empty string."""
    for node in plan.every_node():
        is_asked = isinstance(node, Choice) or (isinstance(node, Repeat) and node.until is not None)
        if is_asked and plan.team is not None:
            return "processes agree about conditions within a step, which Python does"
        for job in plan.jobs(node) if isinstance(node, Task) else ():
            if job.native is None:
                return job.why
    return ""


@functools.cache
def _loop() -> tuple[Any, native.Library]:
    """Return the native loop, and the code that holds it."""
    text = Path(__file__).with_suffix(".ll").read_text(encoding="utf-8")
    library = native.Library(native.object_code(text))
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return kind(library.address("run")), library

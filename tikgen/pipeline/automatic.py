"""Chooses what launches a kernel: Taichi, until machine code is there and proven for it.

Nothing is compiled before many launches are over, and then in a child process. Meanwhile, and where
anything goes wrong, Taichi launches.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tikgen import engines
from tikgen.engines import DIRECT_CPU
from tikgen.engines.code_store import Stored
from tikgen.errors import EngineUnavailable, TikgenError, WrongThread
from tikgen.pipeline import events, evidence
from tikgen.pipeline.direct import Direct
from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.machine_code import MachineCode
from tikgen.taichi import arrays, runtime
from tikgen.template.arguments import Array
from tikgen.units import duration, size

# Over more bytes the launch itself is a small part of the time.
MOST_BYTES = 1 << 18
# After so many launches Taichi's own part of them took as long as the text of the code does.
LAUNCHES = 500
# Launches between looks at a child process.
_BETWEEN = 50
# Launches in which both engines must give the same bits.
COMPARED = 3
# Which part of the time of a plain call by Taichi a direct launch may take, in the best of them. A
# bound launch by Taichi takes less than a plain call.
MOST_TIME = 0.8


class Automatic:
    """What launches a kernel under one ``ti.init``.

    Args:
        loaded: the kernel.

    Attributes:
        direct: the machine code, once it is proven.
        why: why Taichi launches until the end, in words; empty while that is open.
    """

    def __init__(self, loaded: Loaded) -> None:
        self.epoch = runtime.epoch()
        self.direct: Direct | None = None
        self.why = ""
        self._changing = threading.Lock()
        self._candidate: Direct | None = None
        self._making: engines.Making | None = None
        self._equal = 0
        # The shortest launches that were compared, by Taichi and directly.
        self._times = math.inf, math.inf
        self._due = LAUNCHES
        try:
            self._code = _code_of(loaded)
            self._take_stored(loaded)
        except _GIVEN_UP as error:
            self._give_up(loaded, error)

    @property
    def state(self) -> str:
        """Return why Taichi launches, in words, or an empty string."""
        if self.why or self.direct is not None:
            return self.why
        if self._candidate is not None:
            return "its results are being compared with those of Taichi"
        if self._making is not None:
            return "its machine code is being made"
        return f"its machine code is made after {LAUNCHES} launches"

    def is_due(self, loaded: Loaded) -> bool:
        """Return whether a launch by Taichi may not be the right one any more."""
        if self._candidate is not None or self.direct is not None:
            return True
        return not self.why and loaded.launches + loaded.bound_launches >= self._due

    def launch(self, loaded: Loaded, values: Sequence[Any], sizes: Sequence[int]) -> Any:
        """Launch by Taichi, and do what comes next on the way to :attr:`direct`.

        Args:
            loaded: the kernel.
            values: its arguments, checked, of at most :data:`MOST_BYTES`.
            sizes: the value of each size symbol.
        """
        if not self._changing.acquire(blocking=False):
            return loaded.run(loaded.with_workspace(values, sizes))
        try:
            if self._candidate is None and self.direct is None:
                self._make(loaded)
            if self._candidate is not None:
                return self._compare(loaded, self._candidate, values, sizes)
        finally:
            self._changing.release()
        return loaded.run(loaded.with_workspace(values, sizes))

    def _make(self, loaded: Loaded) -> None:
        """Begin to make machine code, or take what was made."""
        self._due = loaded.launches + loaded.bound_launches + _BETWEEN
        try:
            if self._making is None:
                if why := engines.problem(DIRECT_CPU):
                    raise EngineUnavailable(loaded.name, DIRECT_CPU, why)
                self._making = self._code.begin()
            content = None if self._making is None else self._making.result()
            if content is not None:
                self._code.keep(Stored(content))
            self._take_stored(loaded)
        except WrongThread:
            pass  # Another thread may come by.
        except _GIVEN_UP as error:
            self._give_up(loaded, error)

    def _take_stored(self, loaded: Loaded) -> None:
        if self._code.stored is None:
            return
        if why := engines.problem(DIRECT_CPU):
            raise EngineUnavailable(loaded.name, DIRECT_CPU, why)
        made = Direct(loaded, DIRECT_CPU, self._code.load())
        if self._code.stored.agrees or evidence.is_verified(
            loaded.source.digest, "cpu", DIRECT_CPU
        ):
            self.direct = made
        else:
            self._candidate = made

    def _compare(
        self, loaded: Loaded, candidate: Direct, values: Sequence[Any], sizes: Sequence[int]
    ) -> Any:
        """Launch by Taichi, and over copies of the arrays directly."""
        copies = _copies(values)
        start = time.perf_counter()
        returned = loaded.run(loaded.with_workspace(values, sizes))
        stop = time.perf_counter()
        seconds = candidate.try_with((*copies, *candidate.scratch(sizes)))
        self._times = min(self._times[0], stop - start), min(self._times[1], seconds)
        written = [
            (arrays.to_host(value), copy)
            for argument, value, copy in zip(
                loaded.signature.arguments, values, copies, strict=True
            )
            if isinstance(argument, Array) and argument.written
        ]
        if not all(one.tobytes() == other.tobytes() for one, other in written):
            self._give_up(loaded, "its results differed from those of Taichi in some bits")
            return returned
        self._equal += 1
        if self._equal == COMPARED and self._code.stored is not None:
            taichi, direct = self._times
            if direct > MOST_TIME * taichi:
                shown = f"{duration(direct)} instead of {duration(taichi)} by a plain call"
                self._give_up(loaded, f"it was not much faster: {shown}")
                return returned
            self._code.keep(replace(self._code.stored, agrees=True))
            self._candidate, self.direct = None, candidate
        return returned

    def _give_up(self, loaded: Loaded, problem: Exception | str) -> None:
        self._candidate = self._making = None
        self.why = problem.why if isinstance(problem, EngineUnavailable) else str(problem)
        details = {"engine": engines.TAICHI, "why": self.why}
        events.emit("engine", loaded.subject, time.perf_counter(), 0.0, **details)


# What may go wrong without a loss: Taichi launches.
_GIVEN_UP = (TikgenError, OSError, RuntimeError, ValueError)
_choices: weakref.WeakKeyDictionary[Loaded, Automatic] = weakref.WeakKeyDictionary()


def choice_of(loaded: Loaded) -> Automatic:
    """Return what launches a kernel under the current ``ti.init``."""
    found = _choices.get(loaded)
    if found is None or found.epoch is not runtime.epoch():
        found = _choices[loaded] = Automatic(loaded)
    return found


def launch(
    loaded: Loaded, values: tuple[Any, ...], sizes: Sequence[int]
) -> tuple[Any, Direct | None]:
    """Launch a kernel with checked arguments by what is chosen for it.

    Return what it returns, and what may launch its next call over small arrays beside Taichi.
    """
    choice = choice_of(loaded)
    if choice.direct is not None and is_small(values):
        choice.direct.launch(loaded, (*values, *choice.direct.own_scratch(sizes)))
        return None, choice.direct
    if choice.is_due(loaded) and is_small(values):
        return choice.launch(loaded, values, sizes), choice.direct
    return loaded.run(loaded.with_workspace(values, sizes)), choice.direct


def engine_of(loaded: Loaded, option: str) -> str:
    """Return the engine that launches small arrays under an option of ``with_engine``."""
    if option != engines.AUTO:
        return option
    is_direct = runtime.is_initialised() and choice_of(loaded).direct is not None
    return DIRECT_CPU if is_direct else engines.TAICHI


def why(loaded: Loaded, option: str) -> str:
    """Return in a sentence why that engine launches, and no other one."""
    if option != engines.AUTO:
        return f"{option} was chosen by name, or is the default"
    if not runtime.is_initialised():
        return "ti.init was not called yet"
    choice = choice_of(loaded)
    if choice.direct is None:
        return f"direct-cpu does not launch it: {choice.state}"
    most = size(MOST_BYTES)
    return f"direct-cpu is proven for it; over arrays of more than {most} Taichi launches"


def is_small(values: Sequence[Any]) -> bool:
    """Return whether arguments are small enough to gain from a direct launch."""
    return sum(map(arrays.size_of, values)) <= MOST_BYTES


def _code_of(loaded: Loaded) -> MachineCode:
    if why := engines.missing(DIRECT_CPU):
        raise EngineUnavailable(loaded.name, DIRECT_CPU, why)
    code = MachineCode(loaded, DIRECT_CPU, exact=True)
    if runtime.is_profiling():
        raise EngineUnavailable(loaded.name, DIRECT_CPU, "Taichi's profiler must see each launch")
    return code


def _copies(values: Sequence[Any]) -> list[Any]:
    """Return copies of the arrays; those that are the same share a copy."""
    made: dict[int, Any] = {}
    for value in values:
        if id(value) not in made:
            is_array = arrays.size_of(value) > 0
            made[id(value)] = np.array(arrays.to_host(value), order="C") if is_array else value
    return [made[id(value)] for value in values]

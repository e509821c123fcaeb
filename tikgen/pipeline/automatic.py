"""Chooses what launches a kernel: Taichi, until machine code is there and proven for it.

Nothing is compiled before many launches are over, and then in a child process. Meanwhile, and where
anything goes wrong, Taichi launches. The engine beside Taichi is that of the arch: direct-cpu or
direct-cuda.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tikgen import engines
from tikgen.engines.code_store import Stored
from tikgen.errors import EngineUnavailable, TikgenError, WrongThread
from tikgen.pipeline import events, evidence
from tikgen.pipeline.direct import Direct, engine_where_possible, why_left
from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.machine_code import MachineCode
from tikgen.taichi import arrays, runtime
from tikgen.template.arguments import Array
from tikgen.units import duration, size

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
        engine: the engine beside Taichi, or an empty string if the arch has none.
        most_bytes: over how many bytes of arrays Taichi launches in any case.
        direct: the machine code, once it is proven.
        why: why Taichi launches until the end, in words; empty while that is open.
    """

    def __init__(self, loaded: Loaded) -> None:
        self.epoch = runtime.epoch()
        self.engine = engines.for_arch(runtime.current_arch())
        self.most_bytes = 0
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
            self._code = _code_of(loaded, self.engine)
            self._engine = engines.engine(self.engine)
            self.most_bytes = self._engine.MOST_BYTES
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
            values: its arguments, checked, of at most :attr:`most_bytes`.
            sizes: the value of each size symbol.
        """
        if not self._changing.acquire(blocking=False):
            return loaded.run(loaded.with_workspace(values, sizes))
        try:
            if self._candidate is None and self.direct is None:
                self._make(loaded)
            if self._candidate is not None and bytes_of(values) <= self._engine.MOST_COMPARED:
                return self._compare(loaded, self._candidate, values, sizes)
        finally:
            self._changing.release()
        return loaded.run(loaded.with_workspace(values, sizes))

    def _make(self, loaded: Loaded) -> None:
        """Begin to make machine code, or take what was made."""
        self._due = loaded.launches + loaded.bound_launches + _BETWEEN
        try:
            if self._making is None:
                if why := engines.problem(self.engine):
                    raise EngineUnavailable(loaded.name, self.engine, why)
                self._making = self._code.begin()
            content = None if self._making is None else self._making.result()
            if content is not None and self._code.stored is None:
                self._code.keep(Stored(content))
            self._take_stored(loaded)
        except WrongThread:
            pass  # Another thread may come by.
        except _GIVEN_UP as error:
            self._give_up(loaded, error)

    def _take_stored(self, loaded: Loaded) -> None:
        if self._code.stored is None:
            return
        if why := engines.problem(self.engine):
            raise EngineUnavailable(loaded.name, self.engine, why)
        made = Direct(loaded, self.engine, self._code.load(), self.most_bytes)
        arch = engines.arch_of(self.engine)
        if self._code.stored.agrees or evidence.is_verified(loaded.source, arch, self.engine):
            self.direct = made
        else:
            self._candidate = made

    def _compare(
        self, loaded: Loaded, candidate: Direct, values: Sequence[Any], sizes: Sequence[int]
    ) -> Any:
        """Launch by Taichi, and over copies of the arrays directly."""
        copies: list[Any] | None = None
        # A thread that can make no arrays of Taichi leaves that to another one.
        if runtime.may_allocate() or all(map(arrays.is_on_host, values)):
            try:
                copies = _copies(values)
                self._engine.wait()
            except _GIVEN_UP as error:
                self._give_up(loaded, error)
        start = time.perf_counter()
        returned = loaded.run(loaded.with_workspace(values, sizes))
        stop = time.perf_counter()
        if copies is None:
            return returned
        try:
            passed = loaded.passed(copies, sizes)
            seconds = candidate.try_with((*passed, *candidate.scratch(sizes)))
            self._engine.wait()
        except _GIVEN_UP as error:
            self._give_up(loaded, error)
            return returned
        self._times = min(self._times[0], stop - start), min(self._times[1], seconds)
        if not _agree(loaded, values, copies):
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

    Return what it returns, and what may launch its next call instead of Taichi.
    """
    choice = choice_of(loaded)
    fits = bytes_of(values) <= choice.most_bytes
    if choice.direct is not None and fits:
        choice.direct.launch(loaded, choice.direct.passed(loaded, values, sizes))
        return None, choice.direct
    if choice.is_due(loaded) and fits:
        return choice.launch(loaded, values, sizes), choice.direct
    return loaded.run(loaded.with_workspace(values, sizes)), choice.direct


def engine_of(loaded: Loaded, option: str) -> str:
    """Return the engine that launches small arrays under an option of ``with_engine``."""
    option = engines.resolved(option, runtime.current_arch())
    if option == engines.DIRECT:
        return engine_where_possible(loaded)
    if option != engines.AUTO:
        return option
    if not runtime.is_initialised() or choice_of(loaded).direct is None:
        return engines.TAICHI
    return choice_of(loaded).engine


def why(loaded: Loaded, option: str) -> str:
    """Return in a sentence why that engine launches, and no other one."""
    arch = runtime.current_arch()
    option, wanted = engines.resolved(option, arch), option
    if option == engines.DIRECT and (left := why_left(loaded)):
        return f"no engine beside Taichi launches it: {left}"
    if option != engines.AUTO:
        how = "is the default" if wanted == engines.DEFAULT else "was chosen by name"
        if wanted == engines.DEFAULT and runtime.needs_own_launches():
            how += " where it profiles or debugs"
        return f"{engine_of(loaded, option)} {how}"
    if not runtime.is_initialised():
        return "ti.init was not called yet"
    choice = choice_of(loaded)
    if choice.direct is None:
        return f"{choice.engine or 'an engine'} does not launch it: {choice.state}"
    proven = f"{choice.engine} is proven for it"
    if choice.most_bytes == sys.maxsize:
        return proven
    return f"{proven}; over arrays of more than {size(choice.most_bytes)} Taichi launches"


def bytes_of(values: Sequence[Any]) -> int:
    """Return how many bytes the arrays among some arguments have."""
    return sum(map(arrays.size_of, values))


def _code_of(loaded: Loaded, engine: str) -> MachineCode:
    if not engine:
        why = f"there is none beside Taichi for {runtime.current_arch()}"
        raise EngineUnavailable(loaded.name, "auto", why)
    if why := engines.missing(engine):
        raise EngineUnavailable(loaded.name, engine, why)
    code = MachineCode(loaded, engine, exact=True)
    if runtime.is_profiling():
        raise EngineUnavailable(loaded.name, engine, "Taichi's profiler must see each launch")
    return code


def _copies(values: Sequence[Any]) -> list[Any]:
    """Return copies of the arrays; those that are the same share a copy."""
    made: dict[int, Any] = {}
    with runtime.compiling:  # Copying launches kernels of Taichi itself.
        for value in values:
            if id(value) not in made:
                made[id(value)] = arrays.copy_of(value) if arrays.size_of(value) else value
    return [made[id(value)] for value in values]


def _agree(loaded: Loaded, values: Sequence[Any], copies: Sequence[Any]) -> bool:
    """Return whether arrays that were written have the same bits as their copies."""
    with runtime.compiling:
        return all(
            arrays.to_host(value).tobytes() == arrays.to_host(copy).tobytes()
            for argument, value, copy in zip(
                loaded.signature.arguments, values, copies, strict=True
            )
            if isinstance(argument, Array) and argument.written
        )

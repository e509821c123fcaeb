"""The launchers of a program's calls, by an engine beside Taichi."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from tikgen import engines
from tikgen.errors import EngineUnavailable
from tikgen.pipeline import events
from tikgen.pipeline.direct import direct_of
from tikgen.pipeline.loaded import Loaded
from tikgen.program import varying
from tikgen.program.plan import Call
from tikgen.taichi import runtime
from tikgen.template.arguments import Scalar


class Launchers:
    """A launcher for each call, whose arrays are set and checked once.

    Args:
        engine: the engine.

    Raises:
        EngineUnavailable: if the engine cannot be used here.
    """

    def __init__(self, engine: str) -> None:
        self._engine = engine
        why = engines.problem(engine)
        if runtime.current_arch() != engines.arch_of(engine):
            why = f"Taichi runs on {runtime.current_arch()}"
        if why:
            raise EngineUnavailable("the program", engine, why)
        self._launchers: dict[Call, Any] = {}
        self._scratch: dict[tuple[Loaded, tuple[int, ...]], list[Any]] = {}
        self._code_of: dict[Call, Loaded] = {}

    @property
    def is_current(self) -> bool:
        """Return whether every kernel still has the code that is launched."""
        return all(
            loaded.is_loaded and call.loaded is loaded  # Adopts new code.
            for call, loaded in self._code_of.items()
        )

    def code_of(self, call: Call) -> Loaded:
        """Return the code that the launcher of a call launches."""
        return self._code_of[call]

    def take(self, call: Call, launcher: Any) -> None:
        """Launch a call by the launcher of another one that does the same."""
        self._launchers[call], self._code_of[call] = launcher, call.loaded

    def of(self, call: Call) -> Any:
        """Return the launcher of a call; raises EngineUnavailable."""
        if call not in self._launchers:
            loaded, values = call.bound.code_and_values()
            self._code_of[call] = loaded
            sizes = tuple(loaded.check(values))
            direct = direct_of(loaded, self._engine)
            # Launches follow each other, so that those of a kernel can share scratch arrays.
            if (loaded, sizes) not in self._scratch:
                self._scratch[loaded, sizes] = direct.scratch(sizes)
            made = direct.launcher()
            made.set_all([*loaded.passed(values, sizes), *self._scratch[loaded, sizes]])
            self._launchers[call] = made
        return self._launchers[call]

    def prepare(self, calls: Iterable[Call]) -> None:
        """Make the launchers of some calls; raises EngineUnavailable."""
        for call in calls:
            self.of(call)

    def launch(self, call: Call, step: int) -> None:
        """Launch a call as in a step."""
        made = self.of(call)
        for name, source in call.varying.items():
            slot, argument = scalar_of(call, name)
            put = made.scalar_setter(slot, argument.dtype.is_float, argument.dtype.is_signed)
            put(varying.values(call.bound, name, source, step, 1)[0].item())
        made.launch()
        events.record_bound_launches(self._code_of[call], 1)


class ByLaunchers:
    """What steppers share that launch by an engine beside Taichi."""

    _launchers: Launchers

    @property
    def is_current(self) -> bool:
        """Return whether every kernel still has the code that is launched."""
        return self._launchers.is_current

    def launch(self, call: Call, step: int) -> None:
        """Launch one call as in a step."""
        self._launchers.launch(call, step)


def address_of(launcher: Any, slot: int) -> int:
    """Return where a launcher of the engine direct-cpu holds the scalar in ``slot``."""
    struct = launcher.arguments
    return ctypes.addressof(struct) + int(getattr(type(struct), f"a{slot}").offset)


def scalar_of(call: Call, name: str) -> tuple[int, Scalar]:
    """Return a scalar argument, and its slot."""
    arguments = enumerate(call.loaded.signature.arguments)
    return next((slot, a) for slot, a in arguments if isinstance(a, Scalar) and a.name == name)

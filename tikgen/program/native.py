"""Steps in native code: a loop that walks the launches of a program without Python in between."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen import engines
from tikgen.engines import native
from tikgen.errors import EngineUnavailable
from tikgen.pipeline import events
from tikgen.pipeline.direct import direct_of
from tikgen.pipeline.loaded import Loaded
from tikgen.program import varying
from tikgen.program.instructions import LAUNCH, PUT, Instructions
from tikgen.program.plan import Arrangement, Call, Plan
from tikgen.taichi import runtime
from tikgen.template.arguments import Scalar

# Steps for which values of scalars are computed ahead.
_AHEAD = 1024


class NativeStepper:
    """Does steps of a program in native code, without the GIL.

    Args:
        plan: what a step does.

    Raises:
        EngineUnavailable: if a kernel cannot run without Taichi.
    """

    def __init__(self, plan: Plan) -> None:
        if runtime.current_arch() != "cpu":
            why = f"Taichi runs on {runtime.current_arch()}"
            raise EngineUnavailable("the program", engines.DIRECT_CPU, why)
        if why := engines.problem(engines.DIRECT_CPU):
            raise EngineUnavailable("the program", engines.DIRECT_CPU, why)
        self.done = 0
        self.at = plan.first
        self._launchers: dict[Call, Any] = {}
        self._scratch: dict[tuple[Loaded, tuple[int, ...]], list[Any]] = {}
        self._code_of: dict[Call, Loaded] = {}
        self._tables: dict[tuple[Call, str], npt.NDArray[Any]] = {}
        self._instructions = Instructions(plan, self._instructions_of)
        self._words = np.array(self._instructions.code, np.int64)
        self._starts = self._instructions.starts
        self._arrangements = {place: at for at, place in self._starts.items()}
        self._control = np.zeros(3, np.int64)
        self._run, self._library = _loop()

    @property
    def stopped(self) -> bool:
        """Return whether it was told to stop."""
        return bool(self._control[2])

    @stopped.setter
    def stopped(self, value: bool) -> None:
        self._control[2] = value

    @property
    def is_current(self) -> bool:
        """Return whether every kernel still has the code that is launched."""
        return all(
            call.kernel.loaded is loaded and loaded.is_loaded and not call.kernel.is_changing
            for call, loaded in self._code_of.items()
        )

    def launcher_of(self, call: Call) -> Any:
        """Return the launcher of a call; raises EngineUnavailable."""
        if call not in self._launchers:
            values = tuple(call.bound.arguments.values())  # Adopts new code.
            loaded = self._code_of[call] = call.kernel.loaded
            sizes = tuple(loaded.check(values))
            direct = direct_of(loaded, engines.DIRECT_CPU)
            # Launches follow each other, so that those of a kernel can share scratch arrays.
            if (loaded, sizes) not in self._scratch:
                self._scratch[loaded, sizes] = direct.scratch(sizes)
            made = direct.launcher()
            made.set_all([*values, *self._scratch[loaded, sizes]])
            self._launchers[call] = made
        return self._launchers[call]

    def launch(self, call: Call, step: int) -> None:
        """Launch one call as in a step."""
        made = self.launcher_of(call)
        for name, source in call.varying.items():
            values = varying.values(call.bound, name, source, step, 1)
            ctypes.memmove(
                _address(made, _scalar(call, name)[0]), values.ctypes.data, values.nbytes
            )
        made.launch()
        call.kernel.loaded.bound_launches += 1

    def run(self, at: Arrangement, step: int, count: int) -> None:
        """Do some steps, fewer if it is told to stop."""
        self.done, self.at = 0, at
        while self.done < count and not self.stopped:
            ahead = min(count - self.done, _AHEAD) if self._tables else count - self.done
            for (call, name), table in self._tables.items():
                first = step + self.done
                table[:ahead] = varying.values(call.bound, name, call.varying[name], first, ahead)
            self._control[0], self._control[1] = 0, ahead
            place = self._starts[self.at]
            place = self._run(self._words.ctypes.data, place, self._control.ctypes.data)
            self.at = self._arrangements[place]
            self.done += int(self._control[0])

    def finish(self) -> None:
        """Add the launches since the last time to those of the kernels."""
        launches = self._instructions.launches
        for place, call in launches:
            events.record_bound_launches(self._code_of[call], int(self._words[place, 3]))
        self._words[[place for place, _ in launches], 3] = 0

    def _instructions_of(self, call: Call) -> list[list[int]]:
        """Return the instructions of a call: its scalars that change with the step, its launch."""
        made, found = self.launcher_of(call), []
        for name in call.varying:
            slot, dtype = _scalar(call, name)
            table = self._tables.setdefault((call, name), np.zeros(_AHEAD, dtype.numpy))
            found.append([PUT, _address(made, slot), table.ctypes.data, table.itemsize])
        return [*found, [LAUNCH, made.function, made.context, 0]]


def _scalar(call: Call, name: str) -> tuple[int, Any]:
    """Return slot and dtype of a scalar argument."""
    for slot, argument in enumerate(call.kernel.loaded.signature.arguments):
        if isinstance(argument, Scalar) and argument.name == name:
            return slot, argument.dtype
    raise KeyError(name)


def _address(launcher: Any, slot: int) -> int:
    """Return where the launcher holds the scalar in ``slot``."""
    struct = launcher.arguments
    return ctypes.addressof(struct) + int(getattr(type(struct), f"a{slot}").offset)


@functools.cache
def _loop() -> tuple[Any, native.Library]:
    """Return the native loop, and the code that holds it."""
    text = Path(__file__).with_suffix(".ll").read_text(encoding="utf-8")
    library = native.Library(native.object_code(text))
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return kind(library.address("run")), library

"""Steps in native code: a loop that walks the launches of a program without Python in between."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen import engines
from tikgen.engines import native
from tikgen.errors import EngineUnavailable, ProgramError
from tikgen.pipeline import events
from tikgen.pipeline.direct import direct_of
from tikgen.pipeline.loaded import Loaded
from tikgen.program import varying
from tikgen.program.plan import Call, Choice, Item, Repeat, Test
from tikgen.taichi import runtime
from tikgen.template.arguments import Scalar

_LAUNCH, _REPEAT, _AGAIN, _STEP, _PUT, _UNLESS, _JUMP = range(7)
# Steps for which values of scalars are computed ahead.
_AHEAD = 1024


@dataclass(frozen=True, eq=False)
class _Table:
    """The values of a scalar for some steps ahead."""

    call: Call
    name: str
    values: npt.NDArray[Any]


class NativeStepper:
    """Does steps of a program in native code, without the GIL.

    Args:
        phases: what each step does, until they repeat.

    Raises:
        EngineUnavailable: if a kernel cannot run without Taichi.
    """

    def __init__(self, phases: Sequence[tuple[Item, ...]]) -> None:
        if runtime.current_arch() != "cpu":
            why = f"Taichi runs on {runtime.current_arch()}"
            raise EngineUnavailable("the program", engines.DIRECT_CPU, why)
        if why := engines.problem(engines.DIRECT_CPU):
            raise EngineUnavailable("the program", engines.DIRECT_CPU, why)
        self.done = 0
        self._code: list[list[int]] = []
        self._launchers: dict[Call, Any] = {}
        self._scratch: dict[tuple[Loaded, tuple[int, ...]], list[Any]] = {}
        self._code_of: dict[Call, Loaded] = {}
        self._launched: list[tuple[int, Loaded]] = []
        self._counters: list[ctypes.c_int64] = []
        self._tables: list[_Table] = []
        self._starts: list[int] = []
        for items in phases:
            self._starts.append(len(self._code))
            self._write(items)
            self._add(_STEP, len(self._code) + 1)
        self._code[-1][1] = 0
        self._words = np.array(self._code, np.int64)
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

    def run(self, phase: int, step: int, count: int) -> None:
        """Do some steps, fewer if it is told to stop."""
        self.done = 0
        while self.done < count and not self.stopped:
            ahead = min(count - self.done, _AHEAD) if self._tables else count - self.done
            for table in self._tables:
                source, first = table.call.varying[table.name], step + self.done
                values = varying.values(table.call.bound, table.name, source, first, ahead)
                table.values[:ahead] = values
            start = self._starts[(phase + self.done) % len(self._starts)]
            self._control[0], self._control[1] = 0, ahead
            self._run(self._words.ctypes.data, start, self._control.ctypes.data)
            self.done += int(self._control[0])

    def finish(self) -> None:
        """Add the launches since the last time to those of the kernels."""
        for at, loaded in self._launched:
            events.record_bound_launches(loaded, int(self._words[at, 3]))
        self._words[[at for at, _ in self._launched], 3] = 0

    def _add(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Add an instruction; return its place."""
        self._code.append([op, a, b, c])
        return len(self._code) - 1

    def _write(self, items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, Call):
                self._write_call(item)
            elif isinstance(item, Repeat):
                self._write_repeat(item)
            else:
                self._write_choice(item)

    def _write_call(self, call: Call) -> None:
        made = self.launcher_of(call)
        for name in call.varying:
            slot, dtype = _scalar(call, name)
            table = _Table(call, name, np.zeros(_AHEAD, dtype.numpy))
            self._tables.append(table)
            entry = table.values
            self._add(_PUT, _address(made, slot), entry.ctypes.data, entry.itemsize)
        place = self._add(_LAUNCH, made.function, made.context)
        self._launched.append((place, call.kernel.loaded))

    def _write_repeat(self, item: Repeat) -> None:
        counter = ctypes.c_int64(0)
        self._counters.append(counter)
        self._add(_REPEAT, ctypes.addressof(counter), item.times)
        begin = len(self._code)
        self._write(item.items)
        leave = None
        if item.until is not None:
            unless = self._write_test(item.until)
            leave = self._add(_JUMP)
            self._code[unless][2] = len(self._code)
        self._add(_AGAIN, ctypes.addressof(counter), begin)
        if leave is not None:
            self._code[leave][1] = len(self._code)

    def _write_choice(self, item: Choice) -> None:
        unless = self._write_test(item.test)
        self._write(item.items)
        leave = self._add(_JUMP) if item.otherwise else None
        self._code[unless][2] = len(self._code)
        self._write(item.otherwise)
        if leave is not None:
            self._code[leave][1] = len(self._code)

    def _write_test(self, test: Test) -> int:
        """Write a test, and a jump if it fails; return the place of that, which lacks its goal."""
        self._write_call(test.call)
        memory = test.flag.memory
        if memory is None:
            raise ProgramError(f"the condition {test.text!r} is not on the host")
        return self._add(_UNLESS, memory.ctypes.data)


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

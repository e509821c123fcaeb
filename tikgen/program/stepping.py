"""Steps of a program as bound launches from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tikgen.program import varying
from tikgen.program.plan import Call, Item, Repeat, Test
from tikgen.program.scalars import Flag


class Stepper(Protocol):
    """Does the steps of a program."""

    stopped: bool
    # How many steps the last run did.
    done: int

    def launch(self, call: Call, step: int) -> None:
        """Launch one call as in a step."""

    def run(self, phase: int, step: int, count: int) -> None:
        """Do some steps, fewer if it is told to stop.

        Args:
            phase: the phase of the first step.
            step: number of the first step.
            count: how many steps.
        """

    def finish(self) -> None:
        """Do what is left after a run."""


class PythonStepper:
    """Does steps of a program with bound launches from Python.

    Args:
        phases: what each step does, until they repeat.
    """

    def __init__(self, phases: Sequence[tuple[Item, ...]]) -> None:
        self._phases = phases
        self.stopped = False
        self.done = 0

    def launch(self, call: Call, step: int) -> None:
        """Launch one call as in a step."""
        if not call.varying:
            call.bound()
            return
        now = {
            name: varying.values(call.bound, name, source, step, 1)[0].item()
            for name, source in call.varying.items()
        }
        call.bound(**now)

    def run(self, phase: int, step: int, count: int) -> None:
        """Do some steps, fewer if it is told to stop."""
        self.done = 0
        while self.done < count and not self.stopped:
            self._do(self._phases[(phase + self.done) % len(self._phases)], step + self.done)
            self.done += 1

    def finish(self) -> None:
        """Do nothing: each launch counts itself."""

    def _do(self, items: Sequence[Item], step: int) -> None:
        for item in items:
            if isinstance(item, Call):
                self.launch(item, step)
            elif isinstance(item, Repeat):
                for _ in range(item.times):
                    self._do(item.items, step)
                    if item.until is not None and self._holds(item.until, step):
                        break
            else:
                chosen = item.items if self._holds(item.test, step) else item.otherwise
                self._do(chosen, step)

    def _holds(self, test: Test, step: int) -> bool:
        self.launch(test.call, step)
        return self.value_of(test.flag)

    def value_of(self, flag: Flag) -> bool:
        """Return whether a condition held when it was last computed."""
        return flag.holds

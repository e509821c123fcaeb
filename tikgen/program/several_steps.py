"""Several steps that are done together, and the rest one by one."""

from __future__ import annotations

from collections.abc import Sequence

from tikgen.program.parts import Composite, Part, Several
from tikgen.program.plan import Arrangement, Call
from tikgen.program.scalars import Flag
from tikgen.program.stepping import Stepper
from tikgen.program.team import Team


def several_steps(listed: Sequence[Part]) -> Several | None:
    """Return what does several steps of a program together; None if nothing does."""
    first = next((part for part in listed if isinstance(part, Composite)), None)
    return None if first is None else first.several_steps(listed)


class SeveralStepper:
    """Does several steps at a time as long as it can, and the rest one by one.

    Args:
        one: does single steps.
        several: does as many steps in each of its own.
        what: what does so, and how many steps that are.

    Attributes:
        one: does single steps.
    """

    def __init__(self, one: Stepper, several: Stepper, what: Several) -> None:
        self.one, self._several, self._what = one, several, what
        self.done = 0
        self.at: Arrangement = one.at

    @property
    def how(self) -> str:
        """Return what launches the kernels, in words."""
        return f"{self._several.how}, {self._what.why}"

    @property
    def together(self) -> int:
        """Return how many steps are best done together."""
        return self._what.steps

    @property
    def why_not_blocked(self) -> str:
        """Return why several steps cannot go over a slab that fits the cache."""
        return self._several.why_not_blocked

    def is_of_use(self, team: Team) -> bool:
        """Return whether several steps take less time on all processes, which all have to ask."""
        return not self._what.needs_blocks or all(team.all(not self.why_not_blocked))

    @property
    def is_current(self) -> bool:
        """Return whether every kernel still has the code that is launched."""
        return self.one.is_current and self._several.is_current

    @property
    def stopped(self) -> bool:
        """Return whether it was told to stop."""
        return self.one.stopped

    @stopped.setter
    def stopped(self, value: bool) -> None:
        self.one.stopped = self._several.stopped = value

    def launch(self, call: Call, step: int) -> None:
        """Launch one call as in a step."""
        self.one.launch(call, step)

    def value_of(self, flag: Flag) -> bool:
        """Return whether a condition held when it was last computed."""
        return self.one.value_of(flag)

    def run(self, at: Arrangement, step: int, count: int) -> None:
        """Do some steps, fewer if it is told to stop."""
        self.done, self.at = 0, at
        steps = self._what.steps
        for stepper, each in ((self._several, steps), (self.one, 1)):
            if times := (count - self.done) // each:
                try:
                    stepper.run(self.at, step + self.done, times)
                finally:
                    self.done += stepper.done * each
                    self.at = stepper.at
            if self.stopped:
                return

    def finish(self) -> None:
        """Do what is left after a run."""
        self.one.finish()
        self._several.finish()

"""Where a program stands: its step, its phase, and what does further steps."""

from __future__ import annotations

from collections.abc import Sequence

from tikgen.program import varying
from tikgen.program.plan import Plan, Test
from tikgen.program.stepping import Stepper


class Walk:
    """The steps of a program, one after the other.

    Args:
        plan: what each step does.
        stepper: what does it.

    Attributes:
        steps: how many steps were done.
        phase: the phase of the next step.
        ahead: how many steps to do at a time, so that Python looks for Ctrl-C often enough.
    """

    def __init__(self, plan: Plan, stepper: Stepper) -> None:
        self.plan = plan
        self.stepper = stepper
        self.steps = 0
        self.phase = 0
        self.ahead = 1
        self._tests: dict[str, Sequence[Test]] = {}

    def begin(self) -> None:
        """Forget an earlier order to stop."""
        self.stepper.stopped = False

    def stop(self) -> None:
        """Have the steps in progress end after the current one."""
        self.stepper.stopped = True

    @property
    def is_stopped(self) -> bool:
        """Return whether the steps in progress are to end."""
        return self.stepper.stopped

    def advance(self, count: int) -> None:
        """Do steps, fewer if they are stopped."""
        stepper = self.stepper
        try:
            stepper.run(self.phase, self.steps, count)
        finally:
            self.steps += stepper.done
            self.phase = (self.phase + stepper.done) % len(self.plan.phases)

    def standing(self, number: int) -> int:
        """Return the number of the array that stands for another one now."""
        arrangement = self.plan.arrangements[self.phase]
        return arrangement[number] if number < len(arrangement) else number

    def tests(self, text: str) -> Sequence[Test]:
        """Return a condition for each phase."""
        if text not in self._tests:
            self._tests[text] = self.plan.tests_of(text)
        return self._tests[text]

    def holds(self, tests: Sequence[Test]) -> bool:
        """Return whether a condition holds now."""
        test = tests[self.phase]
        self.stepper.launch(test.call, self.steps)
        return test.flag.holds

    def check_tables(self, count: int) -> None:
        """Raise ProgramError if a table of a scalar is too short for so many further steps."""
        for call in self.plan.calls():
            for name, source in call.varying.items():
                varying.check_length(name, source, self.steps + count)

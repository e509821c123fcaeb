"""Where a program stands: its step, its arrangement of arrays, and what does further steps."""

from __future__ import annotations

import numpy as np

from tikgen.program import scalars, varying
from tikgen.program.plan import Condition, Plan
from tikgen.program.stepping import Stepper
from tikgen.taichi import arrays


class Walk:
    """The steps of a program, one after the other.

    Args:
        plan: what a step does.
        stepper: what does it.

    Attributes:
        steps: how many steps were done.
        at: the arrangement after them.
        ahead: how many steps to do at a time, so that Python looks for Ctrl-C often enough.
        is_stopped: whether the steps are to end.
    """

    def __init__(self, plan: Plan, stepper: Stepper) -> None:
        self.plan = plan
        self.stepper = stepper
        self.steps = 0
        self.at = plan.first
        self.ahead = 1
        self.is_stopped = False

    @property
    def next(self) -> int:
        """Return how many steps to do next: some that are done together, or ``ahead``."""
        together = self.stepper.together
        return max(1, self.ahead // together) * together

    def begin(self) -> None:
        """Forget an earlier order to stop."""
        self.is_stopped = self.stepper.stopped = False

    def stop(self) -> None:
        """Have the steps in progress end: after the current one, or when all of a team agreed."""
        self.is_stopped = True
        if self.plan.team is None:  # Others would wait for the messages of this process.
            self.stepper.stopped = True

    def advance(self, count: int) -> None:
        """Do steps, fewer if they are stopped."""
        stepper = self.stepper
        try:
            stepper.run(self.at, self.steps, count)
        finally:
            self.steps += stepper.done
            self.at = stepper.at

    def standing(self, number: int) -> int:
        """Return the number of the array that stands for another one now."""
        return self.at[number] if number < len(self.at) else number

    def holds(self, condition: Condition) -> bool:
        """Return whether a condition holds now."""
        self.stepper.launch(self.plan.call(condition.launch, self.at), self.steps)
        return self.stepper.value_of(condition.flag)

    def described(self, condition: Condition) -> str:
        """Return that a condition does not hold, with the numbers that it reads."""
        arguments = self.plan.call(condition.launch, self.at).bound.arguments
        values = {name: np.asarray(arrays.to_host(value)) for name, value in arguments.items()}
        read = (f"{n} = {v.item():.6g}" for n, v in values.items() if n != scalars.FLAG)
        return f"{condition.text!r} does not hold: {', '.join(read)}"

    def check_tables(self, count: int) -> None:
        """Raise ProgramError if a table of a scalar is too short for so many further steps."""
        for call in self.plan.calls():
            for name, source in call.varying.items():
                varying.check_length(name, source, self.steps + count)

"""Steps that several processes do together: bound launches, and what belongs between them."""

from __future__ import annotations

from tikgen.program.plan import Arrangement, Plan
from tikgen.program.scalars import Flag
from tikgen.program.stepping import PythonStepper
from tikgen.program.team import CONDITION, Team


class TeamStepper(PythonStepper):
    """Does steps that several processes do together.

    Args:
        plan: what a step does.
        team: the processes.
    """

    def __init__(self, plan: Plan, team: Team) -> None:
        super().__init__(plan)
        self._team = team

    def run(self, at: Arrangement, step: int, count: int) -> None:
        """Do some steps; an error ends all processes, as the others wait for this one."""
        with self._team.ending_together():
            super().run(at, step, count)

    def value_of(self, flag: Flag) -> bool:
        """Return whether a condition held, on all processes alike."""
        return self._team.agreed(CONDITION, flag.holds)

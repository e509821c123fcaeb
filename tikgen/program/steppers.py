"""Which stepper does the steps of a program here."""

from __future__ import annotations

from tikgen.errors import EngineUnavailable, ProgramError
from tikgen.program.graphs import GraphStepper
from tikgen.program.native import NativeStepper
from tikgen.program.plan import Plan
from tikgen.program.stepping import PythonStepper, Stepper
from tikgen.program.team_stepping import TeamStepper
from tikgen.taichi import runtime


def stepper_of(plan: Plan, native: bool | None, blocking: bool | None) -> tuple[Stepper, str]:
    """Return what does the steps of a plan, and why it is Python, if it is.

    Args:
        plan: what a step does.
        native: as a :class:`tikgen.Program` takes it.
        blocking: its ``temporal_blocking``.

    Raises:
        ProgramError: if ``native`` is True, and it is not possible.
    """
    team, why = plan.team, "native=False"
    if native is not False:
        try:
            if runtime.current_arch() == "cuda":
                return GraphStepper(plan, team=team), ""
            return NativeStepper(plan, team, blocking), ""
        except EngineUnavailable as error:
            if native:
                raise ProgramError(f"native=True: {error}") from None
            why = str(error)
    return PythonStepper(plan) if team is None else TeamStepper(plan, team), why

"""Which stepper does the steps of a program here."""

from __future__ import annotations

from typing import Any

import numpy as np

from tikgen.errors import EngineUnavailable, ProgramError
from tikgen.program.graphs import GraphStepper
from tikgen.program.native import NativeStepper
from tikgen.program.plan import Plan
from tikgen.program.slots import is_array
from tikgen.program.stepping import PythonStepper, Stepper
from tikgen.program.team import Held
from tikgen.program.team_stepping import TeamStepper
from tikgen.taichi import runtime


def choice(option: str, given: Any) -> bool | None:
    """Return what an option of a program is given: a choice, or None.

    Raises:
        ProgramError: if it is something else, such as an array that is to have the option's name.
    """
    if given is None or isinstance(given, bool | np.bool_):
        return None if given is None else bool(given)
    if isinstance(given, Held) or is_array(given):
        raise ProgramError(
            f"{option} is an option of Program and takes None, True or False; got an array, which "
            f"takes another name, such as {option}_1"
        )
    raise ProgramError(f"{option} takes None, True or False; got {given!r:.60}")


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

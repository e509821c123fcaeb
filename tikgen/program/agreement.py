"""What processes that share a grid have in common: a program, and each call that all of them make.

Each of them would wait forever for messages that another one does not send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tikgen.program import picture
from tikgen.program.parts import Composite, Part
from tikgen.program.slots import Slots
from tikgen.program.team import Team


def check_program(team: Team, listed: tuple[Part, ...], slots: Slots) -> None:
    """Raise ProgramError on all processes unless they make the same program.

    Kernels of arrays that each process has for itself may differ.
    """
    numbers = (f"{name} = {value}" for name, value in slots.constants.items())
    text = "\n".join([*picture.lines(listed, slots, shared=True), *numbers])
    team.compare("make different programs", text)


def check_call(
    team: Team,
    call: str,
    problem: str,
    slots: Slots,
    composites: Sequence[Composite] = (),
    step: int = 0,
) -> None:
    """Raise ProgramError on all processes unless they make the same call, and none has a problem.

    Args:
        team: the processes.
        call: the method with its arguments.
        problem: why this process cannot do it, or nothing.
        slots: the arrays, whose names have to be the same.
        composites: parts whose functions have to give scalars the same values in a step.
        step: the step.
    """
    told = [f"program.{call}", f"the names {', '.join(slots.names)}", *_values(composites, step)]
    what = "call a program differently"
    team.compare(what, "\n".join(told), problem, awaited=f"program.{call}")


def _values(composites: Sequence[Composite], step: int) -> Iterator[str]:
    for part in composites:
        for name, source in part.changing.items():
            if callable(source):
                try:
                    value = str(source(step))
                except Exception as error:  # It shows in the step, which ends all processes.
                    value = repr(error)
                yield f"{name} = {value} in step {step}"

"""What processes that share a grid have in common: a program, and each call that all of them make.

Each of them would wait forever for messages that another one does not send.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tikgen.program import picture
from tikgen.program.parts import Composite, Copy, Loop, Part, Swap, When
from tikgen.program.slots import Slots
from tikgen.program.team import Held, Team

# Raises an error if something does not fit.
Check = Callable[[], object]
_PROGRAMS = "make different programs"


@contextlib.contextmanager
def refusing(given: Any) -> Iterator[None]:
    """Have an error, before processes compare their programs, be one of all of them.

    Args:
        given: parts, arrays and further values, some of which processes share.
    """
    try:
        yield
    except Exception as error:
        if (team := _team_of(given)) is not None and team.size > 1:
            team.compare(_PROGRAMS, "", str(error) or type(error).__name__)
        raise


def _team_of(given: Any) -> Team | None:
    """Return the processes that share a part or an array, or one within it."""
    inner: Iterable[Any] = ()
    match given:
        case Composite() | Held():
            return given.team
        case Swap():
            inner = itertools.chain(*given.pairs)
        case Copy():
            inner = given.source, given.target
        case Loop():
            inner = given.parts
        case When():
            inner = *given.parts, *given.otherwise
        case tuple():
            inner = given
    return next(filter(None, map(_team_of, inner)), None)


def check_program(team: Team, listed: tuple[Part, ...], slots: Slots) -> None:
    """Raise ProgramError on all processes unless they make the same program.

    Kernels of arrays that each process has for itself may differ.
    """
    numbers = (f"{name} = {value}" for name, value in slots.constants.items())
    text = "\n".join([*picture.lines(listed, slots, shared=True), *numbers])
    team.compare(_PROGRAMS, text)


def check_call(
    team: Team,
    call: str,
    checks: Iterable[Check],
    slots: Slots,
    composites: Sequence[Composite] = (),
    step: int = 0,
) -> None:
    """Raise ProgramError on all processes unless they make the same call, and none has a problem.

    Args:
        team: the processes.
        call: the method with its arguments.
        checks: raise an error if this process cannot do it.
        slots: the arrays, whose names have to be the same.
        composites: parts whose functions have to give scalars the same values in a step.
        step: the step.
    """
    problem = problem_of(*checks)
    told = [f"program.{call}", f"the names {', '.join(slots.names)}", *_values(composites, step)]
    what = "call a program differently"
    team.compare(what, "\n".join(told), problem, awaited=f"program.{call}")


def problem_of(*checks: Check) -> str:
    """Return what the first error of some checks says, or nothing."""
    try:
        for check in checks:
            check()
    except Exception as error:  # Any would keep the others waiting.
        return str(error) or type(error).__name__
    return ""


def _values(composites: Sequence[Composite], step: int) -> Iterator[str]:
    for part in composites:
        for name, source in part.changing.items():
            if callable(source):
                try:
                    value = str(source(step))
                except Exception as error:  # It shows in the step, which ends all processes.
                    value = repr(error)
                yield f"{name} = {value} in step {step}"

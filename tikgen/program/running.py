"""Runs the steps of a program: calls, conditions and progress in between."""

from __future__ import annotations

import contextlib
import math
import numbers
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tikgen.callables import function_name, takes_arguments
from tikgen.errors import ProgramError
from tikgen.program import costs
from tikgen.program.checkpoints import PathLike, check_new, name_of
from tikgen.program.ending import Ending
from tikgen.program.interrupts import Interrupts
from tikgen.program.walk import Walk
from tikgen.progress import rates


@dataclass(frozen=True)
class Run:
    """What a run did.

    Attributes:
        steps: how many steps.
        seconds: how long they took, calls included.
        reached: whether the condition of ``until`` held at the end; None without one.
    """

    steps: int
    seconds: float
    reached: bool | None


@dataclass(frozen=True)
class Wanted:
    """The arguments of :meth:`Program.run`."""

    steps: int | None
    every: int | None = None
    call: Callable[[Any], Any] | None = None
    until: str | None = None
    check_every: int = 1
    most: int | None = None
    progress: bool = False
    watch: str | None = None
    checkpoint: PathLike | None = None
    minutes: float | None = None

    def check(self, walk: Walk) -> None:
        """Raise ProgramError if they do not fit together, or the program.

        Args:
            walk: the steps of the program.
        """
        team = walk.plan.team
        self._check_together(calls_elsewhere=team is not None and team.rank > 0)
        for condition in (self.until, self.watch):
            if condition is not None:
                walk.plan.prepared(condition)
        walk.check_tables(self.total)

    def _check_together(self, calls_elsewhere: bool) -> None:
        """Raise ProgramError if they do not fit together.

        Args:
            calls_elsewhere: whether another process may have the function to call.
        """
        for name, least in (("steps", 0), ("most", 0), ("every", 1), ("check_every", 1)):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, numbers.Integral):
                raise ProgramError(f"{name} takes a whole number; got {value!r}")
            if value < least:
                raise ProgramError(f"{name} takes a number of {least} or more; got {value}")
        if (self.steps is None) == (self.until is None):
            raise ProgramError("run takes either steps, or until with most")
        if self.until is not None and self.most is None:
            raise ProgramError("until needs most=: how many steps at most")
        if self.until is None and self.most is not None:
            raise ProgramError("most belongs to until")
        if self.until is None and self.watch is None and self.check_every != 1:
            raise ProgramError("check_every belongs to until and watch")
        has_one = (self.every is None) != (self.call is None)
        if has_one and not (calls_elsewhere and self.call is None):
            raise ProgramError("every and call belong together: every=100, call=function")
        if self.call is not None and not callable(self.call):
            raise ProgramError(f"call takes a function; got {type(self.call).__name__}")
        if self.call is not None and not takes_arguments(self.call, 1):
            raise ProgramError(
                "call takes a function of the program, such as lambda program: "
                f"print(program.steps); {function_name(self.call)}() does not take one argument"
            )
        if not isinstance(self.progress, bool | np.bool_):
            raise ProgramError(f"progress takes True or False; got {self.progress!r}")
        if self.checkpoint is not None:
            check_new(self.checkpoint, "checkpoint")
        if self.minutes is not None:
            if self.checkpoint is None:
                raise ProgramError("minutes belongs to checkpoint: checkpoint='run.npz'")
            if not _is_time(self.minutes):
                raise ProgramError(f"minutes takes a number greater than 0; got {self.minutes!r}")

    @property
    def described(self) -> str:
        """Return the call with the arguments that all processes have in common."""
        names = ("steps", "every", "until", "check_every", "most", "watch", "checkpoint", "minutes")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.checkpoint is not None:
            given["checkpoint"] = name_of(self.checkpoint)
        return f"run({', '.join(f'{name}={told(value)}' for name, value in given.items())})"

    @property
    def total(self) -> int:
        """Return how many steps at most."""
        return int(self.steps if self.steps is not None else self.most)  # type: ignore[arg-type]


def told(value: Any) -> str:
    """Return an argument as processes compare it: a text is no number, numbers have no type."""
    return repr(value) if isinstance(value, str) else str(value)


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0


def run(
    walk: Walk,
    wanted: Wanted,
    call: Callable[[], object],
    save: Callable[[PathLike], None],
    interrupts: Interrupts,
) -> Run:
    """Run steps; see :meth:`Program.run`."""
    until = walk.plan.prepared(wanted.until) if wanted.until is not None else None
    watched = walk.plan.prepared(wanted.watch) if wanted.watch is not None else None
    reached = None if until is None else False
    first, last = walk.steps, walk.steps + wanted.total
    began = time.perf_counter()
    ending = Ending(walk, walk.plan.team, wanted.checkpoint, wanted.minutes, save, interrupts)
    with _shown(walk, wanted) as show, ending:
        walk.begin()
        while walk.steps < last and not ending.is_over:
            most = min(last, walk.steps + walk.next)
            for each in (wanted.every, wanted.check_every if until or watched else None):
                if each:
                    most = min(most, walk.steps // each * each + each)
            before, start = walk.steps, time.perf_counter()
            interrupts.advance(most - before)
            ending.did(most - before, time.perf_counter() - start)
            show(walk.steps - first)
            ended = walk.steps == last or ending.is_over
            is_checked = walk.steps % wanted.check_every == 0 or ended
            if watched and is_checked and not walk.holds(watched):
                raise ProgramError(f"after step {walk.steps} {walk.described(watched)}")
            if wanted.every and walk.steps % wanted.every == 0:
                call()
                ending.agree()
            ended = ended or ending.is_over
            if until and (is_checked or ended):
                reached = walk.holds(until)
                if reached:
                    break
            ending.keep()
        if until and walk.steps == first:  # No step, after which it would have been checked.
            reached = walk.holds(until)
        ending.agree()
        ending.keep()
    return Run(walk.steps - first, time.perf_counter() - began, reached)


@contextlib.contextmanager
def _shown(walk: Walk, wanted: Wanted) -> Iterator[Callable[[int], None]]:
    """Show a bar if it is wanted; give the function that takes how many steps were done."""
    team = walk.plan.team
    if not wanted.progress or (team is not None and team.rank > 0):
        yield lambda done: None
        return
    with rates(wanted.total, costs.bytes_a_step(walk.plan)) as show:
        yield show

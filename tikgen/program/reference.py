"""What a program must compute, in NumPy: all its steps, and each launch beside the kernel's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.errors import TemplateError, VerificationError
from tikgen.pipeline.comparison import errors, fractions, narrowed
from tikgen.pipeline.expected import expected
from tikgen.program import varying
from tikgen.program.copies import copied
from tikgen.program.plan import Arrangement, Call, Plan, Task
from tikgen.program.scalars import Flag
from tikgen.program.slots import Slots, is_array
from tikgen.program.stepping import PythonStepper, Stepper
from tikgen.program.team import Job
from tikgen.program.walk import Walk
from tikgen.taichi import arrays
from tikgen.template.arguments import Array

NDArray = npt.NDArray[Any]


@dataclass(frozen=True)
class Verified:
    """A comparison of every launch of some steps with its reference.

    Attributes:
        launches: how many launches were compared.
        worst: largest error as a fraction of the tolerance.
        unchecked: kernels without a reference, which were not compared.
        message: what is wrong first, or an empty string.
    """

    launches: int
    worst: float
    unchecked: tuple[str, ...]
    message: str

    @property
    def ok(self) -> bool:
        """Return whether launches were compared, and all are right."""
        return not self.message and self.launches > 0

    def raise_for_failure(self) -> None:
        """Raise :class:`VerificationError` unless it is ok."""
        if not self.ok:
            raise VerificationError("program", self.message or "no kernel has a reference")


class ReferenceStepper(PythonStepper):
    """Does steps on copies of the arrays, with the kernels' references.

    Args:
        plan: what a step does.
        slots: the arrays.
    """

    def __init__(self, plan: Plan, slots: Slots) -> None:
        super().__init__(plan)
        self._slots = slots
        self.values = copied(slots.arrays)
        self._tasks: dict[tuple[Task, tuple[int, ...]], Job] = {}

    def launch(self, call: Call, step: int) -> None:
        """Compute what the launch writes."""
        given = {
            name: self.values[self._slots.number_of(value, name)] if is_array(value) else value
            for name, value in _arguments(call, step).items()
        }
        written = []
        for name, value in _expected(call, given).items():
            number = self._slots.number_of(call.bound.arguments[name], name)
            with np.errstate(all="ignore"):
                written.append((number, narrowed(value, self.values[number].dtype)))
        for number, value in written:  # In place: messages of other processes come into arrays.
            self.values[number][...] = value

    def do(self, task: Task, at: Arrangement) -> None:
        """Do what Python does between launches, with the copies."""
        numbers = tuple(at[n] if n < len(at) else n for n in task.slots)
        if (task, numbers) not in self._tasks:
            values = [self.values[number] for number in numbers]
            self._tasks[task, numbers] = task.work.made_for(values)
        self._tasks[task, numbers].run()

    def value_of(self, flag: Flag) -> bool:
        """Return whether a condition held when it was last computed."""
        return bool(self.values[self._slots.number_of(flag.array, "a condition")][0])


class CheckingStepper(PythonStepper):
    """Launches as another stepper does, and compares each launch with its reference.

    Args:
        plan: what a step does.
        stepper: what launches.
    """

    def __init__(self, plan: Plan, stepper: Stepper) -> None:
        super().__init__(plan)
        self._launcher = stepper
        self.launches = 0
        self.worst = 0.0
        self.unchecked: dict[str, None] = {}
        self.message = ""

    def launch(self, call: Call, step: int) -> None:
        """Launch, and compare what was written."""
        given = {
            name: np.array(arrays.to_host(value)) if is_array(value) else value
            for name, value in _arguments(call, step).items()
        }
        try:
            found = _expected(call, given)
        except TemplateError:
            self.unchecked[call.kernel.name] = None
            self._launcher.launch(call, step)
            return
        with np.errstate(all="ignore"):
            wanted = dict(found)
            variant = call.loaded.source.variant
            allowed = variant.template.tolerance(variant.problem, given, wanted)
        self._launcher.launch(call, step)
        self.launches += 1
        for name, value in found.items():
            actual = np.array(arrays.to_host(call.bound.arguments[name]))
            self._compare(f"step {step}: {call.kernel.name}, {name}", actual, value, allowed, name)

    def _compare(
        self, what: str, actual: NDArray, wanted: NDArray, allowed: Mapping[str, Any], name: str
    ) -> None:
        error, limit = errors(actual, wanted, allowed.get(name, 0))
        found = fractions(error, limit)
        worst = float(found.max(initial=0))
        self.worst = max(self.worst, worst)
        if worst > 1 and not self.message:
            place = np.unravel_index(int(np.argmax(found)), found.shape)
            where = ", ".join(map(str, place))
            self.message = (
                f"{what}[{where}] is {actual[place]!s}, expected {wanted[place]!s}, off by "
                f"{float(error[place]):.3g} where {float(limit[place]):.3g} is allowed"
            )


def _arguments(call: Call, step: int) -> dict[str, Any]:
    """Return the arguments of a launch by name, with the scalars of the step."""
    now = {
        name: varying.values(call.bound, name, source, step, 1)[0].item()
        for name, source in call.varying.items()
    }
    return {**call.bound.arguments, **now}


def _expected(call: Call, given: Mapping[str, Any]) -> dict[str, NDArray]:
    """Return the values of each array that a launch writes; raises TemplateError."""
    loaded = call.loaded
    with np.errstate(all="ignore"):
        found = expected(loaded, (), given)
    results = found if isinstance(found, tuple) else (found,)
    written = [a.name for a in loaded.signature.arguments if isinstance(a, Array) and a.written]
    return dict(zip(written, map(np.asarray, results), strict=True))


def reference(walk: Walk, slots: Slots, steps: int) -> dict[str, NDArray]:
    """Return the values of every name after further steps, computed by NumPy."""
    stepper = ReferenceStepper(walk.plan, slots)
    ahead = Walk(walk.plan, stepper)
    ahead.steps, ahead.at = walk.steps, walk.at
    ahead.advance(steps)
    found = {}
    for name, number in slots.names.items():
        values, held = stepper.values[ahead.standing(number)], slots.held.get(number)
        found[name] = values if held is None else held.whole(values)
    return found


def verify(walk: Walk, slots: Slots, steps: int) -> Verified:
    """Compare each launch of further steps with its reference; then put all arrays back."""
    before = [np.array(arrays.to_host(array)) for array in slots.arrays]
    checking = CheckingStepper(walk.plan, walk.stepper)
    ahead = Walk(walk.plan, checking)
    ahead.steps, ahead.at = walk.steps, walk.at
    try:
        ahead.advance(steps)
    finally:
        for array, values in zip(slots.arrays, before, strict=True):
            if not arrays.is_read_only(array):
                arrays.write(array, values)
    worst, message = checking.worst, checking.message
    if walk.plan.team is not None:
        every = walk.plan.team.all((worst, message))
        worst = max(worst for worst, _ in every)
        wrong = [f"rank {rank}: {told}" for rank, (_, told) in enumerate(every) if told]
        message = wrong[0] if wrong else ""
    return Verified(checking.launches, worst, tuple(checking.unchecked), message)

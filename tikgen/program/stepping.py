"""Steps of a program as bound launches from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tikgen.program import varying
from tikgen.program.plan import (
    Arrangement,
    Call,
    Choice,
    Condition,
    Exchange,
    Launch,
    Node,
    Plan,
    Task,
)
from tikgen.program.scalars import Flag
from tikgen.taichi import runtime


class Stepper(Protocol):
    """Does the steps of a program."""

    stopped: bool
    # How many steps the last run did, and the arrangement after them.
    done: int
    at: Arrangement

    @property
    def how(self) -> str:
        """Return what launches the kernels, in words."""

    @property
    def together(self) -> int:
        """Return how many steps are best done together."""

    @property
    def why_not_blocked(self) -> str:
        """Return why several steps cannot go over a slab that fits the cache, or nothing."""

    @property
    def is_current(self) -> bool:
        """Return whether every kernel still has the code that is launched."""

    def launch(self, call: Call, step: int) -> None:
        """Launch one call as in a step."""

    def value_of(self, flag: Flag) -> bool:
        """Return whether a condition held when it was last computed."""

    def run(self, at: Arrangement, step: int, count: int) -> None:
        """Do some steps, fewer if it is told to stop.

        Args:
            at: the arrangement before the first step.
            step: number of the first step.
            count: how many steps.
        """

    def finish(self) -> None:
        """Do what is left after a run."""


class PythonStepper:
    """Does steps of a program with bound launches from Python.

    Args:
        plan: what a step does.
    """

    how = "launches from Python"
    together = 1
    why_not_blocked = "Python launches its kernels"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.stopped = False
        self.done = 0
        self.at = plan.first

    @property
    def is_current(self) -> bool:
        """Return True: bound kernels take new code by themselves."""
        return True

    def launch(self, call: Call, step: int) -> None:
        """Launch one call as in a step."""
        if not call.varying:
            call.bound()
            return
        now = {
            name: varying.values(call.bound, name, source, step, 1)[0].item()
            for name, source in call.varying.items()
        }
        call.bound(**now)

    def run(self, at: Arrangement, step: int, count: int) -> None:
        """Do some steps, fewer if it is told to stop."""
        self.done, self.at = 0, at
        while self.done < count and not self.stopped:
            self.at = self._do(self._plan.nodes, self.at, step + self.done)
            self.done += 1
        runtime.sync()  # So that Ctrl-C and progress know what is done.

    def finish(self) -> None:
        """Do nothing: each launch counts itself."""

    def do(self, task: Task, at: Arrangement) -> None:
        """Do what is done between launches."""
        self._plan.task(task, at).run()

    def _do(self, nodes: Sequence[Node], at: Arrangement, step: int) -> Arrangement:
        """Do what nodes say; return the arrangement after them."""
        for node in nodes:
            if isinstance(node, Launch):
                self.launch(self._plan.call(node, at), step)
            elif isinstance(node, Exchange):
                at = node.of(at)
            elif isinstance(node, Task):
                self.do(node, at)
            elif isinstance(node, Choice):
                holds = self._holds(node.condition, at, step)
                at = self._do(node.nodes if holds else node.otherwise, at, step)
            else:
                for _ in range(node.times):
                    at = self._do(node.nodes, at, step)
                    if node.until is not None and self._holds(node.until, at, step):
                        break
        return at

    def _holds(self, condition: Condition, at: Arrangement, step: int) -> bool:
        self.launch(self._plan.call(condition.launch, at), step)
        return self.value_of(condition.flag)

    def value_of(self, flag: Flag) -> bool:
        """Return whether a condition held when it was last computed."""
        return flag.holds

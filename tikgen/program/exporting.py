"""The steps of a program as a graph of a bundle, which runs without Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tikgen import registry
from tikgen.errors import ExportError, ProgramError
from tikgen.pipeline.kernel import Kernel
from tikgen.program.plan import Arrangement, Call, Condition, Plan, Task
from tikgen.program.slots import Slots, is_array
from tikgen.program.stepping import PythonStepper
from tikgen.template.arguments import Array

GRAPH = "program"
_MOST_LAUNCHES = 1000


class _Recorder(PythonStepper):
    """Records launches, and launches nothing.

    Args:
        plan: what a step does.
        slots: the arrays.
    """

    def __init__(self, plan: Plan, slots: Slots) -> None:
        super().__init__(plan)
        self._slots = slots
        self.kernels: dict[str, Kernel] = {}
        self.launches: list[tuple[Any, ...]] = []

    def launch(self, call: Call, step: int) -> None:
        """Record a launch as a bundle takes it."""
        kernel = call.kernel
        if call.varying:
            raise ProgramError(
                f"a graph cannot hold {kernel.name}, whose scalars change with the step"
            )
        if call.loaded is not kernel.loaded:
            raise ProgramError(
                f"a graph cannot hold {kernel.name}, which was reloaded with other arguments; "
                "make the program again"
            )
        if kernel.variant.views:
            raise ProgramError(
                f"a graph cannot hold {kernel.name}, which takes views; use contiguous arrays"
            )
        if len(self.launches) == _MOST_LAUNCHES:
            raise ProgramError(f"a graph cannot hold more than {_MOST_LAUNCHES} launches")
        values = {
            name: self._name(value) if is_array(value) else value
            for name, value in call.bound.arguments.items()
        }
        self.kernels[kernel.name] = kernel
        self.launches.append((kernel.name, values))

    def _name(self, array: Any) -> str:
        name = self._slots.name_of(self._slots.number_of(array, "a graph"))
        if not name:
            raise ProgramError(
                "a graph cannot hold a reshaped array that changes places; copy instead of swapping"
            )
        return name

    def do(self, task: Task, at: Arrangement) -> None:
        """Refuse what Python does between launches."""
        raise ProgramError("a graph cannot hold what several processes do together")

    def _holds(self, condition: Condition, at: Arrangement, step: int) -> bool:
        raise ProgramError(f"a graph cannot hold the condition {condition.text!r}")


def _check_apart(plan: Plan, slots: Slots) -> None:
    """Raise ProgramError if kernels write to an array that shares memory with another one."""
    written = {
        slots.number_of(call.bound.arguments[argument.name], "a graph")
        for call in plan.calls()
        for argument in call.kernel.signature.arguments
        if isinstance(argument, Array) and argument.written
    }
    for number in sorted(written):
        for other in range(len(slots.arrays)):
            if slots.share(number, other):
                raise ProgramError(
                    f"a graph cannot hold {slots.shown(number)}, to which kernels write, and "
                    f"{slots.shown(other)}, which shares memory with it; bind one of "
                    "them everywhere, or export the kernels with tikgen.aot.export and launch them"
                )


def graph_of(plan: Plan, slots: Slots) -> tuple[dict[str, Kernel], list[tuple[Any, ...]], int]:
    """Return the kernels by name, launches until all arrays stand as at first, and their steps.

    Raises:
        ProgramError: if a graph cannot hold what the program does.
    """
    _check_apart(plan, slots)
    recorder = _Recorder(plan, slots)
    recorder.run(plan.first, 0, 1)
    steps = 1
    while recorder.at != plan.first:
        recorder.run(recorder.at, 0, 1)
        steps += 1
    return recorder.kernels, recorder.launches, steps


def exported(
    plan: Plan,
    slots: Slots,
    path: str | os.PathLike[str],
    archs: Sequence[str] | None,
    options: Mapping[str, Any],
) -> Any:
    """Return the bundle with the graph of a program.

    Raises:
        ProgramError: if a graph cannot hold what the program does.
        ExportError: if the bundle cannot be made, or has no such graph on any arch.
    """
    if options.get("native"):
        raise ExportError(
            "the program",
            "a native bundle has no graphs; leave native out, or export the kernels with "
            "tikgen.aot.export(..., native=True) and call them in turn",
        )
    kernels, launches, steps = graph_of(plan, slots)
    graphs = {GRAPH: {"steps": launches, "program_steps": steps}}
    bundle = registry.call("export", kernels, path, archs, graphs=graphs, **options)
    if GRAPH not in bundle.graphs:
        causes = sorted(bundle.failures, key=lambda failure: failure.name == GRAPH)
        raise ExportError("the program", "; ".join(map(str, causes)).rstrip("."))
    return bundle

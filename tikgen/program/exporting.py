"""The steps of a program as a graph of a bundle, which runs without Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tikgen.errors import ProgramError
from tikgen.pipeline.kernel import Kernel
from tikgen.program.plan import Call, Choice, Item, Plan
from tikgen.program.slots import Slots, is_array

_MOST_LAUNCHES = 1000


def graph_of(plan: Plan, slots: Slots) -> tuple[dict[str, Kernel], list[tuple[Any, ...]]]:
    """Return the kernels by name, and the launches of all phases, as a bundle takes them.

    Raises:
        ProgramError: if a graph cannot hold what the program does.
    """
    kernels: dict[str, Kernel] = {}
    launches: list[tuple[Any, ...]] = []
    for call in _calls([item for items in plan.phases for item in items]):
        if call.varying:
            raise ProgramError(
                f"a graph cannot hold {call.kernel.name}, whose scalars change with the step"
            )
        if len(launches) == _MOST_LAUNCHES:
            raise ProgramError(f"a graph cannot hold more than {_MOST_LAUNCHES} launches")
        values = {
            name: _name(value, slots) if is_array(value) else value
            for name, value in call.bound.arguments.items()
        }
        kernels[call.kernel.name] = call.kernel
        launches.append((call.kernel.name, values))
    return kernels, launches


def _calls(items: Sequence[Item]) -> list[Call]:
    """Return all launches in order, those of loops as often as they run."""
    found: list[Call] = []
    for item in items:
        if isinstance(item, Call):
            found.append(item)
        elif isinstance(item, Choice) or item.until is not None:
            text = item.test.text if isinstance(item, Choice) else item.until.text  # type: ignore[union-attr]
            raise ProgramError(f"a graph cannot hold the condition {text!r}")
        else:
            inner = _calls(item.items)
            if item.times * len(inner) > _MOST_LAUNCHES:
                raise ProgramError(f"a graph cannot hold more than {_MOST_LAUNCHES} launches")
            found += item.times * inner
    return found


def _name(array: Any, slots: Slots) -> str:
    name = slots.name_of(slots.number_of(array, "a graph"))
    if not name:
        raise ProgramError(
            "a graph cannot hold a reshaped array that changes places; copy instead of swapping"
        )
    return name

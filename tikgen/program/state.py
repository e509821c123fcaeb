"""The state of a program: copies of all values, and the number of steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.errors import ProgramError, near
from tikgen.program.problems import agreed
from tikgen.program.slots import Slots, dtype_of
from tikgen.program.team import Team
from tikgen.program.walk import Walk
from tikgen.taichi import arrays

NDArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class State:
    """The values of a program's arrays after a step.

    Attributes:
        steps: how many steps the program had run.
        arrays: copies of the values by name.
    """

    steps: int
    arrays: Mapping[str, NDArray]


def state_of(walk: Walk, slots: Slots) -> State:
    """Return copies of the values of every name."""
    found = view_of(walk, slots)
    return State(found.steps, {name: np.array(values) for name, values in found.arrays.items()})


def view_of(walk: Walk, slots: Slots) -> State:
    """Return the values of every name until the next step: the arrays, of a device copies."""
    found = {}
    for name, number in slots.names.items():
        found[name] = np.asarray(arrays.to_host(slots.arrays[walk.standing(number)]))
    return State(walk.steps, found)


def restore(walk: Walk, slots: Slots, state: State, team: Team | None = None) -> None:
    """Write the values of every name into the array of that name, and go on from there.

    Args:
        walk: the steps.
        slots: the arrays.
        state: the values.
        team: the processes, each of which has its own values; None for this one alone.

    Raises:
        ProgramError: if the state of a process has other arrays than the program, on all processes.
    """
    with agreed(team) as problems, problems.kept():
        if not isinstance(state, State):
            raise ProgramError(f"restore takes what state() returned; got {type(state).__name__}")
        check_names(slots, state.arrays)
        for name, number in slots.names.items():
            check_array(name, slots.arrays[number], state.arrays[name])
    for name, number in slots.names.items():
        array, values = slots.arrays[number], state.arrays[name]
        if not arrays.is_read_only(array):
            arrays.write(array, values)
    walk.steps, walk.at = state.steps, walk.plan.first


def settle(walk: Walk, slots: Slots) -> None:
    """Move the values of every name into the array of that name."""
    moved = [n for n in slots.names.values() if walk.standing(n) != n]
    values = {n: np.array(arrays.to_host(slots.arrays[walk.standing(n)])) for n in moved}
    for number, value in values.items():
        arrays.write(slots.arrays[number], value)
    walk.at = walk.plan.first


def check_names(slots: Slots, names: Iterable[str]) -> None:
    """Raise ProgramError unless these are the names of a program's arrays."""
    names = list(names)
    missing = [name for name in slots.names if name not in names]
    further = [name for name in names if name not in slots.names]
    if missing or further:
        parts = [f"has no {', '.join(missing)}"] if missing else []
        hint = near(further[0], slots.names) if further else ""
        parts += [f"has {', '.join(further)}, which the program has not.{hint}"] if further else []
        raise ProgramError(f"the state {' and '.join(parts)}")


def check_array(name: str, array: Any, values: Any) -> None:
    """Raise ProgramError unless values fit an array of a program."""
    if not isinstance(values, np.ndarray):
        raise _unfit(name, array.shape, array, "no array")
    check_kind(name, array, tuple(array.shape), values.dtype, values.shape)
    if arrays.is_read_only(array) and not np.array_equal(array, values, equal_nan=True):
        raise ProgramError(f"array {name!r} is read-only and differs from that of the state")


def check_kind(
    name: str, array: Any, shape: tuple[int, ...], dtype: Any, extents: tuple[int, ...]
) -> None:
    """Raise ProgramError unless a dtype and extents are those of an array of some shape."""
    if (dtype, extents) != (dtype_of(array).numpy, shape):
        raise _unfit(name, shape, array, f"{dtype} of shape {extents}")


def _unfit(name: str, shape: tuple[int, ...], array: Any, got: str) -> ProgramError:
    wanted = f"{np.dtype(dtype_of(array).numpy)} of shape {tuple(shape)}"
    return ProgramError(f"the state's {name!r} takes {wanted}; it is {got}")

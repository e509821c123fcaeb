"""The values of scalars that change with the step."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.errors import ProgramError
from tikgen.pipeline.bound import BoundKernel
from tikgen.program.parts import Changing
from tikgen.template.arguments import Scalar


def values(
    bound: BoundKernel, name: str, source: Changing, first: int, count: int
) -> npt.NDArray[Any]:
    """Return the values of a scalar for ``count`` steps from the step ``first``.

    Raises:
        ProgramError: if a table ends before, or a value does not fit the scalar.
    """
    signature = bound.loaded.signature
    place = signature.names.index(name)
    argument = signature.arguments[place]
    assert isinstance(argument, Scalar)
    check_length(name, source, first + count)
    found = np.zeros(count, argument.dtype.numpy)
    for number, step in enumerate(range(first, first + count)):
        value = source(step) if callable(source) else source[step]
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if problem := signature.scalar_problem(place, value):
            raise ProgramError(f"{bound.kernel.name}, step {step}: {problem}")
        with np.errstate(over="ignore"):
            found[number] = value
    return found


def check_length(name: str, source: Changing, steps: int) -> None:
    """Raise ProgramError if a table has fewer values than there are steps."""
    if not callable(source) and len(source) < steps:
        raise ProgramError(
            f"the table of {name!r} has values for {len(source)} steps; {steps} are needed"
        )

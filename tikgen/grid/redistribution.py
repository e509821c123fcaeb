"""Fields that move to a grid of the same points, which is divided in another way."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from tikgen.grid.domain import Domain
from tikgen.grid.field import Field
from tikgen.grid.moves import moved

NDArray = npt.NDArray[Any]


def redistributed(field: Field, domain: Domain) -> Field:
    """Return a field of another grid with the values of a field; all processes must call it.

    Args:
        field: the field.
        domain: the other grid, of the same points and processes.
    """
    processes = field.domain.processes

    def fill(owned: NDArray) -> None:
        owned[...] = found

    made = field.on(domain, fill)
    before, after = ([each.part(r) for r in range(processes.size)] for each in (field, made))
    found = moved(field.to_numpy(), before, after, processes)
    return made

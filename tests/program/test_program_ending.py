"""How often the processes of a run agree whether it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tikgen.program.ending import Ending


def steps_after(took: float, agreeing: float) -> int:
    """Return how many steps come next after 100 that took some seconds on the slowest process."""

    def greatest(values: Sequence[float]) -> list[float]:
        return [*values[:-2], took, agreeing]

    team: Any = SimpleNamespace(rank=0, greatest=greatest)
    walk: Any = SimpleNamespace(ahead=100, is_stopped=False, steps=100)
    interrupts: Any = SimpleNamespace(ask=lambda: False)
    ending = Ending(walk, team, None, None, lambda path: None, interrupts)
    ending.did(100, took / 3)  # This process is faster than the slowest one.
    return int(walk.ahead)


@pytest.mark.parametrize(
    ("took", "agreeing", "steps"),
    [
        (1.0, 0.0, 5),
        (1.0, 0.0001, 5),
        (1.0, 0.0005, 25),  # Once in 0.25 s.
        (1.0, 0.1, 50),  # Twice a second, however long it takes.
        (0.2, 0.1, 200),
    ],
)
def test_processes_that_take_long_to_agree_do_so_less_often(
    took: float, agreeing: float, steps: int
) -> None:
    assert steps_after(took, agreeing) == steps

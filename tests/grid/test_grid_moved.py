"""Fields move between grids that are divided in different ways."""

from __future__ import annotations

import os

import pytest

import ranks


@pytest.mark.parametrize("count", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 6))])
def test_fields_move_between_grids(count: int) -> None:
    seed = int.from_bytes(os.urandom(3), "little")
    done = ranks.run(count, "moved.py", str(seed))
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-4000:]}"
    assert done.stdout.count(" moves") == count, done.stdout

"""What scaling needs is measured on several processes at once."""

from __future__ import annotations

import pytest

import ranks


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_several_processes_are_measured_together(count: int) -> None:
    done = ranks.run(count, "measured.py")
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"measured on {count} copy" in done.stdout

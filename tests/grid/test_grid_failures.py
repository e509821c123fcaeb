"""Where a process fails, all end with its error; what does not fit is refused on all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import ranks


@pytest.mark.some
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raises in a step", "ArithmeticError: no such number"),
        pytest.param(
            *("raises outside of a program", "ArithmeticError: no such number"),
            marks=pytest.mark.slow,  # The same hook hears of it.
        ),
        ("exits in a call", "SystemExit: rank 1 leaves"),
        pytest.param("is killed", "", marks=pytest.mark.slow),  # This is mpiexec's work.
    ],
)
def test_a_process_that_fails_ends_all(how: str, told: str) -> None:
    # The others would run for days: it returns because they were ended.
    done = ranks.run(2, "failing.py", how, anew=True)
    assert done.returncode != 0
    assert told in done.stdout + done.stderr


def test_what_does_not_fit_is_refused_on_all_processes(tmp_path: Path) -> None:
    done = ranks.run(3, "refused.py", str(tmp_path))
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("all is refused") == 3, done.stdout

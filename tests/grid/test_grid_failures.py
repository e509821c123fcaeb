"""Where a process fails, all end with its error; what does not fit is refused on all of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import ranks
from tikgen.grid.processes import Processes


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


def test_the_exit_status_of_a_process_in_a_run_is_that_of_all() -> None:
    assert ranks.run(2, "failing.py", "exits with a status").returncode == 4


@pytest.mark.parametrize(
    ("error", "status"),
    [(SystemExit(4), 4), (SystemExit("text"), 1), (SystemExit(0), 1), (ValueError(), 1)],
)
def test_an_error_ends_all_with_its_status(
    error: BaseException, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    ended: list[int] = []
    transport = SimpleNamespace(rank=1, size=2, end=ended.append)
    with Processes(cast("Any", transport)).ending_together():
        raise error
    assert ended == [status]
    assert type(error).__name__ in capfd.readouterr().err


def test_what_does_not_fit_is_refused_on_all_processes(tmp_path: Path) -> None:
    done = ranks.run(3, "refused.py", str(tmp_path))
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("all is refused") == 3, done.stdout

"""What a run shows: steps a second, the bytes that they move, and the time left."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import tikgen
from tikgen import progress
from tikgen.program import costs

pytestmark = pytest.mark.usefixtures("ti_arch")


def test_rates_in_words() -> None:
    assert progress.rate_of(1234.5, None) == "1,234 steps/s"
    assert progress.rate_of(2.345, 10**9) == "2.35 steps/s, 2.35 GB/s"


def test_a_step_moves_the_bytes_of_its_kernels() -> None:
    x, y = (np.zeros((8, 16), np.float32) for _ in range(2))
    n = np.zeros(1, np.float32)
    one = tikgen.elementwise("y = x", dim=2).bind(x=x, y=y)
    program = tikgen.Program([tikgen.loop(5, [one, tikgen.swap((x, y))]), "n = n + 1"], n=n)
    assert costs.bytes_a_step(program._plan) == 5 * 2 * 8 * 16 * 4 + 2 * 4
    unknown = tikgen.Program([tikgen.when("n > 1", [one])], n=n)
    assert costs.bytes_a_step(unknown._plan) is None


@pytest.mark.once
def test_a_run_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()

    def console(**_: Any) -> Console:
        return Console(file=shown, force_terminal=True, width=100, color_system=None)

    monkeypatch.setattr("rich.console.Console", console)
    n = np.zeros(1, np.float32)
    tikgen.Program(["n = n + 1"], n=n).run(300, progress=True)
    assert n.tolist() == [300.0]
    assert "300/300" in shown.getvalue()
    assert " steps/s, " in shown.getvalue()
    assert "GB/s" in shown.getvalue()


def test_nothing_is_shown_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    n = np.zeros(1, np.float32)
    program = tikgen.Program(["n = n + 1"], n=n)
    capfd.readouterr()
    program.run(3, progress=True)
    assert capfd.readouterr().err.strip() == ""

"""The portfolio of drawn works: peers compute what references say, and figures are summed up."""

from __future__ import annotations

import importlib.util
import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the package that draws works, with small arrays."""
    monkeypatch.syspath_prepend(str(FOLDER))
    from drawn import draw

    monkeypatch.setitem(draw.MOST, "cpu", 3_000.0)
    return draw


def test_what_numpy_computes_is_what_the_references_say(drawn: Any) -> None:
    from drawn import form_for

    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    templates = set()
    for work in itertools.islice(drawn.drawn_works(seed, "cpu"), 45):
        arguments = work.arguments()
        expected = work.expected(arguments)
        if work.template == "spmv" and importlib.util.find_spec("scipy") is None:
            templates.add(work.template)
            continue
        call = form_for("numpy", work, arguments)
        call()
        for name, values in expected.items():
            assert work.error(arguments[name], values) <= work.peers_rtol, work.name
        templates.add(work.template)
    assert templates == set(drawn.MAKERS)


def test_loops_for_numba_are_those_of_the_references(drawn: Any) -> None:
    from drawn import grids

    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    works = (w for w in drawn.drawn_works(seed, "cpu") if w.template in ("stencil", "update"))
    for work in itertools.islice(works, 8):
        arguments = work.arguments()
        expected = work.expected(arguments)
        space: dict[str, Any] = {"prange": range, "np": np, **grids.FUNCTIONS}
        exec(grids.numba_text(work, list(arguments)), space)
        space["step"](*arguments.values())
        for name, values in expected.items():
            assert work.error(arguments[name], values) <= work.peers_rtol, work.name


def test_one_seed_draws_one_portfolio(drawn: Any) -> None:
    def names(seed: int) -> list[str]:
        return [work.name for work in itertools.islice(drawn.drawn_works(seed, "cpu"), 30)]

    assert names(5) == names(5) != names(6)


def test_a_portfolio_is_summed_up(drawn: Any) -> None:
    from drawn.summary import Run, summary

    def row(template: str, work: str, *seconds: float, **absent: str) -> dict[str, Any]:
        found = dict(zip(("taichi", "direct-cpu", "numpy", "torch"), seconds, strict=False))
        return {"template": template, "work": work, "bytes": 8, "seconds": found, "absent": absent}

    rows = [
        row("map", "one", 1.0, 0.5, 2.0, 3.0),
        row("map", "other", 2.0, 4.0, 1.0, 9.0),
        row("scan", "wrong", torch="ValueError: WRONG: out is off"),
    ]
    text = "\n".join(summary([Run("cpu", 7, {}, rows)]))
    assert "3 works of the seed 7" in text
    # The best peer takes twice and half of the time; with the other engine 4 times and a quarter.
    assert "| map | 2 | 1.00 | 1 of 2 | 1.00 | 1 of 2 |" in text
    assert "| `other` | NumPy, SciPy | 0.50 |" in text
    assert "| `other` | NumPy, SciPy | 0.25 |" in text
    assert "- `wrong`: torch: ValueError: WRONG: out is off" in text

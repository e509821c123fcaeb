"""Searches of schedule spaces: strategies, budgets, bad input and results."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import tikgen
from tikgen import Template
from tikgen.errors import ParameterError, TemplateError, TikgenError, UnsupportedOnArch
from tikgen.pipeline import records
from tikgen.pipeline.records import Record
from tikgen.tuning.process import MeasuringProcess
from tikgen.tuning.search import STRATEGIES
from tikgen.tuning.space import Space
from tuning_samples import ARCH, SIZES, restricted, tuned
from tuning_samples import no_records as no_records
from tuning_samples import scaled as scaled
from tuning_samples import twice as twice
from tuning_templates import (
    TWICE_TEXT,
)


def test_a_shape_alike_with_another_default_is_told_its_own_gain(scaled: Template) -> None:
    tuned(scaled, arch="cpu", shape=(4096,))
    scaled.default_schedule = lambda p, arch, sizes: {"unroll": 2}  # type: ignore[method-assign]
    result = tuned(scaled, arch="cpu", shape=(4100,))
    assert result.default.schedule["unroll"] == 2
    assert result.best.seconds == 1.0
    assert result.speedup == pytest.approx(result.default.seconds)


def test_a_fresh_search_replaces_what_was_found(scaled: Template) -> None:
    old = tuned(scaled, arch="cpu").best
    lucky = dataclasses.replace(old, schedule={"unroll": 2, "block_dim": 32}, ratio=1e-6)
    elsewhere = dataclasses.replace(lucky, device="another")
    far = dataclasses.replace(lucky, sizes={"n": 3})
    records.keep_all([lucky, elsewhere, far])
    tuned(scaled, arch="cpu", fresh=True, budget=1e-6)
    assert len(records.all_records()) == 3
    assert tikgen.build(scaled, arch="cpu", shape=(4096,)).schedule.unroll == 1


@pytest.mark.parametrize("strategy", [*STRATEGIES, "auto"])
def test_strategies_find_the_best_of_a_smooth_space(scaled: Template, strategy: str) -> None:
    if strategy == "optuna":
        pytest.importorskip("optuna")
    result = tuned(scaled, strategy=strategy, arch="cpu", budget=30)
    assert result.best.schedule == {"unroll": 8, "block_dim": 128}
    assert result.best.ratio == pytest.approx(result.best.seconds / result.default.seconds)
    assert result.strategy == (strategy if strategy != "auto" else "exhaustive")


def test_halving_climbs_to_the_best_before_it_has_seen_all(scaled: Template) -> None:
    seen: list[Record] = []
    tuned(scaled, strategy="halving", arch="cpu", on_record=seen.append)
    order = [(r.schedule["unroll"], r.schedule["block_dim"]) for r in seen]
    assert len(set(order[: order.index((8, 128))])) < 16


def test_a_spent_budget_ends_the_search(scaled: Template) -> None:
    result = tuned(scaled, arch="cpu", budget=1e-6)
    assert result.stopped == "budget"
    assert result.best == result.default
    assert result.speedup == 1.0
    assert "continue" in str(result)


def test_the_space_is_the_product_less_what_is_refused(scaled: Template) -> None:
    problem = tikgen.build(scaled, arch="cpu").problem
    space = Space(scaled, problem, "cpu", SIZES)
    assert len(space.points) == 5 * 5 - 1
    assert space.schedule(space.points[0]) == {"unroll": 1, "block_dim": 32}
    assert space.point_of({"unroll": 16, "block_dim": 512}) is None
    assert space.point_of({"unroll": 5}) is None
    point = space.point_of({"unroll": 16, "block_dim": 256})
    assert point is not None
    around = [tuple(space.schedule(other).values()) for other in space.neighbours(point)]
    assert set(around) == {(8, 256), (16, 128)}


def test_a_sample_is_no_border_of_the_space(
    scaled: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tikgen.tuning.space.MOST_COMBINATIONS", 3)
    space = Space(scaled, tikgen.build(scaled, arch="cpu").problem, "cpu", SIZES)
    assert len(space.points) <= 4
    assert space.neighbours((4, 128)) == [(2, 128), (8, 128), (4, 64), (4, 256)]
    assert space.neighbours((16, 256)) == [(8, 256), (16, 128)]


def test_a_space_that_names_no_parameter_is_the_fault_of_the_template(scaled: Template) -> None:
    scaled.schedule_space = lambda p, arch, sizes: {"enroll": (1,)}  # type: ignore[method-assign]
    with pytest.raises(TemplateError, match="'enroll', which is no schedule parameter"):
        tuned(scaled, arch="cpu")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"budget": 0}, "budget.*above 0; got 0"),
        ({"budget": -1.5}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"budget": "long"}, "'quick', 'full'"),
        ({"budget": True}, "budget"),
        ({"shape": (1, 2)}, "shape"),
        ({"shape": (10**10,)}, "shape"),
        ({"strategy": "luck"}, "exhaustive, halving, optuna"),
        ({"seed": -1}, "seed.*at least 0, or None; got -1"),
        ({"timeout": 0}, "timeout.*positive number of seconds; got 0"),
        ({"timeout": float("inf")}, "timeout"),
        ({"way": "plain"}, "way.*tuning chooses"),
        ({"power": 3}, "power"),
        ({"force": 3}, "force"),
        ({"arch": "quantum"}, "arch"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    twice: Template, monkeypatch: pytest.MonkeyPatch, settings, says: str
) -> None:
    monkeypatch.setattr(MeasuringProcess, "start", lambda self: pytest.fail("it was started"))
    with pytest.raises(ParameterError, match=says):
        tuned(twice, **settings)


def test_a_shape_that_does_not_fit_the_memory_is_refused(
    twice: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tikgen.tuning.memory.free_host_bytes", lambda: 1_000_000)
    with pytest.raises(ParameterError, match=r"\(1000000,\) does not fit.*0.001 GB are free"):
        tuned(twice, shape=(1_000_000,))
    # The arrays and what making them or comparing results takes, and not the arrays alone.
    needed = "0.032" if ARCH == "cpu" else "0.025"
    monkeypatch.setattr("tikgen.tuning.memory.free_host_bytes", lambda: 24_000_000)
    with pytest.raises(ParameterError, match=rf"needs {needed} GB"):
        tuned(twice, shape=1_000_000)


def test_an_arch_that_does_not_work_is_named(twice: Template) -> None:
    with pytest.raises(UnsupportedOnArch, match="metal"):
        tuned(twice, arch="metal")


def test_where_no_schedule_works_the_default_says_why(twice: Template) -> None:
    text = TWICE_TEXT.replace("total // 2000", "1")
    (Path(twice.folder) / "kernel.py.j2").write_text(text)
    tikgen.clear()
    broken = restricted(tikgen.load_template(twice.folder), "wrong")
    with pytest.raises(TikgenError, match=r"no schedule could be timed.*mismatch"):
        tuned(broken)
    assert {record.kind for record in records.all_records()} == {"mismatch"}


def test_a_result_tells_what_it_found(scaled: Template, tmp_path: Path) -> None:
    result = tuned(scaled, arch="cpu")
    rows = result.table()
    assert len(rows) == len(result.records) == result.points == 24
    assert rows[0]["ratio"] == result.best.ratio
    assert [row["ratio"] for row in rows] == sorted(row["ratio"] for row in rows)
    assert json.loads(json.dumps(result.to_dict()))["best"]["ratio"] == result.best.ratio
    assert "24 of 24 schedules timed" in str(result)
    assert "unroll=8, block_dim=128" in str(result)
    with pytest.raises(TikgenError, match="Cannot write the picture"):
        result.plot(tmp_path / "search.foo")
    result.plot(tmp_path / "search.png")
    assert (tmp_path / "search.png").stat().st_size > 1000

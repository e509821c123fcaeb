"""Claims of tuning are true: luck does not win, and ties keep the default."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tikgen
from tikgen import Template
from tikgen.pipeline import records
from tikgen.pipeline.records import Record
from tikgen.tuning import timing
from tikgen.tuning.exchange import export_records, import_records
from tikgen.tuning.final import MOST_PROCESSES, PROCESSES, Verdict, judge
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.run import tune
from tuning_samples import no_records as no_records
from tuning_samples import scaled as scaled
from tuning_templates import Simulated, beside

BEST = {"unroll": 8, "block_dim": 128}


def measured_by(
    monkeypatch: pytest.MonkeyPatch, ratio: Callable[[Job, Job | None], list[float]]
) -> list[Job]:
    """Take the ratio of each round from a function; return the list of jobs."""
    jobs: list[Job] = []

    def run(self, job: Job, baseline: Job | None = None) -> Measurement:
        jobs.append(job)
        ratios = ratio(job, baseline)
        middle = statistics.median(ratios)
        found = beside("timed", middle, len(ratios), middle)
        return dataclasses.replace(found, ratios=tuple(ratios))

    monkeypatch.setattr(Simulated, "run", run)
    return jobs


def tuned(template: Template, **settings):
    return tune(template, **({"shape": (4096,), "arch": "cpu", "budget": "full"} | settings))


@pytest.mark.some
@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_never_beats_the_default(
    scaled: Template, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    # Every schedule takes as long; a busy machine makes single measurements four times as long.
    measured_by(
        monkeypatch,
        lambda job, _: (
            [math.exp(rng.choice((0.02, 0.7)) * rng.gauss(0, 1))] * job.rounds
            if job.rounds < 31
            else [math.exp(rng.gauss(0, 0.1)) for _ in range(job.rounds)]
        ),
    )
    result = tuned(scaled, seed=seed)
    assert result.best == result.default
    assert result.speedup == 1.0
    assert tikgen.build(scaled, arch="cpu", shape=(4096,)).schedule.unroll == 1
    assert "no other proved faster" in str(result)


@pytest.mark.parametrize("factor", [2, 20, 1000])
def test_one_lucky_round_makes_no_record(
    scaled: Template, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    lucky = {"unroll": 2, "block_dim": 512}  # Slower than the default except once.
    seconds, had = Simulated.seconds, []

    def ratio(job: Job, baseline: Job | None) -> list[float]:
        if baseline is None:
            return [1.0] * job.rounds
        true = seconds(job.params) / seconds(baseline.params)
        if not had and all(job.params[n] == v for n, v in lucky.items()):
            had.append(job)
            return [true / factor] * job.rounds
        return [true] * job.rounds

    measured_by(monkeypatch, ratio)
    result = tuned(scaled, strategy="exhaustive", seed=1)
    assert had
    assert result.schedule == BEST
    assert result.speedup == pytest.approx(
        seconds({"unroll": 1, "block_dim": 32}) / seconds(BEST), rel=1e-6
    )
    assert tikgen.build(scaled, arch="cpu", shape=(4096,)).schedule.unroll == 8
    assert min(r.ratio for r in result.records) == result.best.ratio


@pytest.mark.parametrize(
    ("true", "noise", "wins"),
    [(0.8, 0.05, True), (0.96, 0.01, True), (0.99, 0.001, False), (0.95, 0.8, False)],
)
def test_ties_stay_with_the_default(
    scaled: Template, monkeypatch: pytest.MonkeyPatch, true: float, noise: float, wins: bool
) -> None:
    rng = random.Random(5)

    def ratio(job: Job, baseline: Job | None) -> list[float]:
        is_better = job.params["unroll"] == 8 and job.params["block_dim"] == 128
        middle = true if is_better and baseline is not None else 1.0
        if baseline is not None and baseline.params["unroll"] == 8 and not is_better:
            middle = 1 / true
        errors = (math.exp(rng.gauss(0, noise)) for _ in range(job.rounds))
        return [middle * error for error in errors]

    measured_by(monkeypatch, ratio)
    result = tuned(scaled, seed=2)
    assert (result.best != result.default) == wins
    if wins:
        assert result.schedule == BEST
        low, high = result.interval or (0, 0)
        assert low <= 1 / true <= high
        assert 1 < low < high
    else:
        assert result.speedup == 1.0


def test_a_schedule_that_is_slower_on_one_kind_of_data_does_not_win() -> None:
    ratios = (0.8,) * 31
    found = Measurement("timed", seconds=1, rounds=31, ratio=0.8, ratios=ratios, worst_ratio=1.0)
    assert judge([found] * 3).is_faster
    assert not judge([dataclasses.replace(found, worst_ratio=1.3)] * 3).is_faster


def test_the_winner_is_compared_with_the_default_in_fresh_processes(
    scaled: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[int] = []
    seconds = Simulated.seconds
    jobs = measured_by(
        monkeypatch,
        lambda job, other: [seconds(job.params) / seconds(other.params) if other else 1.0] * 9,
    )
    monkeypatch.setattr(Simulated, "stop", lambda self: stops.append(len(jobs)))
    tuned(scaled)
    last = jobs[-PROCESSES:]
    assert all(job.is_verified and job.params["unroll"] == 8 for job in last)
    assert stops == [len(jobs) - n for n in range(PROCESSES, 0, -1)]
    assert not any(job.is_verified for job in jobs[:-PROCESSES])


def test_more_processes_are_taken_where_they_disagree(
    scaled: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = itertools.cycle((0.5, 0.6))
    seconds = Simulated.seconds

    def ratio(job: Job, other: Job | None) -> list[float]:
        if job.is_verified:
            return [next(turns)] * job.rounds
        return [seconds(job.params) / seconds(other.params) if other else 1.0] * job.rounds

    jobs = measured_by(monkeypatch, ratio)
    result = tuned(scaled)
    assert sum(job.is_verified for job in jobs) == MOST_PROCESSES
    assert result.interval == pytest.approx((1 / 0.6, 2.0))


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
def test_an_interval_contains_the_median_and_lies_within_the_values(values, rng) -> None:
    low, high = timing.median_interval(values)
    assert min(values) <= low <= statistics.median(values) <= high <= max(values)
    rng.shuffle(values)
    assert timing.median_interval(values) == (low, high)


def test_intervals_contain_the_true_median_as_often_as_claimed() -> None:
    rng = random.Random(3)
    held = 0
    for _ in range(400):
        # Skewed, as times on a busy machine are.
        values = [math.exp(rng.gauss(0, 1)) for _ in range(31)]
        low, high = timing.median_interval(values)
        held += low <= 1.0 <= high
    assert 0.93 < held / 400 <= 1


def test_the_interval_is_kept_with_the_record(
    scaled: Template, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rng = random.Random(1)
    seconds = Simulated.seconds
    measured_by(
        monkeypatch,
        lambda job, other: [
            (seconds(job.params) / seconds(other.params) if other else 1.0) * rng.uniform(0.9, 1.1)
            for _ in range(job.rounds)
        ],
    )
    result = tuned(scaled)
    assert result.best.is_proven
    assert result.best.ratio_low < result.best.ratio < result.best.ratio_high
    claim = result.best.gain
    low, high = result.interval or (0, 0)
    assert f"({low:.2f} to {high:.2f})" in claim
    kernel = tikgen.build(scaled, arch="cpu", shape=(4096,))
    assert claim in kernel.schedule_origin
    assert claim in " ".join(str(result).split())
    assert claim in result._repr_html_()
    export_records(tmp_path / "tuned.toml")
    assert claim in (tmp_path / "tuned.toml").read_text()
    records.forget(lambda record: True)
    assert import_records(tmp_path / "tuned.toml").kept == 1
    (again,) = records.all_records()
    assert again == result.best
    assert claim in tikgen.build(scaled, arch="cpu", shape=(4096,)).schedule_origin


def test_records_of_older_versions_are_reported_and_not_used(
    scaled: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tikgen.errors import StoreWarning
    from tikgen.store import default_store

    monkeypatch.setattr(records, "_warned", set())
    tuned(scaled)
    export_records(tmp_path / "tuned.toml")
    new = ("ratio_low", "ratio_high", "workload", "data")
    for key in default_store().keys(records.KIND):
        old = [
            {k: v for k, v in entry.items() if k not in new}
            for entry in (default_store().read(records.KIND, key) or {})["records"]
        ]
        default_store().update(records.KIND, key, lambda _, old=old: {"records": old})
    records.generation += 1
    with pytest.warns(StoreWarning, match=r"what they were measured on is not known; tune again"):
        assert tikgen.build(scaled, arch="cpu", shape=(4096,)).schedule.unroll == 1
    lines = (tmp_path / "tuned.toml").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(new)]
    (tmp_path / "tuned.toml").write_text("\n".join(kept))
    found = import_records(tmp_path / "tuned.toml")
    assert found.kept == 0
    assert "on what workload it was measured; tune again" in found.ignored[0]


def test_a_proven_record_wins_over_a_better_one_that_is_not() -> None:
    common = {
        "template": "t",
        "fingerprint": "f",
        "problem": {},
        "arch": "cpu",
        "device": "d",
        "taichi": "1",
        "tikgen": "0",
        "sizes": {"n": 3},
        "schedule": {},
        "kind": "timed",
        "seconds": 1.0,
    }
    lucky = Record(**common, ratio=0.1)
    proven = Record(**common, ratio=0.8, ratio_low=0.7, ratio_high=0.9)
    default = Record(**common, ratio=1.0, ratio_low=1.0, ratio_high=1.0)
    own = dataclasses.replace(default, workload="own")
    assert min((lucky, proven, default), key=lambda r: r.rank) is proven
    assert min((lucky, proven, own), key=lambda r: r.rank) is own


class Clock:
    """A clock that launches advance, alternately slower and faster."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def launch(self, name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.order.append(name)
            self.now += seconds * (10 if int(self.now * 40) % 3 == 0 else 1)

        return run


def test_ratios_of_neighbouring_batches_cancel_drift_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(timing.runtime, "sync", lambda: None)
    launches = [clock.launch("one", 1e-4), clock.launch("other", 2e-4)]
    one, other = timing.time_in_turn(launches, 41, seed=3)
    assert statistics.median(one.ratios_to(other)) == pytest.approx(0.5, rel=0.1)


def test_the_order_of_batches_is_random_and_balanced(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(timing.runtime, "sync", lambda: None)
    launches = [clock.launch("one", 0.05), clock.launch("other", 0.05)]
    firsts = {}
    for seed in range(4):
        clock.order.clear()
        timing.time_in_turn(launches, 4, seed=seed, least=4)
        rounds = clock.order[-8:]
        firsts[seed] = tuple(rounds[::2])
        assert sorted(firsts[seed]) == ["one", "one", "other", "other"]
    assert len(set(firsts.values())) > 1


def test_a_verdict_needs_an_interval_below_one_and_a_gain() -> None:
    assert Verdict(0.9, 0.85, 0.95, 0.9).is_faster
    assert not Verdict(0.9, 0.7, 1.01, 0.9).is_faster
    assert not Verdict(0.99, 0.985, 0.995, 0.99).is_faster
    assert not Verdict(0.9, 0.85, 0.95, 1.1).is_faster
    assert not Verdict(0.66, 0.38, 0.95, 0.66).is_faster  # The interval is too wide.
    assert Verdict(0.1, 0.05, 0.4, 0.1).is_faster

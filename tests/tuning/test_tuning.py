"""Tuning: every outcome is recorded, nothing is measured twice, nothing is lost."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

import tikgen
from tikgen import Template
from tikgen.children.process import Died
from tikgen.errors import ParameterError, TikgenError
from tikgen.pipeline import records
from tikgen.pipeline.records import Record
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.process import MeasuringProcess
from tuning_samples import ARCH, SIZES, restricted, tuned
from tuning_samples import no_records as no_records
from tuning_samples import scaled as scaled
from tuning_samples import twice as twice
from tuning_templates import (
    SCALED_CODE,
    SCALED_TEXT,
    TWICE_TEXT,
    Simulated,
    beside,
    make,
)

WAYS = {
    "plain": "timed",
    "wrong": "mismatch",
    "crashing": "crash",
    "hanging": "timeout",
    "unknown to Taichi": "error",
    "refused": "refused",
}
if ARCH != "cpu":  # There a division by zero is harmless, and a driver may not survive a hang.
    del WAYS["crashing"], WAYS["hanging"]


def lucky_by(factor: float, found: Measurement) -> Measurement:
    """Return a measurement that is too good by a factor, in every round."""
    return beside(found.kind, found.seconds, found.rounds, found.ratio / factor)


def job(template: Template, way: str, **more) -> Job:
    params = {"power": 1, "way": way, "idle": 1}
    return Job(template.name, str(template.folder), ARCH, params, SIZES, **more)


def test_every_outcome_is_recorded_and_the_process_replaced(twice: Template) -> None:
    slow = job(twice, "slow")
    with MeasuringProcess(ARCH, timeout=300) as process:
        first = process.run(slow)
        assert first.ok, first
        assert (first.ratio, first.baseline_seconds, first.worst) == (1.0, 0.0, 0.0)
        for way, kind in WAYS.items():
            process.timeout = 3 if way == "hanging" else 300
            found = process.run(job(twice, way), slow)
            assert found.kind == kind, found
            assert bool(found.message) == (kind != "timed")
            assert bool(found.digest) == (kind != "refused")
        process.timeout = 300
        again = process.run(job(twice, "plain", rounds=3), slow)
    assert again.ok
    assert again.rounds == 3
    assert 0 < again.seconds < again.baseline_seconds
    assert 0 < again.ratio < 1
    assert again.compile_seconds > 0


def test_a_process_that_lost_its_device_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    error = {"kind": "error", "message": "illegal address"}
    replies = [{"stage": "broken", "note": ""}, error]
    running = [True]
    monkeypatch.setattr(MeasuringProcess, "is_running", property(lambda self: bool(running)))
    monkeypatch.setattr(MeasuringProcess, "send", lambda self, line: None)
    monkeypatch.setattr(MeasuringProcess, "reply", lambda self, seconds: replies.pop(0))
    monkeypatch.setattr(MeasuringProcess, "stop", lambda self: running.clear())
    process = MeasuringProcess("cuda", timeout=1)
    found = process.run(Job("twice", "", "cuda", {}, SIZES))
    assert (found.kind, found.message) == ("error", "illegal address")
    assert not process.is_running


def test_an_interrupted_process_does_not_answer_the_next_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with MeasuringProcess("cpu", timeout=60) as process:
        assert not process.start()
        monkeypatch.setattr("tikgen.children.process.ChildProcess.reply", interrupt)
        with pytest.raises(KeyboardInterrupt):
            process.run(Job("twice", "", "cpu", {}, SIZES))
        assert not process.is_running


def test_a_process_that_the_system_kills_was_probably_out_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def die(*_: object) -> None:
        raise Died("SIGKILL")

    with MeasuringProcess("cpu", timeout=60) as process:
        assert not process.start()
        monkeypatch.setattr("tikgen.children.process.ChildProcess.reply", die)
        found = process.run(Job("twice", "", "cpu", {}, SIZES))
    assert found.kind == "crash"
    assert "probably out of memory" in found.message


def test_an_error_that_shows_at_the_timed_sizes_only_is_found(twice: Template) -> None:
    folder = Path(twice.folder)
    late = TWICE_TEXT.replace("ti.cast(i == 40", "ti.cast(i == 4000")
    (folder / "kernel.py.j2").write_text(late)
    with MeasuringProcess(ARCH, timeout=60) as process:
        found = process.run(job(twice, "wrong"))
    assert found.kind == "mismatch"
    assert "y[4000]" in found.message


def test_without_an_affordable_reference_kernels_are_compared_with_the_first(
    ti_arch: str, twice: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tikgen.tuning import measuring, workload

    monkeypatch.setattr(workload, "MOST_REFERENCE_SECONDS", -1.0)
    measuring.forget()
    text = TWICE_TEXT.replace("ti.cast(i == 40", "ti.cast(i == 4000")
    (Path(twice.folder) / "kernel.py.j2").write_text(text)
    tikgen.clear()
    assert measuring.measure(job(twice, "plain")).ok
    assert measuring.measure(job(twice, "wrong")).kind == "mismatch"
    measuring.forget()


def test_a_baked_kernel_without_an_affordable_reference_is_verified_on_small_sizes(
    ti_arch: str, twice: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tikgen.tuning import measuring, workload

    monkeypatch.setattr(workload, "MOST_REFERENCE_SECONDS", -1.0)
    measuring.forget()
    assert measuring.measure(job(twice, "wrong", baked=True)).kind == "mismatch"
    assert measuring.measure(job(twice, "plain", baked=True)).ok
    measuring.forget()


def test_equal_code_is_compared_with_the_reference_of_its_own_problem(
    ti_arch: str, tmp_path: Path
) -> None:
    from tikgen.tuning.measuring import forget, measure

    code = SCALED_CODE.replace("return p.weight", "return (1 + (p.mode == 'other')) * p.weight")
    template = make(tmp_path, "scaled", SCALED_TEXT, code)
    params = {"dtype": "f32", "weight": 2.0, "unroll": 1, "block_dim": 32}
    kinds = [
        measure(
            Job("scaled", str(template.folder), ti_arch, params | {"mode": mode}, SIZES, rounds=1)
        ).kind
        for mode in ("one", "other")
    ]
    assert kinds == ["timed", "mismatch"]
    forget()


def test_baked_sizes_are_measured(ti_arch: str) -> None:
    from tikgen.pipeline.builder import resolve
    from tikgen.tuning.measuring import forget, measure

    sizes = {"n0": 33, "n1": 20}
    variant = resolve("stencil", dim=2, shape=sizes, arch=ti_arch)
    baked = Job.of(variant, ti_arch, sizes, rounds=1)
    assert baked.baked
    found = measure(Job.from_line(baked.line))
    assert found.ok, found
    free = measure(Job.of(resolve("stencil", dim=2, arch=ti_arch), ti_arch, sizes, rounds=1))
    assert free.ok
    assert free.digest != found.digest
    forget()


def test_structured_inputs_and_updates_are_timed(ti_arch: str) -> None:
    from tikgen.pipeline.builder import resolve
    from tikgen.tuning.measuring import forget, measure

    for name, sizes in (("spmv", {"nnz": 300, "rows": 40, "cols": 50}), ("histogram", {"n": 999})):
        variant = resolve(name, arch=ti_arch)
        found = measure(Job.of(variant, ti_arch, sizes, rounds=2))
        assert found.ok, found
    forget()


@pytest.fixture
def one_final(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prove the winner in one process instead of several."""
    monkeypatch.setattr("tikgen.tuning.session.PROCESSES", 1)


def test_the_best_of_a_space_with_all_kinds_of_faults_wins(
    twice: Template, one_final: None
) -> None:
    ways = {way: kind for way, kind in WAYS.items() if way != "hanging"}  # That takes long.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tuned(restricted(twice, *ways), strategy="exhaustive")
    assert result.best.schedule["way"] == "plain"
    assert result.default.schedule["way"] == "slow"
    assert result.speedup is not None
    assert result.speedup > 1
    # What is refused is no part of the space, and equal kernels are one candidate.
    assert result.points == len(result.records) == len(ways)
    found = {record.schedule["way"]: record.kind for record in result.records}
    del ways["refused"]
    assert found == ways | {"slow": "timed"}
    best = min(r.ratio for r in result.records if r.kind == "timed")
    assert best == result.best.ratio
    assert result.stopped == "complete"
    assert tikgen.build(twice, arch=ARCH).schedule.way == "plain"
    assert "tuned for n=4096" in tikgen.build(twice, schedule="tuned", arch=ARCH).schedule_origin


class SimulatedWays(Simulated):
    """Measures ways at once: the plain one takes half the time, and the wrong one is found."""

    @staticmethod
    def seconds(params) -> float:
        return 1 + (params["way"] == "slow")

    def run(self, job: Job, baseline: Job | None = None) -> Measurement:
        if job.params["way"] == "wrong":
            return Measurement("mismatch", "y[40] is 1")
        return super().run(job, baseline)


def test_tuning_again_continues(twice: Template, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", SimulatedWays)
    restricted(twice, "plain", "wrong")
    seen: list[Record] = []

    def stop_after_two(record: Record) -> None:
        seen.append(record)
        if len(seen) == 2:
            raise KeyboardInterrupt

    first = tuned(twice, on_record=stop_after_two)
    assert first.stopped == "interrupted"
    assert len(records.all_records()) == len(first.records) == 2
    again: list[Record] = []
    second = tuned(twice, on_record=again.append)
    assert second.stopped == "complete"
    known = [record.schedule for record in seen]
    assert again[0].schedule not in known
    assert len(second.records) == 3
    third = tuned(twice, on_record=again.append, shape=(4100,))  # A shape of the same bucket.
    assert third.measured == 0
    assert "measured at n=4096 (shapes that round alike)" in str(third)
    assert "round alike" not in str(second)
    assert third.records == second.records
    assert tuned(twice, fresh=True).measured > 2


def test_a_schedule_that_cannot_be_rendered_is_an_outcome(twice: Template) -> None:
    text = TWICE_TEXT.replace("ti.no_such_function(x[i])", "{{ no_such_name }}")
    (Path(twice.folder) / "kernel.py.j2").write_text(text)
    tikgen.clear()
    nameless = "unknown to Taichi"
    result = tuned(restricted(tikgen.load_template(twice.folder), "slow", nameless))
    assert {r.schedule["way"]: r.kind for r in result.records}[nameless] == "error"
    assert any("no_such_name" in r.message for r in result.records)


def test_an_interruption_before_anything_was_measured_is_passed_on(
    twice: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(MeasuringProcess, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tuned(twice)
    assert not records.all_records()


def test_a_lucky_measurement_does_not_win_after_an_interruption(
    scaled: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, best = Simulated.run, []

    def lucky(self, job, baseline=None):
        found = measure(self, job, baseline)
        if job.params["unroll"] == 2 and best and job.rounds == 7:
            found = lucky_by(99, found)
        return found

    def interrupt(record: Record) -> None:
        if record.schedule == {"unroll": 8, "block_dim": 128}:
            best.append(record)
        if record.ratio < 0.01:
            raise KeyboardInterrupt

    monkeypatch.setattr("tikgen.tuning.session.CONTENDERS", 1)

    monkeypatch.setattr(Simulated, "run", lucky)
    settings = {"arch": "cpu", "strategy": "exhaustive"}
    fluke = tuned(scaled, **settings, on_record=interrupt)
    assert fluke.stopped == "interrupted"
    # The lucky one was compared with the default, and the best one before it as well.
    assert fluke.best.schedule == {"unroll": 8, "block_dim": 128}
    assert tikgen.build(scaled, arch="cpu", shape=(4096,)).schedule.unroll == 8
    assert fluke.measured < 24
    monkeypatch.setattr(Simulated, "run", measure)
    result = tuned(scaled, **settings)
    assert result.best.schedule == {"unroll": 8, "block_dim": 128}
    assert result.speedup == pytest.approx(result.default.seconds)
    assert tuned(scaled, **settings).measured == 0


def test_a_search_that_was_complete_before_its_playoff_is_settled_later(
    scaled: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = Simulated.run

    def lucky(self, job, baseline=None):
        if job.rounds == 41 and baseline is not None:
            raise KeyboardInterrupt
        found = measure(self, job, baseline)
        if job.params["unroll"] == 2:
            found = lucky_by(99, found)
        return found

    monkeypatch.setattr(Simulated, "run", lucky)
    assert tuned(scaled, arch="cpu").best.schedule["unroll"] == 2
    monkeypatch.setattr(Simulated, "run", measure)
    result = tuned(scaled, arch="cpu")
    assert result.best.seconds == pytest.approx(result.best.ratio * result.default.seconds)
    assert 0 < result.measured < result.points


def test_a_crash_is_tried_again(scaled: Template, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = Simulated.run
    monkeypatch.setattr(Simulated, "run", lambda *_: Measurement("crash", "killed"))
    with pytest.raises(TikgenError, match="no schedule could be timed"):
        tuned(scaled, arch="cpu")
    monkeypatch.setattr(Simulated, "run", measure)
    assert tuned(scaled, arch="cpu").kinds == {"timed": 24}


def test_without_a_default_there_is_no_gain(
    scaled: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = Simulated.run

    def broken(self, job, baseline=None):
        if (job.params["unroll"], job.params["block_dim"]) == (1, 32):
            return Measurement("mismatch", "y[0] is 1")
        return measure(self, job, baseline)

    monkeypatch.setattr(Simulated, "run", broken)
    result = tuned(scaled, arch="cpu")
    assert result.best.schedule == {"unroll": 8, "block_dim": 128}
    assert result.speedup is None
    assert "as fast as" not in f"{result} {result.best}"
    assert tikgen.build(scaled, arch="cpu").schedule.unroll == 8


def test_a_default_that_the_process_refuses_ends_the_tuning(
    scaled: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Measurement("refused", "it needs 99 GB, and cuda says: out of memory")
    monkeypatch.setattr(Simulated, "run", lambda *_: refused)
    with pytest.raises(ParameterError, match=r"shape.*needs 99 GB"):
        tuned(scaled, arch="cpu")
    assert not records.all_records()


def test_slow_kernels_get_the_time_that_they_and_the_baseline_need(
    scaled: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, is_short = Simulated.run, []

    def slow(self, job, baseline=None):
        found = measure(self, job, baseline)
        if baseline is not None and found.ratio < 1.5:
            launches = 6 * (self.seconds(baseline.params) + found.seconds)
            is_short.append(self.timeout < launches)
        return found

    monkeypatch.setattr(Simulated, "run", slow)
    tuned(scaled, arch="cpu", timeout=1.0)
    assert is_short
    assert not any(is_short)


def test_the_budget_holds_for_slow_kernels(
    scaled: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, now = Simulated.run, [0.0]

    def slow(self, job, baseline=None):
        now[0] += 13.0
        return measure(self, job, baseline)

    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("tikgen.tuning.session.time", clock)
    monkeypatch.setattr("tikgen.tuning.run.time", clock)
    monkeypatch.setattr(Simulated, "run", slow)
    result = tuned(scaled, arch="cpu", budget="quick")
    assert result.measured > 3
    assert result.seconds <= 65

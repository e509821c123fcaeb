"""Tuning records: the store, the best record, and their use by builds."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import taichi as ti

import tikgen
from tikgen import engines
from tikgen.errors import ParameterError, StoreWarning
from tikgen.machine.devices import UNKNOWN, device_name
from tikgen.pipeline import records
from tikgen.pipeline.records import Record
from tikgen.store import default_store

pytestmark = pytest.mark.once

PROBLEM = {"dim": 2, "order": 4}


@pytest.fixture(autouse=True)
def own_store(monkeypatch, tmp_path):
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(records, "_warned", set())
    yield
    records.generation += 1  # What was built here must not be found in the memo later.


def record(ratio: float, *, n: int = 64, unroll: int = 8, **changes) -> Record:
    kernel = tikgen.build("stencil", **PROBLEM)
    made = Record(
        template="stencil",
        fingerprint=kernel.template.fingerprint,
        problem=records.problem_text(kernel.problem),
        arch="cpu",
        device=device_name("cpu"),
        taichi=records.taichi_version(),
        tikgen=tikgen.__version__,
        sizes={"n0": n, "n1": n},
        schedule={"loop": "rows", "unroll": unroll, "row_buffer": 0},
        kind="timed",
        seconds=1e-3 * ratio,
        rounds=5,
        ratio=ratio,
        engine=engines.timed_by(engines.DEFAULT, "cpu"),
    )
    return dataclasses.replace(made, **changes)


def build(**more):
    return tikgen.build("stencil", arch="cpu", **PROBLEM, **more)


def test_records_of_another_engine_are_ignored_with_one_line() -> None:
    beside = build(engine="taichi")
    records.keep(record(0.5, unroll=2, engine="taichi"))
    with pytest.warns(StoreWarning, match="made with the engine taichi and are ignored"):
        assert build().schedule_origin == "default on cpu"
    tuned = build(engine="taichi")
    assert tuned.schedule.unroll == 2 != beside.schedule.unroll
    records.keep(record(0.9, unroll=4))
    assert (build().schedule.unroll, build(engine="taichi").schedule.unroll) == (4, 2)


def test_auto_uses_the_best_record_and_shows_it() -> None:
    assert build().schedule_origin == "default on cpu"
    records.keep_all([record(0.8, unroll=8), record(0.5, unroll=2), record(0.9, unroll=1)])
    kernel = build()
    assert kernel.schedule.unroll == 2
    assert kernel.schedule_origin.startswith("tuned for n0=64, n1=64 on ")
    assert "2.00 times as fast" in kernel.schedule_origin
    assert build(schedule="tuned").function is kernel.function
    assert build(schedule="auto") is kernel


def test_an_equal_schedule_given_by_hand_shares_the_code_and_not_the_origin() -> None:
    records.keep(record(0.5, unroll=2))
    tuned = build()
    given = build(schedule={"loop": "rows", "unroll": 2, "row_buffer": 0})
    assert given.schedule_origin == "given"
    assert given.function is tuned.function
    tuned.unload()
    assert not given.is_loaded
    tikgen.clear()


def test_kernels_of_one_text_and_two_origins_both_run(ti_arch, rng) -> None:
    params = {"dim": 2, "order": 2, "arch": ti_arch}
    default = tikgen.build("stencil", schedule={}, **params)
    assert default.schedule_origin == f"default on {ti_arch}"
    made = dataclasses.replace(
        record(0.5),
        fingerprint=default.template.fingerprint,
        problem=records.problem_text(default.problem),
        arch=ti_arch,
        device=device_name(ti_arch),
        schedule=dict(default.schedule),
    )
    records.keep(made)
    tuned = tikgen.build("stencil", **params)
    assert tuned is not default
    assert tikgen.build("stencil", schedule={}, **params) is default
    x = rng.random((40, 50), np.float32)
    for kernel in (default, tuned):
        for y in (np.zeros_like(x), ti.ndarray(ti.f32, x.shape)):
            kernel(x, y)
            found = y if isinstance(y, np.ndarray) else y.to_numpy()
            assert np.allclose(found, kernel.reference(x), atol=1e-4)


def test_a_parameter_that_is_not_the_default_is_given() -> None:
    assert build(chunk=4096, row_buffer=16).schedule_origin == "given"


def test_entries_of_another_version_stay() -> None:
    records.keep(record(0.5, unroll=2))
    (key,) = default_store().keys(records.KIND)
    strange = {"of": "the future"}
    default_store().update(
        records.KIND, key, lambda found: {"records": [*found["records"], strange]}
    )
    with pytest.warns(StoreWarning, match="another version of tikgen"):
        records.keep(record(0.4, unroll=2))
        assert build().schedule.unroll == 2
    assert records.forget(lambda r: True) == 1
    assert default_store().read(records.KIND, key) == {"records": [strange]}


def test_given_parameters_override_records() -> None:
    records.keep(record(0.5, unroll=2))
    assert build(unroll=4, row_buffer=0).schedule.unroll == 4
    overridden = build(schedule="tuned", unroll=4)
    assert overridden.schedule.unroll == 4
    assert overridden.schedule_origin == "given"


def test_the_nearest_shape_decides() -> None:
    records.keep_all([record(0.5, n=64, unroll=2), record(0.5, n=4096, unroll=16)])
    assert build(shape=(70, 60)).schedule.unroll == 2
    assert build(shape=(2000, 3000)).schedule.unroll == 16
    assert build().schedule.unroll == 16  # The largest, where no shape is named.


def test_the_latest_record_of_a_candidate_is_kept() -> None:
    records.keep(record(0.5, unroll=2))
    records.keep(record(0.7, unroll=2, sizes={"n0": 65, "n1": 63}))
    (found,) = records.all_records()
    assert found.ratio == 0.7


def test_the_order_of_sizes_does_not_matter() -> None:
    # The store sorts names, so that sizes come back in another order than a template has.
    sizes = {"n1": 63, "n0": 65}
    records.keep(record(0.1, unroll=2, sizes=sizes))
    records.keep(record(0.7, unroll=2, sizes=sizes))
    (found,) = records.all_records()
    assert found.ratio == 0.7
    assert records.forget(lambda r: r.candidate == record(0.7, unroll=2).candidate) == 1


def test_failures_are_kept_and_never_chosen() -> None:
    crash = record(0.0, unroll=16, kind="crash", message="SIGFPE", seconds=0.0)
    records.keep_all([crash, record(1.0, unroll=8)])
    assert {(r.kind, r.message) for r in records.all_records()} == {
        ("timed", ""),
        ("crash", "SIGFPE"),
    }
    assert build().schedule.unroll == 8


@pytest.mark.parametrize("change", [{"fingerprint": "0" * 64}, {"taichi": "1.7.3"}])
def test_records_of_other_versions_are_ignored_with_one_line(change) -> None:
    records.keep(record(0.5, unroll=2, **change))
    with pytest.warns(StoreWarning, match="another version") as caught:
        assert build().schedule_origin == "default on cpu"
    assert len(caught) == 1
    records.generation += 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build()
    with pytest.raises(ParameterError, match="nothing was tuned"):
        build(schedule="tuned")


def test_records_of_another_device_are_not_used() -> None:
    records.keep(record(0.5, unroll=2, device="another one"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert build().schedule_origin == "default on cpu"


def test_a_record_that_breaks_a_constraint_is_ignored_with_one_line() -> None:
    records.keep(record(0.5, schedule={"loop": "points", "unroll": 8}))
    with pytest.warns(StoreWarning, match="is ignored: .*'unroll'"):
        assert build().schedule_origin == "default on cpu"


def test_a_damaged_document_is_written_again() -> None:
    records.keep(record(0.5, unroll=2))
    (path,) = default_store().folder.glob("tuning/*/*.json")
    path.write_text(path.read_text().replace("0.5", "0.1"))
    records.generation += 1
    with pytest.warns(StoreWarning, match="is damaged"):
        assert build().schedule_origin == "default on cpu"
    records.keep(record(0.5, unroll=2))
    assert build().schedule.unroll == 2


def test_forget_removes_the_unwanted_records() -> None:
    records.keep_all([record(0.5, unroll=2), record(0.8, unroll=8)])
    assert records.forget(lambda r: r.schedule["unroll"] == 2) == 1
    assert build().schedule.unroll == 8


def test_devices_have_names() -> None:
    assert device_name("cpu").endswith("threads")
    assert device_name("metal") == UNKNOWN


def test_an_interval_without_an_upper_end_is_no_record() -> None:
    whole = dataclasses.asdict(record(0.5))
    assert records._of(whole) is not None
    assert records._of(whole | {"ratio_low": 0.4, "ratio_high": 0.6}) is not None
    assert records._of(whole | {"ratio_low": 0.4, "ratio_high": 0.0}) is None

"""What ends a measurement or a search early: no room, no cost, broken devices, lost clusters."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.children import work
from tikgen.errors import TikgenError
from tikgen.template.catalogue import find_template
from tikgen.tuning import given_data, worker, workload
from tikgen.tuning.exchange import import_records
from tikgen.tuning.given_data import OwnData
from tikgen.tuning.job import Measurement
from tikgen.tuning.search import _in_order, optuna
from tikgen.tuning.space import Space
from tikgen.tuning.sweeps import results_file
from tikgen.tuning.sweeps.cluster import ClusterRunner
from tikgen.tuning.sweeps.combinations import space_of
from tikgen.tuning.sweeps.limits import Limits, copy_job
from tikgen.tuning.sweeps.results_file import Done, ResultsFile

# A search.


def test_values_are_in_order_where_they_have_one() -> None:
    assert _in_order((4, 1, 2.5)) == [1, 2.5, 4]
    assert _in_order(("row", "column", True)) == ["row", "column", True]


def test_a_search_goes_on_where_schedules_fail() -> None:
    pytest.importorskip("optuna")
    axes = {"way": ("a", "b", "c"), "wide": (1, 2)}
    points = [(way, wide) for way in axes["way"] for wide in axes["wide"]]

    class Fake(Space):
        def __init__(self) -> None:
            self.axes, self.default, self.points = axes, points[0], points

        def schedule(self, point: Any) -> dict[str, Any]:
            return dict(zip(axes, point, strict=True))

        def __contains__(self, point: Any) -> bool:
            return point in points

    space, tried = Fake(), []
    optuna(space, lambda point, _: tried.append(point) or math.inf, random.Random(3))
    assert len(set(tried)) > 1


# Files.


def test_a_file_that_is_no_text_holds_no_records(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_bytes(b"\xff\xfe\xfa")
    found = import_records(path)
    assert found.kept == 0
    assert str(path) in found.ignored[0]


def test_a_results_file_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ResultsFile(tmp_path, {})
    with pytest.raises(TikgenError, match=r"Cannot read .*: Is a directory"):
        folder.known(["work"], ["device"])
    monkeypatch.setattr(results_file.os, "access", lambda *_: False)
    with pytest.raises(TikgenError, match=r"Cannot write .*: permission denied"):
        ResultsFile(tmp_path / "results.jsonl", {})


def test_data_that_cannot_be_written_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(given_data.np, "save", full)
    data = OwnData(values={"x": np.ones(3)})
    with pytest.raises(TikgenError, match="Cannot write the data to"), given_data.saved(data):
        pass


# Costs and limits.


@pytest.mark.parametrize("error", [NotImplementedError, ZeroDivisionError])
def test_a_template_without_a_cost_is_swept_and_one_that_fails_is_a_row(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def cost(problem: Any, sizes: Any) -> Any:
        raise error("of its own")

    template = find_template("map")
    monkeypatch.setattr(template, "cost", cost)
    space = space_of(
        template, shape=64, archs=("cpu",), baked=False, rounds=3, seed=0, params={"expr": "y = x"}
    )
    (combination,) = space.combinations()
    if error is NotImplementedError:
        assert (combination.kind, combination.cost) == ("", None)
        problem = tikgen.build("map", expr="y = x + 1").problem
        assert workload._work(template, problem, {"n0": 100}) == 800
    else:
        assert combination.kind == "error"
        assert "cost() fails: ZeroDivisionError" in combination.message


def test_a_limit_that_was_not_timed_is_unknown() -> None:
    job = copy_job("cpu", "f32", 1 << 20)
    failed = Done(job.work, Measurement("error", "no room"), "a device")
    limits = Limits({(job.work, "a device"): failed})
    assert limits.bandwidth("a device", "cpu", "f32", 1 << 20) is None
    assert limits.bandwidth("another", "cpu", "f32", 1 << 20) is None


# Devices and clusters.


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_device_that_answers_no_more_is_told(
    monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    def sync() -> None:
        if is_broken:
            raise RuntimeError("an illegal memory access")

    monkeypatch.setattr(worker, "measure", lambda *_, **__: Measurement("crash", "it died"))
    monkeypatch.setattr(work.runtime, "sync", sync)
    told: list[Any] = []
    assert "it died" in worker._answer(json.dumps([]), told.append)
    assert told == [{"stage": "broken", "note": ""}] * is_broken


def runner(**client: Any) -> Any:
    """Return a runner of a cluster that answers so."""
    made: Any = ClusterRunner.__new__(ClusterRunner)
    made._client, made._devices, made._workers = SimpleNamespace(**client), {"cpu": ("it",)}, {}
    return made


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(*_: Any, **__: Any) -> Any:
        raise error

    return raises


LOST: dict[str, tuple[Callable[[], Any], str]] = {
    "tikgen": (
        lambda: runner(run=raising(ImportError("tikgen"))).devices(["cpu"]),
        "workers cannot run tikgen; install the same version",
    ),
    "versions": (
        lambda: runner(run=lambda *_: {"tcp://a": OLD}).devices(["cpu"]),
        "worker at tcp://a has tikgen 0.0, and here is tikgen .*install the same versions",
    ),
    "the scheduler": (
        lambda: runner(nthreads=raising(OSError()))._addresses(),
        "scheduler is gone",
    ),
    "workers": (
        lambda: runner(wait_for_workers=raising(asyncio.TimeoutError()))._wait_for_workers(),
        "has had no worker for",
    ),
}
OLD = {"versions": {"tikgen": "0.0"}, "devices": {}}


@pytest.mark.parametrize("what", LOST)
def test_what_a_cluster_has_lost_is_told(what: str) -> None:
    pytest.importorskip("distributed")
    use, problem = LOST[what]
    with pytest.raises(TikgenError, match=problem):
        use()


def test_a_task_that_a_cluster_gives_up_has_an_outcome() -> None:
    distributed = pytest.importorskip("distributed")
    task: Any = SimpleNamespace(work="w", device="", job=SimpleNamespace(arch="cpu"))
    killed = distributed.KilledWorker("task", None, 3)
    for status, error, outcome in (
        ("error", killed, ("crash", "every worker that measured it died", True)),
        ("error", ValueError("no"), ("error", "ValueError: no", False)),
        ("cancelled", None, ("error", "Dask gave it up: the future is cancelled", False)),
    ):
        future = SimpleNamespace(status=status, exception=lambda error=error: error)
        done, is_kept = runner()._outcome(task, future)
        found = done.measurement
        assert (found.kind, found.message, is_kept, done.device) == (*outcome, "it")

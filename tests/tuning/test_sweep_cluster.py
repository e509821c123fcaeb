"""Sweeps on a real Dask cluster of two worker processes, and invalid addresses."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import built_in_templates
from some_cases import examples
from tikgen.errors import TikgenError
from tikgen.tuning.job import Job
from tikgen.tuning.sweeps import cluster
from tikgen.tuning.sweeps.results_file import Done, ResultsFile
from tikgen.tuning.sweeps.sweep import sweep

pytest.importorskip("distributed")


def _after_results(
    monkeypatch: pytest.MonkeyPatch, count: int, action: Callable[[], object]
) -> None:
    """Run an action after this many results were kept, before the sweep submits others."""
    add, kept = ResultsFile.add, itertools.count(1)

    def acting(self: ResultsFile, job: Job, done: Done) -> None:
        add(self, job, done)
        if next(kept) == count:
            action()

    monkeypatch.setattr(ResultsFile, "add", acting)


def _kept_processes() -> int:
    return len(cluster._processes)


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client, LocalCluster

    results = tmp_path / "results.jsonl"
    given: dict[str, Any] = {"dim": 1, "loop": "rows", "unroll": [1, 2], "shape": 64, "rounds": 2}
    given |= {"results": results, "boundary": ["zero", "periodic"][: examples(2, 1)]}
    count = 2 * len(given["boundary"])
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as workers,
        Client(workers) as client,
    ):
        victim, *_ = client.run(os.getpid).values()
        killed: list[int] = []

        def kill() -> None:
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

        _after_results(monkeypatch, count // 2 + 1, kill)
        result = sweep("stencil", **given, client=client)
        assert killed
        until = time.monotonic() + 120
        while any(client.run(_kept_processes).values()):
            assert time.monotonic() < until, "a worker keeps a process, and its arrays"
            time.sleep(0.1)
    assert [row["kind"] for row in result.rows] == ["timed"] * count, str(result)
    assert result.about["counts"]["measured"] == count
    works = [json.loads(line)["work"] for line in results.read_text().splitlines()]
    # With the limits. How many pairs meet in turn depends on the times.
    assert len(works) == len(set(works)) >= count + 2
    again = sweep("stencil", **given)
    assert again.about["counts"]["measured"] == 0  # This machine is the device that it ran on.
    assert again.rows == result.rows
    with pytest.raises(TikgenError, match="takes a client that is connected; this one is closed"):
        sweep("stencil", client=client, **given)


@pytest.mark.slow
def test_a_scheduler_is_given_by_its_address_and_may_go_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import LocalCluster

    results = tmp_path / "results.jsonl"
    given = {"dim": 1, "loop": "rows", "shape": 64, "rounds": 2, "results": results}
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as workers:
        address = workers.scheduler_address
        (row,) = sweep("stencil", **given, scheduler=address).rows
        assert row["kind"] == "timed"

        _after_results(monkeypatch, 1, workers.close)
        with pytest.raises(TikgenError, match="scheduler is gone"):
            sweep("stencil", **given | {"unroll": [1, 2, 4]}, scheduler=address)
    cluster._stop_processes()  # The worker was a thread of this process.


def test_an_address_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # Bound, so that no one else uses it, and not listening.
        port = unused.getsockname()[1]
        with pytest.raises(TikgenError, match=f"tcp://127.0.0.1:{port}' does not answer"):
            sweep("stencil", shape=16, scheduler=f"tcp://127.0.0.1:{port}")
    for wrong in ("nonsense", "tcp://host", "tcp://host:port"):
        with pytest.raises(TikgenError, match=f"'{wrong}' is no address"):
            sweep("stencil", shape=16, scheduler=wrong)


@pytest.mark.parametrize("name", sorted(built_in_templates()))
def test_a_template_travels_with_its_files(name: str) -> None:
    from tikgen.template.base import BUILTIN_FOLDER, Template

    package = cluster.Package.of(str(BUILTIN_FOLDER / name))
    folder = cluster._unpack(package)
    assert Template(folder).fingerprint == package.fingerprint
    other = cluster.Package(package.name, "0" * 64, package.files)
    with pytest.raises(TikgenError, match="other shared macros"):
        cluster._unpack(other)

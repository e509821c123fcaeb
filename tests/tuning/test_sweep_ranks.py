"""Sweeps on ranks: kernels on grids that processes of MPI share, and what may go wrong there."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import ranks
from test_sweep import FakeRunner, space
from tikgen.cli import sweep_command as command
from tikgen.errors import GridError, ParameterError, TikgenError
from tikgen.grid.processes import Processes, processes_of
from tikgen.grid.transports import Alone
from tikgen.template.base import Template
from tikgen.template.layers import absorbing
from tikgen.tuning.job import RanksJob, job_of
from tikgen.tuning.ranks import launching
from tikgen.tuning.ranks.agreement import Ends, agreed
from tikgen.tuning.ranks.division import ARCHS
from tikgen.tuning.ranks.measuring import forget, measure
from tikgen.tuning.sweeps import cluster
from tikgen.tuning.sweeps import sweep as sweeping
from tikgen.tuning.sweeps.sweep import sweep
from tikgen.tuning.sweeps.table import SweepResult
from tikgen.tuning.workload import Workload
from tuning_templates import DOUBLE_CODE, DOUBLE_TEXT, make

HEAT: dict[str, Any] = {
    "equations": "u' = u + dt*lap(u); most = max(u')",
    "scalars": "dt",
    "boundary": {"x": "periodic", "y": "clamp"},
    "dim": 2,
}


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> FakeRunner:
    """Measure nothing, and start no ranks."""
    fake = FakeRunner()
    monkeypatch.setattr(sweeping, "LocalRunner", fake)
    monkeypatch.setattr(sweeping, "problem_of", lambda _: "")
    return fake


@pytest.fixture
def double(tmp_path: Path) -> Template:
    """Return a template whose kernels fail on all ranks but the first."""
    return make(tmp_path, "double", DOUBLE_TEXT, DOUBLE_CODE)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Mark the processes that the test starts, by their environment."""
    monkeypatch.setenv("TIKGEN_TEST_MARK", str(tmp_path))
    return f"TIKGEN_TEST_MARK={tmp_path}"


def wait_until_gone(mark: str) -> None:
    """Wait until no process has the mark."""

    def left() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark.encode() in path.read_bytes():
                    found.append((path.parent / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return found

    until = time.monotonic() + 120
    while found := left():
        assert time.monotonic() < until, found
        time.sleep(0.05)


# On real ranks.


@pytest.mark.parametrize(
    "texts",
    [
        [HEAT["equations"]],
        pytest.param([HEAT["equations"], "u = u + dt*v; total = sum(u*v)"], marks=pytest.mark.slow),
    ],
    ids=len,
)
def test_a_step_is_verified_and_timed_on_ranks_and_a_sweep_goes_on(
    texts: list[str], tmp_path: Path, mark: str
) -> None:
    ranks.mpiexec()
    path = tmp_path / "results.jsonl"
    given: dict[str, Any] = {"shape": (40, 30), "rounds": 2, "results": path, **HEAT}
    given["equations"] = texts
    found = sweep("update", ranks=2, **given)
    wait_until_gone(mark)
    assert len(found.rows) == len(texts)
    for row in found.rows:
        assert row["kind"] == "timed", row["message"]
        assert (row["ranks"], row["shape"], row["part"]) == (2, "40x30", None)
        assert row["seconds"] > 0 and row["gb_per_s"] > 0 and 0 < row["worst"] <= 1
    jobs = [json.loads(line)["job"] for line in path.read_text().splitlines()]
    on_ranks = [(job["ranks"], job["launcher"]) for job in jobs if job["template"] == "update"]
    assert on_ranks == [(2, "")] * len(texts)
    again = sweep("update", ranks=2, **given)
    assert again.about["counts"]["measured"] == 0
    assert again.rows == found.rows


@pytest.mark.slow
def test_matched_layers_are_measured_on_ranks(mark: str) -> None:
    ranks.mpiexec()
    sides = {"x": absorbing(4, kind="cpml"), "y": "zero"}
    wave = "old = 2*p - old + dt*lap(p)"
    given: dict[str, Any] = {"dim": 2, "scalars": "dt", "boundary": sides, "order": 4}
    (row,) = sweep("update", ranks=2, shape=(31, 17), rounds=2, equations=wave, **given).rows
    wait_until_gone(mark)
    assert row["kind"] == "timed", row["message"]
    assert 0 < row["worst"] <= 1


def test_what_fails_on_one_rank_is_the_outcome_of_the_kernel(double: Template, mark: str) -> None:
    ranks.mpiexec()
    ways = ["wrong", "crashing", "unknown to Taichi", "plain"]
    wrong, crashing, unknown, plain = sweep(double, shape=100, ranks=2, way=ways, rounds=2).rows
    wait_until_gone(mark)
    assert wrong["kind"] == "mismatch" and wrong["message"].startswith("y[54] is ")
    assert crashing["kind"] == "crash"
    assert unknown["kind"] == "error"
    assert unknown["message"].startswith("rank 1: KernelCompileError")
    assert plain["kind"] == "timed"


@pytest.mark.slow
def test_ranks_that_hang_are_ended(double: Template, mark: str) -> None:
    ranks.mpiexec()
    (row,) = sweep(double, shape=100, ranks=2, way="hanging", timeout=2, rounds=2).rows
    assert row["kind"] == "timeout"
    wait_until_gone(mark)


@pytest.mark.slow
def test_a_worker_of_a_cluster_starts_ranks(double: Template, mark: str) -> None:
    pytest.importorskip("distributed")
    ranks.mpiexec()
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as workers,
        Client(workers) as client,
    ):
        row, refused = sweep(
            double, shape=[100, 1], ranks=2, rounds=2, client=client, launcher="mpiexec"
        ).rows
        assert (row["kind"], row["ranks"]) == ("timed", 2), row["message"]
        assert "too few for 2 ranks" in refused["message"]
    cluster._stop_processes()  # The worker was a thread of this process.
    wait_until_gone(mark)


def test_a_launcher_of_another_mpi_is_told(double: Template, tmp_path: Path) -> None:
    ranks.mpiexec()
    script = tmp_path / "launcher"
    script.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    script.chmod(0o755)
    with pytest.raises(TikgenError, match=r"cpu with 2 ranks does not work here: .* there are 1"):
        sweep(double, shape=100, ranks=2, launcher=str(script))


# In this process.


@pytest.mark.once
def test_where_the_reference_takes_long_one_process_says_what_is_expected(
    ti_arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ti_arch not in ARCHS:
        pytest.skip(f"there are no ranks on {ti_arch}")
    monkeypatch.setattr(Workload, "_reference_is_affordable", lambda *_: False)
    job = next(space("update", shape=32, ranks=1, archs=(ti_arch,), **HEAT).combinations()).job
    assert isinstance(job, RanksJob)
    told: list[str] = []
    found = measure(processes_of(None), job, job, on_stage=lambda name, _: told.append(name))
    forget()
    assert found.ok and found.seconds > 0, found.message
    assert found.baseline_seconds > 0 and len(found.ratios) == found.rounds
    assert told == ["built", "prepared", "compiled"]


# Without any.


def test_ranks_are_an_axis(runner: FakeRunner) -> None:
    result = sweep("update", shape=[32, 48], ranks=[1, 2, 4], **HEAT)
    assert [row["ranks"] for row in result.rows] == [1, 2, 4] * 2
    assert result.about["axes"] == ["shape", "ranks"]
    assert result.axes == ("shape", "ranks")
    assert result.best(ranks=4)["ranks"] == 4
    jobs = [task.job for task in runner.ran if task.job.template == "update"]
    assert {job.group for job in jobs} == {("cpu", n, "") for n in "124"}
    assert len({task.work for task in runner.ran}) == len(runner.ran)
    assert not runner.again  # Another number of ranks is another problem.
    assert all(job.params["part"] is None for job in jobs)


def test_kernels_on_the_same_ranks_meet_in_turn(runner: FakeRunner) -> None:
    sweep("update", shape=32, ranks=[2, 3], loop=["function", "points"], **HEAT)
    assert len(runner.again) == 2


def test_another_launcher_is_another_work() -> None:
    given = {"template": "update", "shape": 32, "ranks": 2, **HEAT}
    one, other = (next(space(**given, launcher=text).combinations()) for text in ("", "srun"))
    assert isinstance(other.job, RanksJob) and other.job.launcher == "srun"
    assert one.work != other.work


def test_a_sweep_without_ranks_knows_none(runner: FakeRunner) -> None:
    result = sweep("update", shape=32, **HEAT)
    assert "ranks" not in result.columns
    assert not any("ranks" in task.job.line for task in runner.ran)
    assert job_of(runner.ran[0].job.line).group == ("cpu",)


def test_a_job_on_ranks_travels_as_a_line() -> None:
    job = next(space("update", shape=32, ranks=3, **HEAT).combinations()).job
    assert job is not None
    found = job_of(job.line)
    assert vars(found) | {"line": ""} == vars(job) | {"line": ""}
    assert found.place == "cpu with 3 ranks"


@pytest.mark.parametrize(
    ("template", "given", "says"),
    [
        ("update", {"ranks": 0}, "'ranks' takes a positive integer, or a list of these; got 0"),
        ("update", {"ranks": [2, True]}, "got True"),
        ("update", {"ranks": 2.0}, "got 2.0"),
        ("update", {"ranks": []}, "empty list"),
        ("update", {"ranks": 2, "baked": True}, "'baked' is given along with ranks"),
        ("update", {"launcher": "srun"}, "say how many by ranks"),
        ("update", {"ranks": 2, "launcher": "a 'b"}, "'launcher' takes a command"),
        ("update", {"ranks": 2, "launcher": ["srun"]}, "'launcher' takes a command"),
        ("update", {"ranks": 2, "shape": 1}, "1 x 1 points are too few for 2 ranks"),
        ("update", {"ranks": 5, "shape": (9, 8), "order": 8}, "4 x 4 or more.* 4 fit"),
        ("update", {"ranks": 2, "archs": ("vulkan",)}, "not supported on vulkan"),
        ("update", {"ranks": 2, "window": True, "equations": "u' = u + dt*lap(u)"}, "no window="),
        ("update", {"ranks": 2, "part": ((0, 0, 0, 32),) * 2}, "takes no part="),
        ("stencil", {"ranks": 2}, "stencil does not run on ranks"),
    ],
    ids=str,
)
def test_what_cannot_run_on_ranks_is_refused_before_anything_is_started(
    runner: FakeRunner, template: str, given: dict[str, Any], says: str
) -> None:
    heat = HEAT if template == "update" else {}
    with pytest.raises(TikgenError, match=says):
        sweep(template, **{"shape": 32, **heat, **given})
    assert not runner.ran


def test_a_grid_that_is_too_small_is_a_row_beside_others(runner: FakeRunner) -> None:
    few, many = sweep("update", shape=4, ranks=[2, 64], **HEAT).rows
    assert (few["kind"], many["kind"]) == ("timed", "refused")
    assert "too few for 64 ranks" in many["message"]


def test_what_starts_ranks_may_be_missing(
    monkeypatch: pytest.MonkeyPatch, double: Template
) -> None:
    ranks.mpiexec()
    with pytest.raises(GridError, match=r"double: there is no such-launcher$"):
        sweep(double, shape=9, ranks=2, launcher="such-launcher -v")
    monkeypatch.setattr(launching, "_found", lambda name: None)
    with pytest.raises(GridError, match="there is no mpiexec: pip install mpich"):
        sweep(double, shape=9, ranks=2)
    monkeypatch.setattr(launching.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GridError, match=r"ranks need mpi4py: pip install 'tikgen\[mpi\]'"):
        sweep(double, shape=9, ranks=2)
    assert "mpi4py" in launching.RanksProcess("cpu", 2, "", 1.0).start()


def test_the_launcher_is_told_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    srun = tmp_path / "srun"
    srun.touch(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    assert launching.command_of("srun --mpi='p x'", 3) == [str(srun), "--mpi=p x", "-n", "3"]


class Team(Alone):
    """Two ranks, of which the other one has another value."""

    size = 2

    def __init__(self, other: Any) -> None:
        self.other = other

    def all(self, value: Any, awaited: str = "") -> list[Any]:
        return [value, self.other]


def test_all_ranks_know_of_a_failure() -> None:
    assert agreed(Processes(Team(None)), lambda: 3) == 3

    def refuse() -> int:
        raise ParameterError("update", {"loop": "is none"})

    with pytest.raises(Ends) as ended:
        agreed(Processes(Team(None)), refuse)
    own = ended.value.outcome
    assert (own.kind, own.message) == ("refused", "update: parameter 'loop' is none.")
    with pytest.raises(Ends) as ended:
        agreed(Processes(Team(own)), lambda: 3)
    assert ended.value.outcome.message == f"rank 1: {own.message}"


def test_the_command_takes_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    import typer
    from typer.testing import CliRunner

    taken: dict[str, Any] = {}

    def swept(name: str, **given: Any) -> SweepResult:
        taken.update(given)
        raise TikgenError("enough")

    monkeypatch.setattr(sweeping, "sweep", swept)
    app = typer.Typer()
    app.command("other")(lambda: None)
    app.command("sweep")(command.sweep_command)
    words = "sweep map -p expr=y=x --shape 64 --ranks 1 --ranks 4 --x ranks"
    shown = CliRunner().invoke(app, [*words.split(), "--launcher", "srun --mpi=pmix"])
    assert str(shown.exception) == "enough", shown.output
    assert (taken["ranks"], taken["launcher"]) == ([1, 4], "srun --mpi=pmix")
    shown = CliRunner().invoke(app, ["sweep", "map", "-p", "expr=y=x", "--shape", "9"])
    assert (taken["ranks"], taken["launcher"]) == (None, None)
    shown = CliRunner().invoke(app, ["sweep", "map", "-p", "expr=y=x", "--x", "ranks"])
    assert "'ranks' is unknown" in str(shown.exception)

"""Sweeps: combinations, measurements, and the results file."""

from __future__ import annotations

import errno
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import ARCH
from some_cases import examples
from tikgen.errors import ParameterError, StoreWarning, TikgenError, UnknownTemplate
from tikgen.pipeline import records
from tikgen.pipeline.builder import resolve
from tikgen.template.base import Template
from tikgen.template.catalogue import find_template
from tikgen.tuning.job import Measurement
from tikgen.tuning.sweeps import results_file
from tikgen.tuning.sweeps import sweep as sweeping
from tikgen.tuning.sweeps.combinations import SweepSpace, space_of
from tikgen.tuning.sweeps.limits import copy_job
from tikgen.tuning.sweeps.playoff import works_of
from tikgen.tuning.sweeps.results_file import Done
from tikgen.tuning.sweeps.runners import Task, absence
from tikgen.tuning.sweeps.sweep import sweep
from tuning_templates import SCALED_CODE, SCALED_TEXT, TWICE_CODE, TWICE_TEXT, make

DEVICE = "a device"


class FakeRunner:
    """Measures nothing: says at once that each kernel takes 1, 2, 3, ... ms."""

    width = 1

    def __init__(self) -> None:
        self.ran: list[Task] = []
        # What was measured in turn: the works, and by which factor a kernel is slower than before.
        self.again: list[str] = []
        self.slower: dict[str, float] = {}
        self.took: dict[str, float] = {}
        self.interrupt_after: int | None = None
        self.device = DEVICE

    def __call__(self, timeout: float) -> FakeRunner:
        return self

    def devices(self, archs: Sequence[str]) -> Mapping[str, Sequence[str]]:
        return dict.fromkeys(archs, (self.device,))

    def run(self, tasks: deque[Task]) -> Iterator[tuple[Task, Done, bool]]:
        while tasks:
            task = tasks.popleft()
            if task.baseline is not None:
                self.again.append(task.work)
                yield task, Done(task.work, self._beside(task.work), self.device), True
                continue
            if self.interrupt_after is not None and len(self.ran) >= self.interrupt_after:
                raise KeyboardInterrupt
            self.ran.append(task)
            self.took[task.work] = seconds = 1e-3 * len(self.ran)
            found = Measurement("timed", seconds=seconds, rounds=task.job.rounds)
            yield task, Done(task.work, found, self.device), True

    def _beside(self, works: str) -> Measurement:
        one, other = (self.took[w] * self.slower.get(w, 1.0) for w in works_of(works))
        return Measurement("timed", seconds=one, baseline_seconds=other, ratio=one / other)

    @property
    def stencils(self) -> list[Task]:
        return [task for task in self.ran if task.job.template == "stencil"]


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> FakeRunner:
    fake = FakeRunner()
    monkeypatch.setattr(sweeping, "LocalRunner", fake)
    return fake


def space(template: str | Template = "stencil", **given: Any) -> SweepSpace:
    options = {"shape": 32, "archs": ("cpu",), "baked": False, "rounds": 2, "seed": 0}
    options |= {"ranks": None, "launcher": ""}
    params = {k: v for k, v in given.items() if k not in options}
    options |= {k: v for k, v in given.items() if k in options}
    return space_of(find_template(template), params=params, **options)


def test_lists_are_axes_and_anything_else_is_one_value() -> None:
    found = list(
        space(
            dim=2,
            dtype=["f32", "f64", "f32"],
            spacing=(1.0, 2.0),
            shape=[(8, 9), 16, (16, 16), {"n0": 8, "n1": 9}],
            baked=[False, True],
        ).combinations()
    )
    assert len(found) == 2 * 2 * 2
    assert {c.cells["spacing"] for c in found} == {(1.0, 2.0)}
    assert {c.cells["shape"] for c in found} == {"8x9", "16x16"}
    assert found[0].cells["size_n1"] == 9
    assert all(c.job is not None and c.job.baked is c.cells["baked"] for c in found)
    assert len({c.work for c in found}) == len(found)


def test_equal_code_on_equal_arrays_is_the_same_work(tmp_path: Path) -> None:
    template = make(tmp_path, "twice", TWICE_TEXT, TWICE_CODE)
    given = {"way": "plain", "idle": [1, 2]}
    one, other = space(template, **given).combinations()
    assert other.work == one.work
    larger = next(space(template, **given, shape=33).combinations())
    assert larger.digest == one.digest
    assert larger.work != one.work


def test_the_work_does_not_depend_on_the_seed() -> None:
    assert next(space(seed=1).combinations()).work == next(space(seed=2).combinations()).work


def test_a_refused_combination_is_a_row_with_the_reason(runner: FakeRunner) -> None:
    result = sweep(
        "stencil",
        dim=[1, 2],
        boundary=["interior", "zero"],
        loop="rows",
        row_buffer=32,
        unroll=1,
        shape=(9, 9),
    )
    assert [row["kind"] for row in result.rows] == ["refused", "refused", "timed", "refused"]
    assert "boundary='interior'" in result.rows[3]["message"]
    assert "shape" in result.rows[0]["message"]
    assert result.about["counts"]["refused"] == 3
    assert len(runner.stencils) == 1
    assert "1 refused: " in str(result)


def test_equal_kernels_share_one_measurement(runner: FakeRunner, tmp_path: Path) -> None:
    template = make(tmp_path, "twice", TWICE_TEXT, TWICE_CODE)
    result = sweep(template, way=["slow", "plain"], idle=[1, 2], shape=32)
    assert sum(task.job.template == "twice" for task in runner.ran) == 2
    first, second, third, fourth = result.rows
    assert first["seconds"] == second["seconds"] != third["seconds"] == fourth["seconds"]
    assert result.about["counts"]["same"] == 2


def test_rates_and_the_share_follow_from_the_limits(runner: FakeRunner) -> None:
    row = sweep("stencil", dim=2, dtype="f32", shape=(64, 128)).best()
    copy, fma, stencil = runner.ran
    assert (copy.job.template, fma.job.template) == ("map", "peak")
    assert row["bytes"] == 2 * 4 * 64 * 128
    assert row["gb_per_s"] == pytest.approx(row["bytes"] / 3e-3 / 1e9)
    assert row["limit_gb_per_s"] == pytest.approx(2 * 4 * copy.job.sizes["n0"] / 1e-3 / 1e9)
    peak = 2 * fma.job.params["steps"] * fma.job.sizes["n"] / 2e-3
    assert row["limit_gflop_per_s"] == pytest.approx(peak / 1e9)
    assert row["share"] == pytest.approx(
        max(row["gb_per_s"] / row["limit_gb_per_s"], row["gflop_per_s"] / row["limit_gflop_per_s"])
    )
    assert stencil.job.sizes == {"n0": 64, "n1": 128}


FOUR = {"dim": 2, "loop": "rows", "row_buffer": [0, 16, 32, 64], "unroll": 1, "shape": 64}


@pytest.mark.parametrize(
    ("slower", "met", "best"),
    [
        ([1, 1, 1, 1], 3, 0),
        ([3, 1, 1, 1], 3, 16),
        ([3, 2, 0.5, 1], 3, 32),
        ([9, 9, 9, 1], 4, 64),
    ],
)
def test_the_fastest_kernels_of_a_problem_are_measured_again_in_turn(
    runner: FakeRunner, slower: list[float], met: int, best: int
) -> None:
    runner.slower = dict(
        zip([c.work for c in space(**FOUR).combinations()], slower, strict=True)  # type: ignore[arg-type]
    )
    result = sweep("stencil", **FOUR, rounds=2)
    assert result.best()["row_buffer"] == best
    assert result.best()["ratio"] == 1
    found = [row for row in result.rows if row["ratio"] is not None]
    assert len(found) == met == len(runner.again) + 1
    for seconds, factor, row in zip((3e-3, 4e-3, 5e-3, 6e-3), slower, found, strict=False):
        assert row["seconds"] == pytest.approx(factor * seconds)  # The limits take 1 and 2 ms.
        assert row["ratio"] == pytest.approx(row["seconds"] / result.best()["seconds"])
        assert row["gb_per_s"] == pytest.approx(row["bytes"] / row["seconds"] / 1e9)


def test_kernels_of_different_problems_are_not_measured_in_turn(runner: FakeRunner) -> None:
    result = sweep("stencil", order=[2, 4], shape=[16, 32])
    assert not runner.again
    assert {row["ratio"] for row in result.rows} == {None}


def test_measurements_in_turn_are_kept_in_the_results_file(
    runner: FakeRunner, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    whole = sweep("stencil", **FOUR, results=path)
    again = sweep("stencil", **FOUR, results=path)
    assert again.rows == whole.rows
    assert len(runner.again) == 2
    *lines, _ = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines))
    assert sweep("stencil", **FOUR, results=path).rows == whole.rows
    assert len(runner.again) == 3


def test_a_kernel_that_fails_in_turn_keeps_its_time(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_beside", lambda works: Measurement("timeout", "hangs"))
    result = sweep("stencil", **FOUR)
    assert len(runner.again) == 2
    assert [row["kind"] for row in result.rows] == ["timed"] * 4
    assert result.best()["ratio"] is None


def test_equal_code_for_another_problem_has_a_reference_of_its_own(
    runner: FakeRunner, tmp_path: Path
) -> None:
    # If the text lacked ``mode`` by mistake, one of the two would be wrong.
    scaled = make(tmp_path, "scaled", SCALED_TEXT, SCALED_CODE)
    one, other = sweep(scaled, mode=["one", "other"], shape=64).rows
    assert one["digest"] == other["digest"]
    assert one["seconds"] != other["seconds"]
    # The limits of the machine may have been measured as well.
    assert len([task for task in runner.ran if "mode" in task.job.params]) == 2


def test_an_interrupted_sweep_keeps_its_measurements_and_continues(
    runner: FakeRunner, tmp_path: Path
) -> None:
    given: dict[str, Any] = {
        "dim": 2,
        "order": [2, 4, 6],
        "shape": [32, 48],
        "results": tmp_path / "results.jsonl",
    }
    runner.interrupt_after = 5
    partial = sweep("stencil", **given)
    assert not partial.about["complete"]
    assert "INTERRUPTED" in str(partial)
    assert {row["kind"] for row in partial.rows} == {"timed", "missing"}
    runner.interrupt_after = None
    whole = sweep("stencil", **given)
    assert whole.about["complete"]
    assert {row["kind"] for row in whole.rows} == {"timed"}
    assert len({task.work for task in runner.ran}) == len(runner.ran)
    before = len(runner.ran)
    again = sweep("stencil", **given)
    assert len(runner.ran) == before
    assert again.rows == whole.rows
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == before


def test_a_last_line_that_was_cut_off_is_measured_again(runner: FakeRunner, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    sweep("stencil", order=[2, 4], shape=16, results=path)
    count = len(runner.ran)
    path.write_text(path.read_text()[:-40])
    with pytest.warns(StoreWarning, match="cut off"):
        sweep("stencil", order=[2, 4], shape=16, results=path)
    assert len(runner.ran) == count + 1
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == count
    path.write_text(path.read_text()[:-1])  # A whole line without an end counts.
    sweep("stencil", order=[2, 4, 6], shape=16, results=path)
    assert len(runner.ran) == count + 2
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == count + 1
    with path.open("a") as file:
        file.write("{\n{}\n")
    with pytest.warns(StoreWarning, match="2 of its lines are damaged, and do not count"):
        sweep("stencil", order=[2, 4], shape=16, results=path)
    assert len(runner.ran) == count + 2


@pytest.mark.parametrize("kind", ["timeout", "crash", "refused", "error"])
def test_outcomes_that_may_be_due_to_a_busy_machine_are_measured_again(
    runner: FakeRunner, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "results.jsonl"
    sweep("stencil", shape=16, results=path)
    *limits, line = path.read_text().splitlines()
    failed = json.loads(line)
    failed["measurement"] |= {"kind": kind, "seconds": 0.0}
    path.write_text("\n".join([*limits, json.dumps(failed)]))
    runner.ran.clear()
    (row,) = sweep("stencil", shape=16, results=path).rows
    assert row["kind"] == ("error" if kind == "error" else "timed")
    assert len(runner.ran) == (kind != "error")


@pytest.mark.parametrize(
    "wrong",
    [
        {"work": ["x"]},
        {"measurement": {"kind": "timed", "seconds": None}},
        {"measurement": {"kind": "timed", "seconds": "fast"}},
        {"measurement": {"kind": "timed"}},
    ],
    ids=str,
)
def test_a_line_without_a_valid_measurement_is_damaged(
    runner: FakeRunner, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    path = tmp_path / "results.jsonl"
    sweep("stencil", shape=16, results=path)
    *limits, line = path.read_text().splitlines()
    path.write_text("\n".join([*limits, json.dumps(json.loads(line) | wrong)]))
    runner.ran.clear()
    with pytest.warns(StoreWarning, match="cut off"):
        sweep("stencil", shape=16, results=path)
    assert len(runner.ran) == 1


def test_a_full_disk_does_not_end_a_sweep(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(path: Path, mode: str = "r", **named: Any) -> Any:
        if mode == "a":
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, mode, **named)

    monkeypatch.setattr(Path, "open", full)
    with pytest.warns(StoreWarning, match="the disk is full") as told:
        result = sweep("stencil", order=[2, 4], shape=16, results=tmp_path / "results.jsonl")
    assert len(told) == 1
    assert len(result.timed) == 2


def test_a_device_that_joins_later_has_rows(runner: FakeRunner) -> None:
    listed = dict.fromkeys(["cpu"], ("another device",))
    runner.devices = lambda archs: listed  # type: ignore[method-assign]
    result = sweep("stencil", order=[2, 4], shape=16)
    assert [row["device"] for row in result.rows] == [DEVICE] * 2
    assert result.about["devices"] == {"cpu": ["another device", DEVICE]}


def test_limits_do_not_depend_on_what_was_tuned_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "best_of", lambda *_: pytest.fail("took a record"))
    resolve("map", arch="cpu", **copy_job("cpu", "f32", 2**20).job.params)


@pytest.mark.parametrize("what", ["device", "taichi", "rounds"])
def test_results_of_another_device_or_version_do_not_count(
    runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    given: dict[str, Any] = {"shape": 16, "results": tmp_path / "results.jsonl", "rounds": 3}
    sweep("stencil", **given)
    before = len(runner.stencils)
    if what == "rounds":
        sweep("stencil", **given | {"rounds": 4})
    else:
        if what == "device":
            runner.device = "another device"
        else:
            monkeypatch.setattr(results_file, "taichi_version", lambda: "1.7.99")
        with pytest.warns(StoreWarning, match="measured again"):
            sweep("stencil", **given)
    assert len(runner.stencils) == before + 1


def test_metrics_choose_columns_and_compute_others(runner: FakeRunner) -> None:
    def points_per_s(row: dict[str, Any]) -> float:
        return row["size_n0"] / row["seconds"]

    def broken(row: dict[str, Any]) -> float:
        return row["nothing"]

    def share(row: dict[str, Any]) -> float:
        return 1.0

    with pytest.raises(ParameterError, match="'share', as another column"):
        sweep("stencil", shape=16, metrics=["seconds", share])
    with pytest.warns(RuntimeWarning, match="broken fails"):
        result = sweep("stencil", shape=16, metrics=["seconds", points_per_s, broken])
    assert result.columns[-3:] == ("seconds", "points_per_s", "broken")
    assert "share" not in result.columns
    assert result.best("points_per_s")["points_per_s"] == 16 / result.rows[0]["seconds"]
    assert result.rows[0]["broken"] is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"shap": 3}, "shap"),
        ({"unrol": [1]}, "Did you mean 'unroll'"),
        ({"arch": "cpu"}, "Did you mean 'archs'"),
        ({"dtype": []}, "empty list"),
        ({"archs": "cpu"}, "takes a sequence"),
        ({"archs": ["cpu", "gpu"]}, "'gpu'"),
        ({"archs": []}, "empty list"),
        ({"shape": None}, "'shape' is missing"),
        ({"shape": [0]}, "positive integer for n0"),
        ({"shape": (1, 2)}, "takes n0, n1, n2"),
        ({"dim": [1, 2], "shape": (1, 2, 3)}, "none of the 2 combinations"),
        ({"dim": [3, 4]}, "'dim' takes an integer from 1 to 3; got 4"),
        ({"dtype": ["f32", "f99"]}, "'dtype' cannot be used: 'f99' is not one of"),
        ({"unroll": [2, 3]}, "'unroll' takes 1, 2, 4, 8 or 16; got 3"),
        ({"baked": 1}, "'baked'"),
        ({"rounds": 0}, "'rounds'"),
        ({"timeout": -1}, "'timeout'"),
        ({"timeout": None}, "'timeout'"),
        ({"seed": 1.5}, "'seed'"),
        ({"metrics": ["second"]}, "Did you mean 'seconds'"),
        ({"metrics": "seconds"}, "takes a list"),
        ({"metrics": [min, len, min]}, "'min', as another column"),
        ({"scheduler": ""}, "takes an address"),
        ({"scheduler": "tcp://x:1", "client": 1}, "one of them"),
        ({"client": 1}, "distributed.Client"),
        ({"results": 3}, "takes the path of a file"),
        ({"results": "/nowhere/results.jsonl"}, "folder does not exist"),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_is_measured(
    runner: FakeRunner, wrong: dict[str, Any], says: str
) -> None:
    if "client" in wrong:
        pytest.importorskip("distributed")
    with pytest.raises(TikgenError, match=says):
        sweep("stencil", **{"shape": 16, **wrong})
    assert not runner.ran


def test_where_no_arch_works_a_sweep_raises_with_the_reason(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(tasks: deque[Task]) -> Iterator[tuple[Task, Done, bool]]:
        while tasks:
            task = tasks.popleft()
            if task.job.arch == "cuda":
                yield task, Done(task.work, absence("cuda", "no driver"), DEVICE), False
            else:
                yield from measure(deque([task]))

    measure = runner.run
    monkeypatch.setattr(runner, "run", absent)
    with pytest.raises(TikgenError, match="cuda does not work here: no driver"):
        sweep("stencil", shape=16, archs=("cuda",))
    rows = sweep("stencil", shape=16, archs=("cpu", "cuda")).rows
    assert [row["kind"] for row in rows] == ["timed", "refused"]


def test_an_unknown_template_suggests_similar_names() -> None:
    with pytest.raises(UnknownTemplate, match="stencil"):
        sweep("stencl", shape=16)


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(ParameterError, match="1000000 combinations"):
        space(spacing=[1.0 + n for n in range(1000)], unroll=list(range(1000)))


def test_a_file_of_another_kind_is_not_changed(runner: FakeRunner, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    with pytest.raises(TikgenError, match="not a results file"):
        sweep("stencil", shape=16, results=path)
    assert path.read_text() == "my notes\n"


@pytest.mark.arch
@pytest.mark.once
def test_a_sweep_verifies_and_times_on_the_arch(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    shapes = [24, 40][: examples(2, 1)]
    result = sweep(
        "stencil", dim=2, order=[2, 4], shape=shapes, archs=(ARCH,), rounds=2, results=path
    )
    assert [row["kind"] for row in result.rows] == ["timed"] * 2 * len(shapes), str(result)
    for row in result.rows:
        assert row["seconds"] > 0
        assert 0 <= row["worst"] <= 1
        assert row["limit_gb_per_s"] > 0
        assert row["limit_gflop_per_s"] > 0
        assert row["share"] > 0
    spent = result.seconds
    assert 0 < spent["measuring"] < spent["total"]
    assert all(spent[name] > 0 for name in ("compiling", "verifying", "running", "overhead"))
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(kept) == len({line["work"] for line in kept})

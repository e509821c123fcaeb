"""Tuning records as TOML: export, import, and reports of what does not fit."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tikgen
from tikgen import engines, untrusted
from tikgen.children.process import ChildProcess
from tikgen.cli.app import app
from tikgen.errors import StoreWarning, TikgenError
from tikgen.machine.devices import device_name
from tikgen.pipeline import records
from tikgen.pipeline.builder import resolve
from tikgen.pipeline.records import Record
from tikgen.template.catalogue import find_template
from tikgen.template.parameters import plain
from tikgen.tuning import toml
from tikgen.tuning.exchange import Imported, export_records, import_records
from tikgen.tuning.job import Measurement
from tuning_templates import SCALED_CODE, SCALED_TEXT, Simulated, make


@pytest.fixture(autouse=True)
def _no_records(tmp_path: Path) -> Iterator[None]:
    make(tmp_path, "scaled", SCALED_TEXT, SCALED_CODE)
    make(tmp_path, "double", SCALED_TEXT, SCALED_CODE)
    records.forget(lambda record: True)
    yield
    records.forget(lambda record: True)


def record(name: str = "scaled", *, unroll: int = 4, ratio: float = 0.5, **more) -> Record:
    template = find_template(name)
    # A kernel may be that of another problem with the same code.
    variant = resolve(name, arch="cpu", schedule={}, **more.pop("problem", {}))
    schedule = dict(template.Schedule(unroll=unroll))
    fields = {
        "template": name,
        "fingerprint": template.fingerprint,
        "problem": records.problem_text(variant.problem),
        "arch": "cpu",
        "device": device_name("cpu"),
        "taichi": records.taichi_version(),
        "tikgen": tikgen.__version__,
        "sizes": {"n": 100},
        "schedule": schedule,
        "kind": "timed",
        "seconds": 1e-3 * ratio,
        "spread": 0.02,
        "rounds": 5,
        "ratio": ratio,
        "engine": engines.timed_by(engines.steady("cpu"), "cpu"),
        "when": "2026-11-20T19:00:00+00:00",
    }
    return Record(**fields | more)


def command(*arguments: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == exit_code, result.output
    return result.output


EVERY = {
    "plain": {},
    "points": {"problem": {"points": {(0, 0, 1): 0.5, (0, 0, 0): -2.0}, "dtype": "f64"}},
    "spacing": {"problem": {"spacing": (1.0, 0.1, 2.0), "mode": "other"}},
    "expression": {"problem": {"expr": "2 * x + sin(x)"}},
    "elsewhere": {"device": 'NVIDIA "H200"\x7f\\\nü', "arch": "cuda"},
    "failed": {"kind": "mismatch", "seconds": 0.0, "ratio": 0.0, "message": "y[0] is 1\n# no"},
}


@pytest.mark.parametrize("case", EVERY)
def test_exported_records_are_imported_unchanged(tmp_path: Path, case: str) -> None:
    wanted = record(**EVERY[case])
    records.keep(wanted)
    assert export_records(tmp_path / "tuned.toml", everything=True) == 1
    assert records.forget(lambda r: True) == 1
    found = import_records(tmp_path / "tuned.toml")
    assert (found.kept, found.ignored) == (1, ())
    assert records.all_records() == (wanted,)


def test_any_schedule_is_exported_and_imported(tmp_path: Path) -> None:
    more = 'unroll: Literal[1, 2, 4, 8, 16] = parameter("which unroll", 1)'
    lanes = 'lanes: int | None = parameter("of no meaning", 3)'
    tiles = 'tiles: tuple[int | None, ...] = parameter("of no meaning", (1,))'
    code = SCALED_CODE.replace(more, f"{more}\n        {lanes}\n        {tiles}")
    make(tmp_path, "laned", SCALED_TEXT, code)
    for tiling in ((4, 8), (4, None)):
        schedule = {"unroll": 8, "block_dim": 32, "lanes": None, "tiles": tiling}
        records.forget(lambda r: True)
        records.keep(record("laned", schedule=schedule))
        assert export_records(tmp_path / "tuned.toml") == records.forget(lambda r: True) == 1
        assert import_records(tmp_path / "tuned.toml").ignored == ()
        (found,) = records.all_records()
        assert plain(found.schedule) == schedule


def test_the_best_of_each_problem_shape_and_device_is_exported(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    slow, fast = record(unroll=2, ratio=0.9), record(unroll=8, ratio=0.4)
    failed = record(unroll=16, kind="crash", ratio=0.0)
    other = record(unroll=1, ratio=1.0, device="another")
    records.keep_all([slow, fast, failed, other, record("double")])
    assert export_records(path, "scaled") == 2
    entries = untrusted.from_toml(path.read_text())["record"]
    assert [e["schedule"]["unroll"] for e in entries] == [8, 1]
    assert entries[0]["problem"]["mode"] == "one"
    assert "# scaled with n=100 on cpu: 0.4 ms, 2.50 times as fast" in path.read_text()
    assert export_records(path, everything=True) == 5


def test_records_may_be_edited_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    records.keep(record(unroll=2))
    export_records(path)
    path.write_text(path.read_text().replace("unroll = 2", "unroll = 8"))
    records.forget(lambda r: True)
    assert import_records(path).kept == 1
    kernel = tikgen.build("scaled", schedule="tuned", arch="cpu")
    assert kernel.params["unroll"] == 8


@pytest.mark.parametrize(("old", "new"), [("unroll = 2", "unroll = 8"), ("= 0.5", "= 0.1")])
def test_an_edited_record_claims_nothing(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "tuned.toml"
    records.keep(record(unroll=2, ratio_low=0.4, ratio_high=0.6, workload="own", data="ab"))
    for again in range(2):
        export_records(path)
        path.write_text(path.read_text().replace(old, new) if not again else path.read_text())
        records.forget(lambda r: True)
        assert import_records(path) == Imported(1, ())
        (found,) = records.all_records()
        assert (found.kind, found.ratio, found.seconds, found.workload) == (
            "edited",
            0,
            0,
            "typical",
        )
    origin = tikgen.build("scaled", schedule="tuned", arch="cpu").schedule_origin
    assert origin.startswith("given for n=100 on ")
    assert origin.endswith(", edited by hand, not measured")
    assert "fast as the default" not in path.read_text()
    assert "edited by hand, not measured" in command("tuned", "show")
    measured = record(unroll=4, ratio=0.9)
    records.keep(measured)
    assert records.best_of(records.all_records(), {"n": 100}) == measured


def test_an_edited_failure_and_a_file_of_an_older_version(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    records.keep(record(unroll=2, kind="mismatch", ratio=0.0))
    export_records(path, everything=True)
    text = path.read_text()
    path.write_text(text.replace("unroll = 2", "unroll = 8"))
    (line,) = import_records(path).ignored
    assert "was edited by hand, so that its kind 'mismatch' was not measured" in line
    records.forget(lambda r: True)
    records.keep(record(unroll=2))
    export_records(path)
    path.write_text(re.sub("digest = .*", "", path.read_text()))
    assert import_records(path).kept == 1
    assert records.all_records() == (record(unroll=2),)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("unroll = 4", "unroll = 3", "unroll"),
        ("unroll = 4", "enroll = 4", "enroll"),
        ("block_dim = 32, unroll = 4", "block_dim = 512, unroll = 16", "too much"),
        ('mode = "one"', 'mode = "two"', "mode"),
        ("n = 100", "n = 0", "shape"),
        ("n = 100", "n7 = 100", "shape"),
        ('template = "scaled"', 'template = "pencil"', "1 record of 'pencil': .*not found here"),
        ('fingerprint = "', 'fingerprint = "f', "another version of the template"),
        ('taichi = "', 'taichi = "0.', "made with Taichi 0."),
        ('arch = "cpu"', 'arch = "abacus"', "'abacus' is unknown"),
        ('device = "', 'gadget = "', "lacks device"),
        ("seconds = 0.0005", "seconds = true", "seconds cannot be True"),
        ("seconds = 0.0005", "seconds = -1.0", "seconds cannot be -1.0"),
        ("seconds = 0.0005", "seconds = inf", "seconds cannot be inf"),
        ("seconds = 0.0005", "seconds = 0", "lacks seconds"),
        ("ratio = 0.5", "ratio = nan", "ratio cannot be nan"),
        ("ratio = 0.5", "ratio = -1.0", "ratio cannot be -1.0"),
        ("rounds = 5", "rounds = 2.5", "rounds cannot be 2.5"),
        ('when = "2026', 'when = "yesterday 2026', "when cannot be 'yesterday"),
        ("seconds = 0.0005", "moments = 1", "has moments"),
        ('kind = "timed"', 'kind = "guessed"', "'guessed'"),
        ("schedule = {", "schedule = 5 # {", "schedule cannot be 5"),
        ("problem = {", "problem = {nope = 1, ", r"'nope' is unknown\. scaled takes dtype"),
    ],
)
def test_invalid_records_are_reported_and_the_others_imported(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = tmp_path / "tuned.toml"
    records.keep_all([record(), record("double")])
    export_records(path)
    head, double, scaled = path.read_text().split("[[record]]")
    assert old in scaled
    path.write_text("[[record]]".join([head, double, scaled.replace(old, new, 1)]))
    records.forget(lambda r: True)
    found = import_records(path)
    assert found.kept == len(records.all_records()) == 1
    (line,) = found.ignored
    assert re.search(says, line), line
    assert "\n" not in line


@pytest.mark.parametrize(
    "text",
    ["", "[[records]]", "[[record]", "record = 3", "[record]", "record = [1]", "\x00"],
)
def test_a_file_without_records_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text(text)
    found = import_records(path)
    assert found.kept == 0
    assert len(found.ignored) == 1
    assert "ignored: " in command("tuned", "import", str(path), exit_code=2)


def test_a_file_that_is_missing_or_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TikgenError, match="no tuning records of gemm"):
        export_records(tmp_path / "x.toml", "gemm")
    records.keep(record())
    with pytest.raises(TikgenError, match="Cannot write"):
        export_records(tmp_path / "no" / "x.toml")
    with pytest.raises(TikgenError, match="Cannot read"):
        import_records(tmp_path / "x.toml")


def test_toml_keeps_any_text_and_number() -> None:
    table = {
        "text": "".join(map(chr, range(0x20))) + '"\\\x7fü€😀',
        "a key": 1e-300,
        "nothing": {},
        "list": (1, 2.5, True, "x", {"y": [1]}),
        "infinite": float("inf"),
    }
    again = untrusted.from_toml("\n".join(toml.table_lines(table)))
    assert again == table | {"list": [1, 2.5, True, "x", {"y": [1]}]}


def test_records_of_another_version_are_ignored_with_one_warning() -> None:
    records.keep(dataclasses.replace(record(unroll=8), fingerprint="0" * 64))
    with pytest.warns(UserWarning, match="another version") as caught:
        problem = tikgen.build("scaled", schedule={}).problem
        template = find_template("scaled")
        for _ in range(3):
            assert records.records_for(template, problem, "cpu") == ()
    assert len(caught) == 1


def test_commands_show_export_import_and_clear(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    assert "Nothing is tuned" in command("tuned", "show")
    assert "no template 'nosuch'" in command("tuned", "show", "nosuch", exit_code=2)
    records.keep_all([record(unroll=8, ratio=0.25), record(unroll=2, ratio=0.8), record("double")])
    shown = command("tuned", "show", "scaled")
    assert "4.00 times as fast as the default" in shown
    assert "n=100" in shown
    assert "double" not in shown
    (entry,) = json.loads(command("tuned", "show", "double", "--json"))
    assert (entry["ratio"], entry["current"]) == (0.5, True)
    assert "wrote 2 records" in command("tuned", "export", str(path))
    assert "wrote 3 records" in command("tuned", "export", str(path), "--all", "--force")
    records.keep(dataclasses.replace(record("double"), template="gone"))
    told = " ".join(command("tuned", "show", "gone").split())
    assert "template not found here" in told
    assert "gone: this template is not found here; name the folder that holds its folder in" in told
    assert "TIKGEN_TEMPLATE_PATH, or ask by the folder, as in tikgen tuned show ./gone." in told
    assert "removed 1 record" in command("tuned", "clear", "gone")
    assert "removed 1 record" in command("tuned", "clear", str(tmp_path / "double"))
    assert "removed 2 records" in command("tuned", "clear")
    assert "no template 'nosuch'" in command("tuned", "clear", "nosuch", exit_code=2)
    assert "imported 3 records" in command("tuned", "import", str(path))
    assert len(records.all_records()) == 3
    path.write_text(path.read_text().replace('template = "scaled"', 'template = "gone"'))
    told = " ".join(command("tuned", "import", str(path)).split())
    assert told.count("ignored:") == 1
    assert "ignored: 2 records of 'gone': this template is not found here;" in told
    assert "TIKGEN_TEMPLATE_PATH" in told


def test_texts_fit_80_columns_and_contain_no_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", Simulated)
    device = "\x1b[31mNVIDIA " + "long name of a device " * 4
    long = record(device=device, problem={"expr": " + ".join(["sin(x)"] * 30)})
    records.keep_all([long, record("double")])
    texts = [command("tuned", "show"), command("tune", "scaled", "--shape", "270")]
    path = tmp_path / "tuned.toml"
    command("tuned", "export", str(path))
    path.write_text(path.read_text().replace("unroll = 4", 'unroll = "' + "five " * 30 + '"'))
    texts.append(command("tuned", "import", str(path)))
    for text in texts:
        assert "\x1b" not in text
        for line in text.splitlines():
            assert len(line) <= 80 or str(tmp_path) in line, line
    assert "\\x1b[31mNVIDIA" in texts[0]
    assert texts[2].count("ignored: ") == 2


def test_a_tuning_on_a_terminal_fits_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    from rich.console import Console

    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", Simulated)
    result = tikgen.tune("scaled", shape=270, arch="cpu")
    shown = Console(file=io.StringIO(), width=80, force_terminal=False)
    shown.print(result)
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    assert text.count("as fast as the default") == 1
    # Not re-wrapped to the width of the table.
    assert "24 of 24 schedules timed; " in text
    assert str(result) in "\n".join(line.rstrip() for line in text.splitlines())


def test_exit_codes_distinguish_failures_from_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", Simulated)
    wrong = Measurement("mismatch", "y[0] is 1")
    measure = Simulated.run
    monkeypatch.setattr(Simulated, "run", lambda *_: wrong)
    text = command("tune", "scaled", "--shape", "270", exit_code=1)
    assert text.count("y[0] is 1") == 1
    monkeypatch.setattr(Simulated, "run", measure)
    monkeypatch.setattr(Simulated, "is_running", False)
    monkeypatch.setattr(Simulated, "start", lambda self: "no driver", raising=False)
    assert "no driver" in command("tune", "scaled", "--shape", "270", exit_code=2)


@pytest.mark.parametrize("name", ["tune", "sweep"])
def test_missing_matplotlib_is_reported_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # It may be there, and not be importable.
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    monkeypatch.delitem(sys.modules, "tikgen.tuning.plots", raising=False)
    monkeypatch.delattr("tikgen.tuning.plots", raising=False)
    monkeypatch.setattr(ChildProcess, "start", lambda self: pytest.fail("it was started"))
    options = ("--shape", "270", "--plot", str(tmp_path / "plot.png"))
    assert "pip install 'tikgen[plot]'" in command(name, "scaled", *options, exit_code=2)


def test_records_that_cannot_be_written_are_reported_as_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tuned.toml"
    records.keep(record(unroll=8))
    command("tuned", "export", str(path))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path / "file" / "store"))
    with pytest.warns(StoreWarning):
        assert "not kept" in command("tuned", "import", str(path), exit_code=1)
    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", Simulated)
    tune = ("tune", "scaled", "--shape", "n=270", "--budget", "30")
    assert "not kept" in command(*tune, exit_code=1)


def test_the_command_tunes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", Simulated)
    tune = ("tune", "scaled", "--shape")
    found = json.loads(command(*tune, "n=270", "--budget", "30", "--json"))
    assert found["best"]["schedule"] == {"unroll": 8, "block_dim": 128}
    plot = tmp_path / "search.svg"
    assert "24 of 24 schedules timed" in command(*tune, "270", "--plot", str(plot))
    assert plot.exists()
    assert "cannot write" in command(*tune, "270", "--plot", "search.foo", exit_code=2)
    assert "positive integer" in command(*tune, "two", exit_code=2)
    assert "got n=270,n=10" in command(*tune, "n=270,n=10", exit_code=2)
    assert "seed" in command(*tune, "270", "--seed", "-1", exit_code=2)
    assert "above 0" in command(*tune, "270", "--budget", "0", exit_code=2)
    assert "shape" in command(*tune, "270,10", exit_code=2)
    assert "weight" in command(*tune, "270", "-p", "weight=heavy", exit_code=2)


def test_the_command_shows_what_was_measured_before_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", Simulated)
    measure, times = Simulated.run, iter(range(4))

    def interrupted(self, job, baseline=None):
        if next(times, None) is None:
            raise KeyboardInterrupt
        return measure(self, job, baseline)

    monkeypatch.setattr(Simulated, "run", interrupted)
    text = command("tune", "scaled", "--shape", "270", "--seed", "3", exit_code=130)
    assert "3 of 24 schedules timed; 4 measurements" in text  # The best of them twice.
    assert "interrupted; tune again to continue" in " ".join(text.split())
    assert len(records.all_records()) == 3
    # The best one was not compared with the default, so that nothing is claimed.
    assert "the default schedule; no other proved faster" in text
    assert tikgen.build("scaled", arch="cpu", shape=(270,)).schedule.unroll == 1


def test_records_of_each_engine_are_exported(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    records.keep_all([record(unroll=2, engine="taichi"), record(unroll=8, engine="direct-cpu")])
    assert export_records(path) == 2
    records.forget(lambda r: True)
    assert import_records(path).kept == 2
    assert {r.engine: r.schedule["unroll"] for r in records.all_records()} == {
        "taichi": 2,
        "direct-cpu": 8,
    }
    shown = CliRunner().invoke(app, ["tuned", "show"]).output
    assert "cpu by direct-cpu: " in shown
    with pytest.raises(TikgenError, match="was tuned for this problem on cpu with the engine"):
        tikgen.build("double", schedule="tuned", arch="cpu", engine="direct-cpu")

"""Untrusted text is read within limits, and shown without control characters."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tikgen
from damage import ESCAPES, LONG, damaged
from some_cases import examples
from tikgen import engines, untrusted
from tikgen.aot import manifest
from tikgen.aot.recording import recording_file
from tikgen.aot.recording.recorded_graph import export_recording
from tikgen.cli.app import app
from tikgen.errors import ExportError, StoreWarning, TikgenError
from tikgen.machine.devices import device_name
from tikgen.pipeline import builder, evidence, records
from tikgen.pipeline.rendering import Variant
from tikgen.store import Store, default_store
from tikgen.template.literals import parse_literal
from tikgen.tuning import toml
from tikgen.tuning.exchange import import_records
from tikgen.tuning.job import Measurement
from tikgen.tuning.sweeps import results_file
from tikgen.tuning.sweeps.results_file import ResultsFile
from tikgen.tuning.sweeps.rows import METRICS
from tikgen.tuning.sweeps.table import SweepResult
from tikgen.untrusted import Unusable, from_json, from_literal, from_toml, from_yaml, printable

DEEP = "[" * 100_000

literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    # Taichi sets subnormal numbers to zero in the whole process, once it has run.
    | st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(literals)
def test_every_literal_that_tikgen_writes_is_read(value: Any) -> None:
    assert from_literal(repr(value)) == value


@given(st.text("()[]{}'\"\\+-~.,:eE019 _aN\n", max_size=60))
def test_no_text_is_read_as_another_literal_than_python_does(text: str) -> None:
    import ast

    try:
        found = from_literal(text)
    except Unusable:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        assert repr(found) == repr(ast.literal_eval(text.strip()))


@pytest.mark.parametrize(
    ("read", "text", "problem"),
    [
        (from_literal, DEEP, "nested"),
        (from_literal, LONG, "digits"),
        (from_literal, "-" * 100_000 + "1", "operator"),
        (from_literal, "1" + "+1" * 100_000, "operator"),
        (from_literal, "1j+" * 50_000 + "1j", "operator"),
        (from_literal, "0," * 200_000, "characters"),
        (from_literal, "f()", "literal"),
        (from_literal, "not x", "literal"),
        (from_json, DEEP, "nested"),
        (from_json, '{"a":' * 45 + "1" + "}" * 45, "nested"),
        (from_json, LONG, "64 bits"),
        (from_json, str(1 << 64), "64 bits"),
        (from_json, b"\xff", "decode"),
        (from_toml, f"a = {DEEP}", "nested"),
        (from_toml, f"a = {LONG}", "digits"),
        (from_toml, f"a{'.a' * 5_000} = 1", "nested"),
        (from_yaml, DEEP, "nested"),
        (from_yaml, "- " * 50_000, "nested"),
        (from_yaml, "{a: " * 50_000, "nested"),
        (from_yaml, "a: [1, 2", "while parsing a flow sequence.*expected"),
        (from_yaml, f"a: {LONG}", "digits"),
        (from_yaml, "a: 1" + ":1" * 5_000, "digits"),
        (from_yaml, "a: &x [1, 1]\nb: &y [*x, *x]\nc: [*y, *y]", "part of itself"),
        (from_yaml, "!!python/object/apply:os.system [ls]", "constructor"),
        (from_yaml, "a: !!bool perhaps", "perhaps"),
        (from_yaml, "a: !!timestamp never", "group"),
    ],
)
def test_a_text_that_exceeds_a_limit_is_refused(
    read: Callable[[Any], Any], text: Any, problem: str
) -> None:
    with pytest.raises(Unusable, match=problem):
        read(text)


def test_a_file_beyond_its_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"12345")
    assert untrusted.read_text(tmp_path / "text", 5) == "12345"
    with pytest.raises(Unusable, match="more than 4 bytes"):
        untrusted.read_text(tmp_path / "text", 4)
    with pytest.raises(Unusable, match="more than"):
        untrusted.read_text(Path("/dev/zero"), 1000)


@given(st.text())
def test_shown_text_has_no_control_characters(text: str) -> None:
    shown = printable(text)
    assert all(
        character.isprintable() or ord(character) > 0x9F or character in "\t\n"
        for character in shown
    )
    assert not set("\u202a\u202e\u2066\u200f") & set(shown)
    assert printable(shown) == shown


def test_an_error_escapes_untrusted_text() -> None:
    assert str(TikgenError(f"bad {ESCAPES}")) == f"bad {printable(ESCAPES)}"
    assert "\x1b" not in printable(ESCAPES)


# Where such texts come from.


@pytest.mark.parametrize("text", [DEEP, f"format: {LONG}", f"format: 1\ntikgen: {DEEP}"])
def test_a_recording_cannot_end_the_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "calls.yml").write_text(text)
    with pytest.raises(ExportError, match="damaged"):
        recording_file.read(tmp_path / "calls.yml")


@pytest.mark.parametrize(
    "text",
    [
        f"record = {DEEP}",
        f"[[record]]\nrounds = {LONG}",
        f"[[record]]\nschedule = {{ a = '{'(' * 5_000}' }}",
        f'[[record]]\ntemplate = "map{json.dumps(ESCAPES)[1:-1]}"'.replace("\\x9b", ""),
    ],
)
def test_a_hostile_file_of_records_is_ignored_with_a_message(tmp_path: Path, text: str) -> None:
    (tmp_path / "tuned.toml").write_text(text)
    found = import_records(tmp_path / "tuned.toml")
    assert found.kept == 0
    assert found.ignored
    assert all(untrusted.printable(line) == line for line in found.ignored)


@pytest.mark.parametrize(
    "line", [DEEP, LONG, f'{{"tikgen_sweep": 1, "work": {LONG}}}', "5", "null"]
)
def test_a_hostile_line_of_a_sweep_counts_as_damaged(line: str) -> None:
    assert results_file._parsed(line) is None


@pytest.mark.parametrize(
    "text", [DEEP, LONG, "[]", '{"tikgen_sweep_table": 1, "rows": 3, "about": 1}']
)
def test_a_hostile_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.json").write_text(text)
    with pytest.raises(TikgenError):
        SweepResult.load(tmp_path / "table.json")


@pytest.mark.parametrize("text", ["null", "[]", "7", "{}"])
def test_another_document_is_called_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.json").write_text(text)
    with pytest.raises(TikgenError, match="another document"):
        SweepResult.load(tmp_path / "table.json")


@pytest.mark.parametrize("text", [DEEP, "-" * 100_000 + "1", LONG, "1+" * 50_000 + "1"])
def test_a_parameter_cannot_end_the_process(text: str) -> None:
    assert parse_literal(text) == text


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setattr(records, "_warned", set())
    return default_store()


def key_of_map() -> tuple[str, Variant]:
    variant = builder.resolve("map", expr="out = x + 1", dim=1, arch="cpu")
    return records._key("map", records.problem_text(variant.problem), "cpu"), variant


@pytest.mark.parametrize("entries", [5, None, "text", {"a": 1}, [5], [{}], [[[]]]])
def test_invalid_records_do_not_stop_a_build(store: Store, entries: Any) -> None:
    key, variant = key_of_map()
    store.write(records.KIND, key, {"records": entries})
    with pytest.warns(StoreWarning, match=rf"^damaged .* {key}\.json in .* holds what") as warned:
        assert records.records_for(variant.template, variant.problem, "cpu") == ()
    assert len(warned) == 1
    assert (
        tikgen.build("map", expr="out = x + 1", dim=1, arch="cpu").schedule_origin
        == "default on cpu"
    )
    assert records.forget(lambda record: True) == 0


def test_escapes_in_a_record_do_not_reach_the_terminal(store: Store) -> None:
    key, variant = key_of_map()
    document = {
        "template": "map",
        "fingerprint": variant.template.fingerprint,
        "problem": records.problem_text(variant.problem),
        "arch": "cpu",
        "device": f"H200{ESCAPES}",
        "taichi": records.taichi_version(),
        "tikgen": tikgen.__version__,
        "sizes": {"n0": 100},
        "schedule": {},
        "kind": "timed",
        "seconds": 1.0,
        "spread": 0.0,
        "rounds": 5,
        "ratio": 0.5,
        "ratio_low": 0.4,
        "ratio_high": 0.6,
        "workload": "typical",
        "data": "",
        "message": "",
        "when": "",
        "engine": "taichi",
    }
    missing = {field.name for field in dataclasses.fields(records.Record)} - document.keys()
    assert not missing, f"give the new fields of a record a value here: {missing}"
    store.write(records.KIND, key, {"records": [document]})
    result = CliRunner().invoke(app, ["tuned", "show"])
    assert "H200\\x1b" in result.output
    assert not set(ESCAPES) & set(result.output) - set("0;owned]J2[31m")
    (record,) = records.all_records()
    assert "\x1b" not in str(record)


# Any document, damaged anywhere.


def record_of_map() -> dict[str, Any]:
    _, variant = key_of_map()
    record = records.Record(
        template="map",
        fingerprint=variant.template.fingerprint,
        problem=records.problem_text(variant.problem),
        arch="cpu",
        device=device_name("cpu"),
        taichi=records.taichi_version(),
        tikgen=tikgen.__version__,
        sizes={"n0": 100},
        schedule={"unroll": 1},
        kind="timed",
        seconds=1.0,
        rounds=5,
        ratio=0.5,
        engine=engines.timed_by(engines.DEFAULT, "cpu"),
    )
    return json.loads(json.dumps(asdict(record)))


FUZZ = settings(
    max_examples=examples(100, 30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# Where each builds a kernel several times.
FEW = settings(FUZZ, max_examples=examples(40, 12))


@FEW
@given(data=st.data())
def test_any_damage_to_a_record_in_the_store_is_reported(store: Store, data: st.DataObject) -> None:
    key, variant = key_of_map()
    store.clear()
    try:
        store.write(records.KIND, key, {"records": damaged([record_of_map()], data.draw)})
    except TikgenError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        found = records.records_for(variant.template, variant.problem, "cpu")
        records.best_of(found, {"n0": 50})
        shown = [str(record) for record in records.all_records()]
        assert all(printable(text) == text for text in shown)
        builder.clear()
        tikgen.build("map", expr="out = x + 1", dim=1, arch="cpu")
        records.forget(lambda record: True)


@FUZZ
@given(data=st.data())
def test_any_damage_to_a_file_of_records_is_reported(
    store: Store, tmp_path: Path, data: st.DataObject
) -> None:
    table = damaged(record_of_map(), data.draw)
    try:
        lines = toml.table_lines(table) if isinstance(table, dict) else [f"a = {table!r}"]
    except TypeError:  # TOML has nothing for it.
        return
    text = "\n".join(["[[record]]", *lines])
    (tmp_path / "tuned.toml").write_text(text, "utf-8", "replace")
    found = import_records(tmp_path / "tuned.toml")
    assert found.kept + len(found.ignored) == 1


@FEW
@given(data=st.data())
def test_any_damage_to_the_sources_of_the_store_is_reported(
    store: Store, data: st.DataObject
) -> None:
    builder.clear()
    store.clear()
    source = tikgen.build("map", expr="out = x + 1", dim=1, arch="cpu").source
    document = store.read("sources", source.digest)
    try:
        store.write("sources", source.digest, damaged(document, data.draw))
    except TikgenError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        builder.clear()
        tikgen.why("map", expr="out = x + 2", dim=1, arch="cpu")
        tikgen.build("map", expr="out = x + 1", dim=1, arch="cpu")


EVIDENCE = evidence.Evidence("", "cpu", "map", {"dim": "1"}, True, 3, 5, 0.5, "1.7.4", "0", "now")


@FUZZ
@given(data=st.data())
def test_any_damage_to_evidence_is_reported(store: Store, data: st.DataObject) -> None:
    kernel = tikgen.build("map", expr="out = x + 1", dim=1, arch="cpu")
    try:
        document = damaged(asdict(EVIDENCE), data.draw)
        store.write(evidence.KIND, f"{kernel.digest}-cpu", document)
    except TikgenError:
        return
    found = kernel.evidence
    assert all(isinstance(each.passed, bool) and each.worst is not None for each in found)


LINE = {
    "tikgen_sweep": 1,
    "work": "w",
    "template": "map",
    "fingerprint": "f",
    "device": "d",
    "versions": {"tikgen": "0", "taichi": "1.7.4"},
    "job": {"template": "map"},
    "measurement": asdict(Measurement("timed", seconds=1.0)),
}


@FUZZ
@given(data=st.data())
def test_any_damage_to_a_line_of_a_sweep_is_reported(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "sweep.jsonl"
    path.write_text("\n".join(map(json.dumps, [LINE, damaged(LINE, data.draw)])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        found = ResultsFile(path, {"folder": "f"}).known(["w"], ["d"])
    assert all(done.measurement.seconds > 0 for done in found.values())


ROW = {
    "template": "map",
    "dim": 1,
    "arch": "cpu",
    "shape": "100",
    "baked": False,
    "digest": "d",
    "kind": "timed",
    "message": None,
    **dict.fromkeys(METRICS, 1.0),
    "device": "cpu",
}
TABLE = {"tikgen_sweep_table": 1, "rows": [ROW, ROW], "about": {"seconds": {"total": 1.0}}}


@FUZZ
@given(data=st.data())
def test_any_damage_to_a_table_of_a_sweep_is_reported(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(damaged(TABLE, data.draw)))
    try:
        found = SweepResult.load(path)
        said = [found.summary, found.table(), *found.reasons, str(found)]
        found.best()
    except TikgenError:
        return
    assert all(printable(text) == text for text in said)


RECORDING = recording_file.File(
    format=1,
    tikgen="0",
    taichi="1.7.4",
    arch="cpu",
    builds=(
        recording_file.Build(
            name="heat",
            template="map",
            parameters={"dim": 1},
            schedule={},
            sizes={},
            digest="d",
            arguments=(manifest.Argument(name="x", kind="array", dtype="f32", shape=("n",)),),
        ),
    ),
    kernels=(recording_file.Own(name="own", function="f", file="f.py", line=1, problem="no"),),
    fields=(manifest.Field(name="field", dtype="f32", shape=(3,)),),
    arrays=(recording_file.Array("x", "f32", (3,)),),
    launches=(recording_file.Launch("heat", {"x": "x"}), recording_file.Launch("heat", {"x": "x"})),
)


@FUZZ
@given(data=st.data())
def test_any_damage_to_a_recording_is_reported(tmp_path: Path, data: st.DataObject) -> None:
    content = json.loads(msgspec.json.encode(RECORDING))
    (tmp_path / "calls.yml").write_text(json.dumps(damaged(content, data.draw)))
    with pytest.raises(TikgenError):  # Its kernel cannot be built as it was, at least.
        export_recording(tmp_path / "calls.yml", tmp_path / "bundle", ["cpu"])


@FUZZ
@given(data=st.data())
def test_any_damaged_entry_of_the_store_reads_as_missing(store: Store, data: st.DataObject) -> None:
    store.write("kind", "key", {"a": [1, {"b": "c"}]})
    path = store._path("kind", "key")
    entry = json.loads(path.read_text())
    path.write_text(json.dumps(damaged(entry, data.draw)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        found = store.read("kind", "key")
    assert found is None or found == entry["document"]

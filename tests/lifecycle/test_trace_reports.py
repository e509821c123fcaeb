"""The views of a trace: text, table, picture, page, and a file for Perfetto."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tikgen
from tikgen.errors import TraceError
from tikgen.lifecycle import page, timeline
from tikgen.lifecycle.trace import COLUMNS, Trace
from tikgen.pipeline.events import Event, Launches, Subject

pytestmark = pytest.mark.once

OWN = Subject("stencil_dim3_f32", "tikgen:stencil:0a1b2c3d4e5f6071", 1, "tikgen")
EVIL = Subject('<script>alert("x")</script>&$x_1$\n', "/tmp/<b>.py", 3, "script")
IMPLICIT = Subject("tensor_to_ext_arr", "/taichi/_kernels.py", 40, "taichi")
# What an element needs no end tag for.
VOID = {"meta", "br", "hr", "img", "link", "input"}


@dataclass
class Recording:
    """Stands in for what tikgen.pipeline.events records, with times that are known."""

    events: list[Event] = field(default_factory=list)
    launches: list[Launches] = field(default_factory=list)
    started: float = 1000.0
    stopped: float | None = 1003.0


@pytest.fixture
def recording() -> Recording:
    """Record three kernels in two threads: one compiled twice, one that fails, an implicit one."""
    made = Recording()

    def add(stage: str, subject: Subject, start: float, seconds: float, **details: Any) -> None:
        made.events.append(Event(stage, subject, 1000 + start, seconds, 71, details))

    add("resolve", OWN, 0.0, 1e-3, params={"dim": 3}, schedule_origin="given", memo=False)
    add("render", OWN, 0.001, 3e-3, lines=41)
    add("hash", OWN, 0.004, 3e-5, digest="0a1b" * 16)
    add("dedup", OWN, 0.00404, 2e-6, same_as=None)
    add("load", OWN, 0.0041, 1e-3, file=OWN.file)
    add("register", OWN, 0.0042, 6e-5)  # Within the loading.
    for number, start in enumerate((0.01, 0.1)):
        add("instantiate", OWN, start, 5e-5, signature=f"x: f32[{number}d]", number=number)
        add("ast", OWN, start + 1e-4, 8e-3)
        status = ("compiled", "disk")[number]
        signature = f"x: f32[{number}d]"
        add("compile", OWN, start + 9e-3, 0.04, cache=status, arch="cpu", signature=signature)
    add("instantiate", EVIL, 2.0, 1e-5, signature="t: <i>", number=0)
    add("compile", EVIL, 2.1, 0.01, error="TypeError: <bad>\nmore of it", signature="t: <i>")
    add("compile", IMPLICIT, 2.5, 0.01, cache="memory", arch="cpu", signature="", odd=math.inf)
    # The time of a first launch is told without its stages: it seems to begin within them.
    spans = [(1000.055, 6e-3, 71), (1000.062, 5e-6, 71), (1000.15, 7e-6, 71), (1000.2, 5e-6, 72)]
    own = Launches(
        OWN,
        count=1000,
        timed=4,
        seconds=sum(seconds for _, seconds, _ in spans),
        shortest=5e-6,
        longest=6e-3,
        spans=spans,
        device_seconds=2e-3,
        device_count=1000,
    )
    implicit = Launches(IMPLICIT, count=1)
    made.launches += [own, implicit]
    return made


@pytest.fixture
def trace(recording: Recording) -> Trace:
    return Trace(recording)


@pytest.fixture
def empty() -> Trace:
    return Trace(Recording())


def test_table(trace: Trace) -> None:
    text = trace.table()
    assert str(trace) == text
    assert text.startswith("3 kernels, 4 compilations, 1,001 launches in 3 s\n")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "stencil_dim3_f32 [tikgen] tikgen:stencil:0a1b2c3d4e5f6071:1",
        "resolve 1 1 ms dim=3; schedule: given",
        "render 1 3 ms 41 lines",
        "load 1 1 ms tikgen:stencil:0a1b2c3d4e5f6071",
        "instantiate 2 100 us #0 (x: f32[0d])",
        "#1 (x: f32[1d])",
        "ast 2 16 ms",
        "compile 2 80 ms #0 compiled for cpu",
        "#1 from the cache on disk for cpu",
        "launch 1,000 ~11 ms first 6 ms, then",
        "median 5 us (5 us to 7 us, 4 timed)",
        "device 2 ms, 2 us each",
        "compile 1 10 ms failed: TypeError: <bad>",
        "tensor_to_ext_arr [Taichi's own] /taichi/_kernels.py:40",
        "launch 1 -",
    ):
        assert line in lines, line
    assert max(map(len, text.splitlines())) <= 80


def test_a_table_fits_80_columns_whatever_the_names() -> None:
    long = Subject("k" * 60, "/a/long/path" * 6 + ".py", 12, "script")
    details = {"number": 0, "signature": ", ".join(f"array_{i}: f32[3d] NumPy" for i in range(9))}
    events = [Event("instantiate", long, 1000.0, 1e-5, 1, details)]
    text = Trace(Recording(events)).table()
    assert max(map(len, text.splitlines())) <= 80
    assert "array_8" in text
    assert f"  {long.file}:12" in text.splitlines()


def test_many_lines_about_a_stage_are_shortened() -> None:
    events = [
        Event("instantiate", OWN, 1000 + i, 1e-5, 1, {"signature": f"n: {i}", "number": i})
        for i in range(100)
    ]
    text = Trace(Recording(events)).table()
    assert len(text.splitlines()) < 15
    assert "and 93 more" in text


def test_pandas(trace: Trace) -> None:
    frame = trace.to_pandas()
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == len(trace.events) + 2
    assert frame["start"].is_monotonic_increasing or frame["start"].min() == 0
    compiled = frame[(frame.stage == "compile") & (frame.kernel == OWN.name)]
    assert list(compiled["cache"]) == ["compiled", "disk"]
    assert compiled["seconds"].sum() == pytest.approx(0.08)
    launches = frame[frame.stage == "launch"].set_index("kernel")
    assert launches["count"].to_dict() == {OWN.name: 1000, IMPLICIT.name: 1}
    assert frame["error"].notna().sum() == 1


def test_the_launches_that_are_kept_are_few_and_span_all_the_time() -> None:
    launches, number = Launches(OWN), 0
    for size in (1, 1500, 700, 4000, 333, 2001, 7):
        spans = [(float(i), i + 0.5, 7) for i in range(number, number + size)]
        launches.add(size, spans)
        number += size
    starts = [start for start, _, _ in launches.spans]
    assert launches.timed == launches.count == number
    assert launches.seconds == number / 2
    assert 1000 < len(starts) <= 2000
    assert starts[0] == 0
    assert len({after - before for before, after in itertools.pairwise(starts)}) == 1
    assert number - starts[-1] <= starts[1]


# The file for Perfetto.


def check_chrome(document: Any) -> list[dict[str, Any]]:
    """Check a document by the rules of the format, and those of Perfetto's reader.

    Perfetto drops complete events without a duration, reads thread and process ids as unsigned
    32-bit numbers, multiplies times by 1000 and cuts them off to whole nanoseconds, and supports
    only events that nest on their thread. Returns the complete events.
    """
    assert isinstance(document, dict)
    assert document["displayTimeUnit"] in ("ms", "ns")
    named: dict[str, set[tuple[int, int]]] = {"process_name": set(), "thread_name": set()}
    complete = []
    for event in document["traceEvents"]:
        assert {"name", "ph", "ts", "pid", "tid", "args"} <= event.keys()
        assert isinstance(event["name"], str)
        assert event["name"]
        for key in ("pid", "tid"):
            assert type(event[key]) is int
            assert 0 < event[key] < 2**32
        assert isinstance(event["args"], dict)
        assert type(event["ts"]) in (int, float)
        assert 0 <= event["ts"] < 2**50
        if event["ph"] == "M":
            assert event["name"] in named
            assert isinstance(event["args"]["name"], str)
            assert event["args"]["name"]
            named[event["name"]].add((event["pid"], event["tid"]))
            continue
        assert event["ph"] == "X"
        assert isinstance(event["cat"], str)
        assert type(event["dur"]) in (int, float)
        assert event["dur"] >= 0
        complete.append(event)
    assert {pid for pid, _ in named["process_name"]} >= {e["pid"] for e in complete}
    threads = {(e["pid"], e["tid"]) for e in complete}
    assert named["thread_name"] == threads
    for pid, tid in threads:
        check_nesting([e for e in complete if (e["pid"], e["tid"]) == (pid, tid)])
    return complete


def check_nesting(events: list[dict[str, Any]]) -> None:
    """Check that events of a thread come in order, each within another or beside it."""
    stack: list[tuple[int, int]] = []
    last = 0
    for event in events:
        start, length = int(event["ts"] * 1000.0), int(event["dur"] * 1000.0)
        assert start >= last, "not in order"
        last = start
        while stack and stack[-1][1] <= start:
            stack.pop()
        if stack:
            assert start + length <= stack[-1][1], f"{event['name']} overlaps another"
        stack.append((start, start + length))


def test_save(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    trace.save(path)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    complete = check_chrome(json.loads(path.read_text("utf-8"), parse_constant=refuse))
    assert len(complete) == len(trace.events) + 4
    assert {event["tid"] for event in complete} == {1, 2}
    compile_ = next(e for e in complete if e["name"] == f"compile {OWN.name}")
    assert compile_["ts"] == pytest.approx(19_000, abs=0.2)
    assert compile_["dur"] == pytest.approx(40_000, abs=0.2)
    assert compile_["cat"] == "compile,tikgen"
    assert compile_["args"]["cache"] == "compiled"
    resolve = next(e for e in complete if e["name"] == f"resolve {OWN.name}")
    assert resolve["args"]["params"] == {"dim": 3}
    assert any(EVIL.name in event["name"] for event in complete)
    first = next(e for e in complete if e["name"] == f"launch {OWN.name}")
    assert first["ts"] == pytest.approx(59_000, abs=0.2)  # Where the compilation ends.


def test_save_of_a_real_trace(ti_arch: str, tmp_path: Path) -> None:
    with tikgen.trace(all_kernels=True) as t:
        tikgen.build("stencil", dim=1, order=4)
    t.save(tmp_path / "x.json")
    assert check_chrome(json.loads((tmp_path / "x.json").read_text("utf-8")))


def test_the_checker_can_fail() -> None:
    name = {"name": "thread_name", "ph": "M", "ts": 0, "pid": 1, "tid": 1, "args": {"name": "a"}}
    names = [name, name | {"name": "process_name"}]
    event = {"name": "a", "cat": "b", "ph": "X", "ts": 0, "dur": 5, "pid": 1, "tid": 1, "args": {}}
    good = {"displayTimeUnit": "ms", "traceEvents": [*names, event, event | {"ts": 5, "dur": 1}]}
    assert check_chrome(good)
    for wrong in ({"ts": 2, "dur": 9}, {"dur": -1}, {"tid": 2**40}, {"tid": 2}, {"args": None}):
        with pytest.raises(AssertionError):
            check_chrome({**good, "traceEvents": [*names, event, event | wrong]})
    with pytest.raises(AssertionError):
        check_chrome({**good, "traceEvents": [*names, event, {**event, "ts": -3}]})


# The page.


class Page(HTMLParser):
    """Reads a page strictly: every element is closed; collects text, ids, links and titles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and not {"style", "script"} & set(self.open):
            self.texts.append(" ".join(data.split()))


def test_page(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    text = trace.html(path)
    assert path.read_text("utf-8") == text
    page = Page(text)
    for wanted in (OWN.name, EVIL.name.strip(), "from the cache on disk for cpu"):
        assert any(wanted in t for t in page.texts), wanted
    for wanted in ("resolve", "launch", "1,000", "~11 ms", "f32[1d]", "failed: TypeError: <bad>"):
        assert wanted in page.texts, wanted
    ids = {value for name, value in page.attributes if name == "id"}
    assert {v[1:] for n, v in page.attributes if n == "href"} <= ids
    assert len(ids) == 3


def test_page_needs_no_network_and_runs_no_script(trace: Trace) -> None:
    text = trace.html()
    page = Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object", "base"}
    assert not re.search(r"https?:|url\(|@import|//\w", text)
    assert not any(name.startswith("on") or name == "src" for name, _ in page.attributes)
    assert "prefers-color-scheme: dark" in text


def test_notebooks_get_a_short_form(trace: Trace) -> None:
    text = trace._repr_html_()
    page = Page(text)
    assert "script" not in page.tags
    assert any("3 kernels" in t for t in page.texts)
    assert any(OWN.name in t for t in page.texts)
    assert "compile" in page.texts
    assert len(text) < len(trace.html())


# The picture.


def test_timeline(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    figure = trace.timeline(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    panel = figure.axes[0]
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == [OWN.name, EVIL.name.strip(), IMPLICIT.name]
    assert [text.get_text() for text in figure.legends[0].get_texts()][-2:] == ["compile", "launch"]
    texts = [text.get_text() for text in panel.texts]
    assert "40 ms" in texts or "compile 40 ms" in texts


def test_timeline_leaves_out_the_least_of_many_kernels(tmp_path: Path) -> None:
    events = [
        Event("ast", Subject(f"k{i}", "f.py", i, "script"), 1000 + i, 1e-3 * (i + 1), 1, {})
        for i in range(100)
    ]
    figure = Trace(Recording(events, stopped=1101.0)).timeline(tmp_path / "x.png")
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [f"k{i}" for i in range(60, 100)]
    assert "60 more kernels" in figure.axes[0].get_xlabel()


def test_kernels_of_one_name_are_distinguished(tmp_path: Path) -> None:
    twins = [OWN, OWN._replace(file="tikgen:stencil:ffffffffffffffff")]
    events = [Event("ast", twin, 1000.0 + i, 1e-3, 1, {}) for i, twin in enumerate(twins)]
    figure = Trace(Recording(events)).timeline()
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [f"{OWN.name} (0a1b2c)", f"{OWN.name} (ffffff)"]


# Nothing recorded, and nowhere to write.


def test_an_empty_trace_says_so_everywhere(empty: Trace, tmp_path: Path) -> None:
    assert empty.table() == "No kernel was used in 3 s."
    assert "No kernel was used" in " ".join(Page(empty.html(tmp_path / "x.html")).texts)
    assert "No kernel was used" in empty._repr_html_()
    assert len(empty.to_pandas()) == 0
    empty.timeline(tmp_path / "x.png")
    empty.save(tmp_path / "x.json")
    assert check_chrome(json.loads((tmp_path / "x.json").read_text())) == []


def test_a_trace_says_in_a_line_what_it_holds(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repr(trace) == f"<Trace: 3 kernels, {len(trace.events)} events, 1001 launches>"
    monkeypatch.setattr(page, "_MOST_SHORT", 1)
    assert f"and {len(trace.kernels) - 1} more kernels" in trace._repr_html_()

    def full(target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(timeline, "draw", lambda _: SimpleNamespace(savefig=full))
    with pytest.raises(TraceError, match=r"cannot write .*x\.png: the disk is full"):
        trace.timeline(tmp_path / "x.png")


@pytest.mark.parametrize(
    ("method", "ending"), [("save", ".json"), ("html", ".html"), ("timeline", ".png")]
)
def test_a_bad_path_is_refused_with_the_reason(
    trace: Trace, method: str, ending: str, tmp_path: Path
) -> None:
    write = getattr(trace, method)
    with pytest.raises(TraceError, match=f"name a .*{ending}"):
        write(tmp_path / "x.txt")
    with pytest.raises(TraceError, match=f"name a .*{ending}"):
        write(tmp_path / "x")
    with pytest.raises(TraceError, match="is not a folder"):
        write(tmp_path / "missing" / f"x{ending}")
    (tmp_path / f"folder{ending}").mkdir()
    with pytest.raises(TraceError, match="it is a folder"):
        write(tmp_path / f"folder{ending}")
    with pytest.raises(TraceError, match="path"):
        write(7)
    assert [path.name for path in tmp_path.iterdir()] == [f"folder{ending}"]

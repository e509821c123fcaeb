"""The dashboard of actors in a terminal, and their lanes in a trace."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

import tikgen
from ring_samples import echo, error_of, play, started
from tikgen.lifecycle.placement import COLOURS, Layout
from tikgen.pipeline.events import ACTOR_STAGES
from tikgen.ring.actors.status import KernelState
from tikgen.ring.errors import InvalidConfigurationError, RuntimeClosed
from tikgen.ring.runtime import RingKernelRuntime
from tikgen.ring.telemetry import spans
from tikgen.ring.telemetry.gpu_monitor import GPUInfo
from tikgen.ring.telemetry.kernel_telemetry import RingKernelTelemetry
from tikgen.ring.telemetry.live_view import line, number, renderable, show
from tikgen.ring.telemetry.snapshot import KernelRow, Snapshot

BUSY = KernelRow(
    "doubler", "batch", "ACTIVE", 3, 1240, 1234, 50.0, 22e3, 190e3, 17, 2, 1, 812.0, 12.2, "Oh: no"
)
LONG = KernelRow("a-very-long-name-" * 5, "async", "deactivated")
EVIL = KernelRow("数据\n\x1b[31m[bold]", "async", "active", last_error="E: \x1b[2J\nx")
GPU = GPUInfo(0, "NVIDIA H100", "u", 80 * 10**9, 20 * 10**9, 60 * 10**9, 0.43, 0.1, 51, 233, 700)


def drawn(snapshot: Snapshot, width: int, height: int = 40, fits_screen: bool = False) -> str:
    """Return the text of a terminal of this size."""
    console = Console(
        record=True, width=width, height=height, force_terminal=True, file=io.StringIO()
    )
    console.print(renderable(snapshot, fits_screen=fits_screen))
    return console.export_text()


@pytest.mark.parametrize("width", [20, 40, 80, 81, 120, 200])
def test_the_table_fits_any_width_and_keeps_important_columns(width: int) -> None:
    text = drawn(Snapshot((BUSY, LONG, EVIL), (GPU,), 3725.0), width)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "\x1b" not in text and lines[0].startswith("actor")
    if width >= 80:
        for title in ("state", "queue", "done", "per s", "p50", "p99", "dropped", "errors"):
            assert title in lines[0]
        row = lines[1].split()
        assert row[0] == "doubler" and "active" in row and "1,234" in row
        assert "22 us" in lines[1] and "190 us" in lines[1]
        assert "load 43%" in text and "memory 20.0 of 80.0 GB" in text and "Oh: no" in text
        assert "up 1:02:05" in " ".join(lines)
        assert "数据" in text and "[bold]" in text
    if width >= 120:
        for title in ("engine", "restarts", "batch", "device"):
            assert title in lines[0]
    assert "received" not in lines[0] or width == 200


def test_the_table_without_actors_and_with_too_many() -> None:
    assert "No actor is launched." in drawn(Snapshot(), 80)
    rows = [KernelRow(f"idle{number}", "async", "active") for number in range(100)]
    rows[40] = KernelRow("swift", "async", "active", throughput=1e6)
    rows[70] = KernelRow("sick", "async", "active", error_count=1, last_error="E")
    snapshot = Snapshot(tuple(rows), (GPU,), 1.0)
    text = drawn(snapshot, 80, height=20, fits_screen=True)
    assert len(text.splitlines()) < 20
    assert "swift" in text and "sick" in text and "100 actors" in text
    shown = sum(line.startswith(("idle", "swift", "sick ")) for line in text.splitlines())
    assert shown > 3 and f"and {100 - shown} actors more" in text
    assert len(drawn(snapshot, 80).splitlines()) > 100


def test_rates_cover_the_time_between_two_views() -> None:
    def at(seconds: float, **done: int) -> Snapshot:
        rows = (KernelRow(name, messages_processed=n, throughput=7.0) for name, n in done.items())
        return Snapshot(tuple(rows), (), seconds)

    now = at(12.0, grown=300, new=50, restarted=5)
    assert now.rates_since(at(10.0, grown=100, restarted=900)) == {
        "grown": 100.0,
        "new": 7.0,
        "restarted": 7.0,
    }
    assert now.rates_since(None) == {"grown": 7.0, "new": 7.0, "restarted": 7.0}


def test_a_row_copies_the_telemetry() -> None:
    telemetry = RingKernelTelemetry("a", lambda: 4)
    assert KernelRow.of(telemetry, "async", "active").p50_ns is None
    for _ in range(99):
        telemetry.record_message(1000)
    telemetry.record_messages(5000, 2)
    telemetry.record_batch(9, 0.5)
    telemetry.record_error("E")
    row = KernelRow.of(telemetry, "batch", "active")
    assert (row.queue_depth, row.messages_processed, row.batch_size) == (4, 101, 9)
    assert row.p50_ns == pytest.approx(1000, rel=1 / 32)
    assert row.p99_ns == pytest.approx(5000, rel=1 / 32)
    assert (row.error_count, row.last_error, row.device_seconds) == (1, "E", 0.5)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (3, "3"), (12.6, "13"), (99_999, "99,999"), (1.5e6, "1.5 M")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text
    assert len(number(value * 3.14159e5)) <= 7


def test_a_terminal_is_redrawn_until_the_end() -> None:
    console = Console(force_terminal=True, width=80, height=24, file=(written := io.StringIO()))
    views = 0

    def snapshot() -> Snapshot:
        nonlocal views
        views += 1
        row = KernelRow("ticker", "async", "active", messages_processed=views * 10)
        return Snapshot((row,), (), float(views))

    asyncio.run(asyncio.wait_for(show(snapshot, 0.001, lambda: views >= 4, console), 120))
    assert views == 4
    text = written.getvalue()
    assert text.count("ticker") >= 4 and " 40 " in text.rpartition("ticker")[2]
    assert " 10 " in text.rpartition("ticker")[2]  # 10 messages in each second.


def test_the_last_view_stays() -> None:
    console = Console(force_terminal=True, width=80, height=24, file=(written := io.StringIO()))
    views = [Snapshot((BUSY,), (), 1.0), Snapshot((), (), 2.0)]
    shown = iter(views)
    seen: list[Snapshot] = []

    def snapshot() -> Snapshot:
        seen.append(next(shown))
        return seen[-1]

    asyncio.run(asyncio.wait_for(show(snapshot, 0.001, lambda: len(seen) == 2, console), 120))
    assert "doubler" in written.getvalue() and "No actor" not in written.getvalue()


def test_piped_output_has_a_line_for_each_change() -> None:
    written = io.StringIO()
    views = 0

    def snapshot() -> Snapshot:
        nonlocal views
        views += 1
        moving = KernelRow("moving", "async", "ACTIVE", messages_processed=views // 3)
        rows = (KernelRow("still", "async", "active"), moving, EVIL)
        return Snapshot(rows[: 2 + (views == 5)], (), views / 10)

    asyncio.run(
        asyncio.wait_for(show(snapshot, 0.001, lambda: views >= 7, Console(file=written)), 120)
    )
    lines = written.getvalue().splitlines()
    assert [text.split()[2] for text in lines] == ["still", "moving", "moving", "数据", "moving"]
    assert "active" in lines[1] and "\x1b" not in written.getvalue()
    assert "10/s" in lines[2]
    assert line(BUSY, 5.0, 1.0).endswith("Oh: no")


def test_a_dashboard_can_be_cancelled_and_checks_its_period() -> None:
    async def cancelled() -> None:
        console = Console(force_terminal=True, file=io.StringIO())
        task = asyncio.create_task(show(Snapshot, 30.0, console=console))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 120)

    asyncio.run(cancelled())
    for wrong in (0, -1.0, float("nan"), float("inf"), "fast", None):
        with pytest.raises(InvalidConfigurationError, match="refresh"):
            asyncio.run(show(Snapshot, wrong))  # type: ignore[arg-type]


def test_every_stage_of_actors_has_a_colour() -> None:
    assert set(ACTOR_STAGES) <= set(COLOURS)
    assert {state.name.lower() for state in KernelState} <= set(ACTOR_STAGES)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_stages_are_dropped_without_a_trace_and_unknown_ones_refused() -> None:
    assert not spans.is_on()
    spans.note("early", "launched", time.perf_counter())
    with tikgen.trace() as trace:
        assert spans.is_on()
    spans.note("late", "launched", time.perf_counter())
    assert not trace.kernels and not spans.is_on()
    with pytest.raises(InvalidConfigurationError, match="takes one of created"):
        spans.note("a", "lunched", 0.0)


def test_actors_have_separate_lanes_in_a_trace(tmp_path: Path) -> None:
    with tikgen.trace() as trace:
        start = time.perf_counter()
        spans.note("one", "launched", start, 1e-3, engine="batch")
        # Both in one thread, and overlapping, like coroutines.
        for number in range(5):
            spans.note("one", "batch", start + 0.002 + number * 1e-3, 9e-4, messages=number + 1)
            spans.note("two", "batch", start + 0.0025 + number * 1e-3, 9e-4, messages=1)
        spans.note("one", "batch", start + 0.01, 1e-3, messages=3, error="ValueError: bad")
        spans.note("one", "restart", start + 0.011, 1e-4, attempt=1)
        spans.note("two", "session", start + 0.002, 9e-3)
    assert [life.name for life in trace.kernels] == ["one", "two"]
    text = trace.table()
    assert "0 kernels" in text and "0 launches, 2 actors" in text
    assert "15 messages, 3 each" in text and "failed: ValueError: bad" in text
    assert "engine=batch" in text and "attempt=1" in text
    trace.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    lanes = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    assert set(lanes) == {"actor one", "actor two"} and len(set(lanes.values())) == 2
    for name, batches in (("one", 6), ("two", 5)):
        mine = [e for e in events if e["ph"] == "X" and e["tid"] == lanes[f"actor {name}"]]
        assert sum(e["name"] == f"batch {name}" for e in mine) == batches
        # None was moved, as in a shared lane.
        assert min(e["dur"] for e in mine if e["name"].startswith("batch")) >= 899
    one, two = ([stage.name for stage in life.stages] for life in trace.kernels)
    assert one == ["launched", "batch", "batch", "restart"] and two == ["session", "batch"]
    rows = {row["stage"]: row for row in trace.rows() if row["kernel"] == "two"}
    assert set(rows) == {"session", "batch"} and rows["batch"]["count"] == 5
    lane = Layout(trace, 9).lanes[1]
    (batches,) = (block for block in lane.blocks if block.stage == "batch")
    assert batches.launches[0][1] - batches.launches[0][0] == pytest.approx(9e-4)
    page = trace.html(tmp_path / "trace.html")
    assert "5 batches" in page and "restart" in page


def test_a_timeline_draws_actors(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with tikgen.trace() as trace:
        now = time.perf_counter()
        spans.note("one", "active", now)
        for number in range(20):
            spans.note("one", "batch", now + (number + 1) * 1e-3, 5e-4)
    figure = trace.timeline(tmp_path / "trace.png")
    words = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    assert words == {"active", "batch"}
    assert any(text.get_text() == "20 batches" for text in figure.axes[0].texts)


def test_a_million_batches_take_little_memory() -> None:
    with tikgen.trace() as trace:
        for number in range(10_007):
            spans.note("busy", "batch", float(number), 0.5, messages=2, device_seconds=0.25)
    (batches,) = trace.launches
    assert (batches.count, batches.messages, batches.stage) == (10_007, 20_014, "batch")
    assert batches.device_seconds == pytest.approx(10_007 / 4)
    assert len(batches.spans) <= 2000 and batches.spans[-1][0] > 9000
    assert not trace.events


def test_actors_share_the_clock_of_kernels(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("stencil", dim=1)
    x = rng.standard_normal(101).astype(np.float32)
    y = np.empty_like(x)
    kernel(x, y)
    with tikgen.trace() as trace:
        for _ in range(3):
            start = time.perf_counter()
            kernel(x, y)
            spans.note("worker", "batch", start, time.perf_counter() - start, messages=1)
    by_actor = {each.subject.is_actor: each for each in trace.launches}
    assert by_actor[True].count == by_actor[False].count == 3
    for (outer, took, _), (inner, inner_took, _) in zip(
        by_actor[True].spans, by_actor[False].spans, strict=True
    ):
        assert outer <= inner and inner + inner_took <= outer + took
    assert "1 kernel," in trace.table() and "3 launches, 1 actor in" in trace.table()
    assert by_actor[True].spans[0][2] == threading.get_ident()


def test_a_runtime_shows_its_actors_until_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> RingKernelRuntime:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", echo)
            assert repr(actor) == "<RingKernel 'a' ACTIVE on host>"
            (row,) = runtime.snapshot().kernels
            assert (row.kernel_id, row.state) == ("a", "active")
            looks = iter((False, True))
            await runtime.dashboard(0.001, until=lambda: next(looks))
        error = await error_of(runtime.dashboard())
        assert isinstance(error, RuntimeClosed)
        return runtime

    play(main)
    assert "a" in capsys.readouterr().out
    unused = RingKernelRuntime()
    asyncio.run(unused.shutdown())
    assert not unused.is_active

"""Traces of tikgen's kernels and others: in threads, when nested, and when code raises.

Without ``from __future__ import annotations``, which spoils the annotations of kernels.
"""

import html
import secrets
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import given
from hypothesis import strategies as st

import tikgen
from conftest import ARCH, init_taichi
from tikgen import engines
from tikgen.errors import KernelCompileError, UnknownTemplate
from tikgen.lifecycle.history import Life
from tikgen.lifecycle.trace import Trace
from tikgen.pipeline import events
from tikgen.pipeline.events import Launches

OWN = ["resolve", "render", "hash", "dedup", "load"]
# What compiles a kernel: an engine beside Taichi where one is the default, else Taichi.
COMPILED = "engine" if engines.is_direct(engines.DEFAULT, ARCH) else "compile"
TAICHIS = ["register", "instantiate", "ast", COMPILED]


@pytest.fixture
def kernel(ti_arch: str) -> tikgen.Kernel:
    """Build a kernel that no other test has."""
    return tikgen.elementwise(f"y = x + {secrets.randbits(40)}", dtype="f32")


@pytest.fixture
def pair(rng: np.random.Generator) -> tuple[Any, Any]:
    x = rng.random(9, dtype=np.float32)
    return x, np.full_like(x, np.nan)


def only(trace: Trace) -> Life:
    """Return the only life, or that with launches: code for other sizes was built beside it."""
    lives = trace.kernels
    (life,) = lives if len(lives) == 1 else (life for life in lives if life.launches is not None)
    return life


def test_a_build_and_a_call_go_through_every_stage(ti_arch: str, pair: Any) -> None:
    with tikgen.trace() as t:
        kernel = tikgen.elementwise(f"y = x + {secrets.randbits(40)}", dtype="f32")
        kernel(*pair)
    life = only(t)
    assert [stage.name for stage in life.stages] == [*OWN, *TAICHIS, "launch"]
    assert life.subject.origin == "tikgen"
    assert life.name == kernel.name
    assert {e.stage: e.details for e in t.events}["hash"]["digest"] == kernel.digest
    assert all(event.seconds > 0 for event in t.events)
    assert sum(event.seconds for event in t.events) < 2 * t.seconds


def test_building_the_same_again_is_a_look_up(kernel: tikgen.Kernel) -> None:
    expression = str(kernel.params["expr"])
    with tikgen.trace() as t:
        assert tikgen.elementwise(expression, dtype="f32") is kernel
    assert "render" not in {event.stage for event in t.events}
    assert "load" not in {event.stage for event in t.events}
    assert "resolve" in {event.stage for event in t.events}


def test_launches_are_counted_and_timed(by_taichi: None, kernel: tikgen.Kernel, pair: Any) -> None:
    with tikgen.trace() as t:
        for _ in range(5):
            kernel(*pair)
    (launches,) = t.launches
    assert launches.count == launches.timed == len(launches.spans) == 5
    assert 0 < launches.shortest <= launches.longest <= launches.seconds < t.seconds


def test_bound_launches_are_counted(kernel: tikgen.Kernel, pair: Any) -> None:
    kernel(*pair)
    bound = kernel.bind(*pair)
    bound()
    with tikgen.trace() as t:
        for _ in range(300):
            bound()
        assert t.launches[0].count == 300
    bound()
    (launches,) = t.launches
    assert launches.count == 300
    assert 0 < launches.timed <= 300


def test_the_first_launch_counts_by_itself(ti_arch: str, pair: Any) -> None:
    with tikgen.trace() as t:
        kernel = tikgen.elementwise(f"y = x + {secrets.randbits(40)}", dtype="f32")
        bound = kernel.bind(*pair)
        for _ in range(100):
            bound()
    (launches,) = t.launches
    assert launches.count == 100
    assert 1 < launches.timed < 100
    for life in (only(t), only(kernel.lifecycle)):
        stage = life.stages[-1]
        assert stage.name == "launch"
        assert stage.is_estimate
        assert 0 < (stage.seconds or 0) <= t.seconds
        assert life.launches is not None
        assert (life.launches.typical or 0) <= (life.launches.first or 0)


spans_of_a_trace = st.lists(
    st.tuples(st.floats(1e-7, 1.0), st.floats(1e-7, 1.0)), min_size=1, max_size=30
)


@given(spans_of_a_trace, st.integers(0, 10**6))
def test_launches_take_no_longer_than_their_trace(
    pauses: list[tuple[float, float]], untimed: int
) -> None:
    launches, now = Launches(events.Subject("k", "f", 1, "tikgen")), 100.0
    for pause, seconds in pauses:
        launches.add_times([(now + pause, now + pause + seconds, 1)])
        now += pause + seconds
    launches.count = launches.timed + untimed
    launches.window = now - 100.0
    assert launches.first == pytest.approx(pauses[0][1])
    rest = [seconds for _, seconds in pauses[1:]] or [pauses[0][1]]
    assert min(rest) * 0.999 <= (launches.typical or 0) <= max(rest) * 1.001
    assert launches.seconds * 0.999 <= (launches.total or 0) <= launches.window * 1.001
    assert (launches.total or 0) <= launches.window
    if not untimed:
        assert launches.total == min(launches.seconds, launches.window)


def test_a_trace_can_be_looked_at_while_it_goes_on(kernel: tikgen.Kernel, pair: Any) -> None:
    with tikgen.trace() as t:
        assert "No kernel" in t.table()
        assert t.html()
        kernel(*pair)
        assert not t.is_over
        assert "so far" in t.table()
        assert t.launches[0].count == 1
        kernel(*pair)
    assert t.is_over
    assert t.launches[0].count == 2
    kernel(*pair)
    assert t.launches[0].count == 2
    assert t.seconds == t.seconds


def test_a_trace_survives_an_error_inside_it(kernel: tikgen.Kernel, pair: Any) -> None:
    with pytest.raises(ZeroDivisionError), tikgen.trace() as t:
        kernel(*pair)
        _ = 1 / 0
    assert t.is_over
    assert t.launches[0].count == 1
    assert not events.is_on()


def test_traces_can_be_nested(kernel: tikgen.Kernel, pair: Any) -> None:
    with tikgen.trace() as outer:
        kernel(*pair)
        with tikgen.trace() as inner:
            kernel(*pair)
        kernel(*pair)
    assert outer.launches[0].count == 3
    assert inner.launches[0].count == 1
    assert [e.stage for e in inner.events] == []
    assert COMPILED in [e.stage for e in outer.events]


def test_a_trace_sees_every_thread(
    by_taichi: None, kernel: tikgen.Kernel, rng: np.random.Generator
) -> None:
    def work() -> None:
        x = rng.random(9, dtype=np.float32)
        for _ in range(4):
            kernel(x, np.empty_like(x))

    work()
    with tikgen.trace() as t:
        thread = threading.Thread(target=work)
        thread.start()
        work()
        thread.join()
    (launches,) = t.launches
    assert launches.count == 8
    assert {span[2] for span in launches.spans} == {threading.get_ident(), thread.ident}


def test_launches_of_other_threads_do_not_change_the_cache_status(
    by_taichi: None, kernel: tikgen.Kernel, pair: Any
) -> None:
    kernel(*pair)
    is_over = threading.Event()

    def launch() -> None:
        while not is_over.is_set():
            kernel(*pair)

    threads = [threading.Thread(target=launch) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            other = tikgen.elementwise(f"y = x + {secrets.randbits(40)}", dtype="f32")
            other.compile()
            (first, *_) = (e for e in other.events if e.stage == "compile")
            assert first.details["cache"] == "compiled"
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_a_build_that_fails_leaves_its_error(ti_arch: str) -> None:
    with pytest.raises(UnknownTemplate), tikgen.trace() as t:
        tikgen.build("no_such_template")
    stage = only(t).stages[0]
    assert stage.has_failed
    assert "no_such_template" in stage.lines[0]
    assert "failed" in t.table()


def test_a_kernel_that_taichi_refuses_leaves_its_error(ti_arch: str) -> None:
    text = "import taichi as ti\n@ti.kernel\ndef bad(n: ti.i32):\n    print(m)\n"
    kernel = tikgen.from_string(text)
    with pytest.raises(KernelCompileError), tikgen.trace() as t:
        kernel(1)
    failed = [event for event in t.events if "error" in event.details]
    assert failed
    assert failed[0].problem == 'Name "m" is not defined'
    assert only(t).stages[-1].lines == ('failed: Name "m" is not defined',)
    assert 'Name "m" is not defined' in html.unescape(kernel._repr_html_())
    assert only(t).launches is None


def test_a_kernel_has_its_own_life(kernel: tikgen.Kernel, pair: Any) -> None:
    kernel(*pair)
    kernel(*pair)
    life = only(kernel.lifecycle)
    names = [stage.name for stage in life.stages]
    assert names == [*OWN, *TAICHIS, "launch"]
    assert life.launches is not None
    assert life.launches.count == life.launches.timed == 2
    compiled = sum(event.seconds for event in kernel.events if event.stage == "compile")
    assert 0 < life.launches.shortest <= life.launches.longest < kernel.lifecycle.seconds - compiled
    assert str(kernel.lifecycle).count("\n") > len(names)


@pytest.mark.once
def test_a_kernel_has_the_times_of_its_last_launches(kernel: tikgen.Kernel, pair: Any) -> None:
    bound = kernel.bind(*pair)
    for launch in (lambda: kernel(*pair), bound):
        for _ in range(5000):
            launch()
    launched = kernel.loaded.launched
    assert launched.count == kernel.launches == 10_000
    assert launched.timed == len(launched.spans) < 100
    last_start, last_seconds, thread = launched.spans[-1]
    assert 0 <= time.perf_counter() - last_start - last_seconds < 60
    assert thread == threading.get_ident()


def test_a_launch_that_fails_is_not_counted(ti_arch: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n@ti.kernel\ndef bad(n: ti.i32):\n    print(nothing)\n"
    )
    with pytest.raises(KernelCompileError):
        kernel(1)
    assert kernel.launches == 0
    assert only(kernel.lifecycle).launches is None


def test_a_kernel_that_was_only_built_has_a_life_too(kernel: tikgen.Kernel) -> None:
    assert [stage.name for stage in only(kernel.lifecycle).stages] == [*OWN, "register"]


def test_nothing_receives_events_outside_a_trace(kernel: tikgen.Kernel, pair: Any) -> None:
    call = type(kernel.function._primal).__call__
    with tikgen.trace(all_kernels=True):
        assert events.is_on()
        assert type(kernel.function._primal).__call__ is not call
    assert not events.is_on()
    assert type(kernel.function._primal).__call__ is call


def test_a_kernel_of_a_script_is_named_by_its_file(ti_arch: str) -> None:
    @ti.kernel
    def mine(a: ti.types.ndarray(ti.f32, ndim=1)):  # type: ignore[valid-type]
        for i in range(a.shape[0]):
            a[i] = 2.0

    a = ti.ndarray(ti.f32, 5)
    with tikgen.trace(all_kernels=True) as t:
        mine(a)
    (life,) = (life for life in t.kernels if life.name == "mine")
    assert life.subject.origin == "script"
    assert life.short_place.startswith(Path(__file__).name)
    signature = next(e.details["signature"] for e in t.events if e.stage == "instantiate")
    assert signature == "a: f32[1d]"


def init_profiling(arch: str) -> None:
    # Code from the cache may have another name, by which the profiler knows it.
    options = {"enable_fallback": False, "kernel_profiler": True, "offline_cache": False}
    ti.init(arch=getattr(ti, arch), log_level=ti.ERROR, **options)


def test_device_time_is_shown_if_taichi_profiles(ti_arch: str, pair: Any) -> None:
    @ti.kernel
    def fill(f: ti.template(), n: ti.i32):  # type: ignore[valid-type]
        for i in f:
            f[i] = n

    def fill_of(trace: Trace) -> Launches:
        (found,) = (each for each in trace.launches if each.subject.name == "fill")
        return found

    init_profiling(ti_arch)
    try:
        # Taichi does not time what runs in one thread.
        text = f"y = x + {secrets.randbits(40)}"
        kernel = tikgen.elementwise(text, dtype="f32", schedule={})
        kernel(*pair)
        with tikgen.trace() as t:
            for _ in range(3):
                kernel(*pair)
        (launches,) = t.launches
        assert launches.device_seconds is not None
        assert launches.device_seconds > 0
        assert "device" in t.table()
        assert "device" in kernel.lifecycle.table()
        assert "on the device" in kernel._repr_html_()
        field = [ti.field(ti.i32, 4 + i) for i in range(2)]
        with tikgen.trace(all_kernels=True) as both:
            for count in range(3):
                fill(field[0], count)
            fill(field[1], 1)
            assert fill_of(both).timed == 4
        assert fill_of(both).device_count == 4  # Of both instances.
        with tikgen.trace(all_kernels=True) as anew:
            fill(field[0], 1)
            init_profiling(ti_arch)
            fill(ti.field(ti.i32, 4), 1)
        assert fill_of(anew).count == 2
        assert fill_of(anew).device_count == 1  # Since the profiler began anew.
        assert t.to_pandas()["device_seconds"].max() == launches.device_seconds
    finally:
        init_taichi()

"""What a trace records: of tikgen's kernels and others, in threads, when nested, when code raises.

Without ``from __future__ import annotations``, which spoils the annotations of kernels.
"""

import secrets
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import init_taichi
from tikgen import events
from tikgen.errors import KernelCompileError, UnknownTemplate
from tikgen.lifecycle.life import Life
from tikgen.lifecycle.trace import Trace

OWN = ["resolve", "render", "hash", "dedup", "load"]
TAICHIS = ["register", "instantiate", "ast", "compile"]


@pytest.fixture
def kernel(ti_arch: str) -> tikgen.Kernel:
    """Build a kernel that no other test has."""
    return tikgen.elementwise(f"y = x + {secrets.randbits(40)}", dtype="f32")


@pytest.fixture
def pair(rng: np.random.Generator) -> tuple[Any, Any]:
    x = rng.random(9, dtype=np.float32)
    return x, np.full_like(x, np.nan)


def only(trace: Trace) -> Life:
    (life,) = trace.kernels
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


def test_launches_are_counted_and_timed(kernel: tikgen.Kernel, pair: Any) -> None:
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


def test_traces_may_stand_inside_each_other(kernel: tikgen.Kernel, pair: Any) -> None:
    with tikgen.trace() as outer:
        kernel(*pair)
        with tikgen.trace() as inner:
            kernel(*pair)
        kernel(*pair)
    assert outer.launches[0].count == 3
    assert inner.launches[0].count == 1
    assert [e.stage for e in inner.events] == []
    assert "compile" in [e.stage for e in outer.events]


def test_a_trace_sees_every_thread(kernel: tikgen.Kernel, rng: np.random.Generator) -> None:
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
    assert "m" in failed[0].details["error"]
    assert only(t).launches is None


def test_a_kernel_knows_its_own_life(kernel: tikgen.Kernel, pair: Any) -> None:
    kernel(*pair)
    kernel(*pair)
    life = only(kernel.lifecycle)
    names = [stage.name for stage in life.stages]
    assert names == [*OWN, *TAICHIS, "launch"]
    assert life.launches is not None
    assert life.launches.count == 2
    assert str(kernel.lifecycle).count("\n") > len(names)


def test_a_kernel_that_was_only_built_has_a_life_too(kernel: tikgen.Kernel) -> None:
    assert [stage.name for stage in only(kernel.lifecycle).stages] == [*OWN, "register"]


def test_nothing_listens_outside_a_trace(kernel: tikgen.Kernel, pair: Any) -> None:
    call = type(kernel.function._primal).__call__
    with tikgen.trace(all_kernels=True):
        assert events.is_on()
        assert type(kernel.function._primal).__call__ is not call
    assert not events.is_on()
    assert type(kernel.function._primal).__call__ is call


def test_a_kernel_of_ones_own_is_named_by_its_file(ti_arch: str) -> None:
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


def test_device_time_is_there_where_taichi_profiles(ti_arch: str, pair: Any) -> None:
    ti.init(
        arch=getattr(ti, ti_arch), log_level=ti.ERROR, enable_fallback=False, kernel_profiler=True
    )
    try:
        kernel = tikgen.elementwise(f"y = x + {secrets.randbits(40)}", dtype="f32")
        kernel(*pair)
        with tikgen.trace() as t:
            for _ in range(3):
                kernel(*pair)
        (launches,) = t.launches
        assert launches.device_seconds is not None
        assert launches.device_seconds > 0
        assert "device" in t.table()
        assert t.to_pandas()["device_seconds"].max() == launches.device_seconds
    finally:
        init_taichi()

"""The engine "auto": Taichi, until machine code is there and gives the same bits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH, init_taichi
from proving import until_decided, want_few_launches
from some_cases import examples
from tikgen import aot, engines
from tikgen.errors import ArgumentError, EngineUnavailable, ParameterError
from tikgen.pipeline import automatic, evidence
from tikgen.pipeline.direct import Direct
from tikgen.store import default_store
from tikgen.taichi import runtime

DIRECT = engines.for_arch(ARCH)
if not DIRECT:
    pytest.skip(f"no engine beside Taichi is for {ARCH}", allow_module_level=True)
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="over large arrays another engine launches, too")
pytestmark = pytest.mark.arch
if ARCH == "cpu":
    pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")
# Of which Taichi launches those over more bytes, on cpu.
MOST_BYTES = 1 << 18
numbers = itertools.count(3)


@pytest.fixture
def few_launches(ti_arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    want_few_launches(monkeypatch)
    monkeypatch.setattr(automatic, "MOST_TIME", float("inf"))  # How busy the machine is.


@pytest.fixture
def kernel(few_launches: None) -> Iterator[Any]:
    """Give a kernel whose machine code is nowhere yet."""
    yield tikgen.build("map", expr=f"z = a*x + {next(numbers)}", dtype="f32", engine="auto")


def expected(kernel: Any, *values: Any) -> np.ndarray:
    z = np.zeros_like(values[1])
    kernel.with_engine("taichi")(*values, z)
    return z


@pytest.mark.parametrize("is_bound", [True, False], ids=["bound", "plain"])
def test_taichi_launches_until_the_code_is_proven(
    kernel: Any, is_bound: bool, rng: np.random.Generator
) -> None:
    x, z = rng.random(500, np.float32), np.zeros(500, np.float32)
    call = kernel.bind(2.0, x, z) if is_bound else lambda: kernel(2.0, x, z)
    want = expected(kernel, 2.0, x)
    engines_seen = []

    def launch() -> None:
        z.fill(0)
        before = kernel.launches
        call()
        assert kernel.launches == before + 1
        assert (z == want).all()
        engines_seen.append(kernel.engine)

    assert (kernel.engine, "after 3 launches" in kernel.why) == ("taichi", True)
    until_decided(kernel, launch)
    assert engines_seen[0] == "taichi"
    assert engines_seen[-1] == kernel.engine == DIRECT
    assert "is proven" in kernel.why
    if is_bound:
        assert call.engine == DIRECT
        assert DIRECT in repr(call)
        call(a=3.0)
        assert (z == expected(kernel, 3.0, x)).all()


def test_a_later_ti_init_finds_the_code_and_needs_no_compiler(kernel: Any) -> None:
    x, z = np.ones(9, np.float32), np.zeros(9, np.float32)
    until_decided(kernel, lambda: kernel(1.0, x, z))
    init_taichi()
    assert kernel.engine == DIRECT
    z.fill(0)
    kernel(1.0, x, z)
    bound = kernel.bind(1.0, x, z)
    bound()
    assert bound.engine == DIRECT
    assert z.all()
    assert not kernel.is_compiled()


@settings(
    max_examples=examples(15, 5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(st.sampled_from(["call", "bound", "scalar", "rebind", "large"]), max_size=30))
def test_any_order_of_launches_gives_the_bits_of_taichi(kernel: Any, steps: list[str]) -> None:
    sizes = {"rebind": 700, "large": MOST_BYTES // 4}
    rng = np.random.default_rng(len(steps))
    x, z = rng.random(300, np.float32), np.zeros(300, np.float32)
    a, bound = 2.0, kernel.bind(2.0, x, z)
    taichi = kernel.with_engine("taichi")
    for step in steps:
        z.fill(0)
        if step == "call":
            kernel(a, x, z)
        elif step == "bound":
            bound()
        elif step == "scalar":
            a += 0.1
            bound(a=a)
        else:
            x, z = rng.random(sizes[step], np.float32), np.zeros(sizes[step], np.float32)
            bound.rebind(x=x, z=z)
            bound()
        wanted = np.zeros_like(z)
        taichi(a, x, wanted)
        assert (z == wanted).all()
        making = automatic.choice_of(kernel.loaded)._making
        if making is not None and step != "bound":
            making.wait(60)


def test_arrays_are_compared_where_they_share_memory(few_launches: None) -> None:
    kernel = tikgen.build("map", expr=f"y = y + {next(numbers)}*x", dtype="f64", engine="auto")
    x, y = np.ones(7), np.zeros(7)
    want = y.copy()
    for _ in range(12):
        kernel(y, x)
        kernel.with_engine("taichi")(want, x)
        if (making := automatic.choice_of(kernel.loaded)._making) is not None:
            making.wait(60)
    assert (y == want).all()
    assert y.all()
    assert kernel.engine == DIRECT


def test_scratch_arrays_are_of_no_account(few_launches: None, rng: np.random.Generator) -> None:
    kernel = tikgen.build("reduce", op="max", dtype="f64", engine="auto")
    assert kernel.workspace
    x, y = rng.random(5000), np.zeros(1)
    until_decided(kernel, kernel.bind(x, y))
    y.fill(0)
    kernel(x, y)
    assert (kernel.engine, y[0]) == (DIRECT, x.max())


@on_cpu
def test_over_large_arrays_taichi_launches(kernel: Any) -> None:
    x, z = np.ones(9, np.float32), np.zeros(9, np.float32)
    until_decided(kernel, lambda: kernel(1.0, x, z))
    large = np.ones(MOST_BYTES // 8 + 1, np.float32)
    assert kernel.bind(1.0, large, np.zeros_like(large)).engine == "taichi"
    assert kernel.bind(1.0, large[:-1].copy(), np.zeros_like(large[:-1])).engine == DIRECT


def test_other_bits_leave_the_kernel_to_taichi(
    kernel: Any, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(Direct, "try_with", lambda self, values: 0.0)
    x, z = rng.random(9, np.float32), np.zeros(9, np.float32)
    bound = kernel.bind(2.0, x, z)

    def launch() -> None:
        z.fill(0)
        bound()

    until_decided(kernel, launch)
    assert (kernel.engine, bound.engine) == ("taichi", "taichi")
    assert "differed from those of Taichi" in kernel.why
    assert (z == expected(kernel, 2.0, x)).all()


def test_what_is_not_faster_is_left_to_taichi(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic, "MOST_TIME", 0.0)
    x, z = np.ones(9, np.float32), np.zeros(9, np.float32)
    until_decided(kernel, lambda: kernel(1.0, x, z))
    assert kernel.engine == "taichi"
    assert "not much faster" in kernel.why
    init_taichi()
    assert "being compared" in kernel.why


def test_evidence_of_the_engine_is_a_proof(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic, "COMPARED", 1000)
    values = (2.0, np.ones(9, np.float32), np.zeros(9, np.float32))
    direct = kernel.with_engine(DIRECT)
    direct(*values)
    tally = evidence.Tally(direct.params)
    tally.add(True, 0.0)
    init_taichi()
    assert kernel.engine == "taichi"
    evidence.keep(direct.template, ARCH, 0, {direct.digest: tally}, engine=DIRECT)
    assert [e.engine for e in direct.evidence] == [DIRECT]
    until_decided(kernel, lambda: kernel(*values))
    assert kernel.engine == DIRECT
    init_taichi()
    assert kernel.engine == DIRECT


def test_a_trace_says_which_engine_and_why(kernel: Any, few_launches: None) -> None:
    x, z = np.ones(9, np.float32), np.zeros(9, np.float32)
    with tikgen.trace() as trace:
        until_decided(kernel, lambda: kernel(1.0, x, z))
        field = tikgen.build("stencil", dim=1, storage="field", engine="auto")
        assert "fields" in field.why
    assert f"{DIRECT}, compiled" in str(trace)
    assert "taichi, it takes fields" in str(trace)
    init_taichi()
    with tikgen.trace() as trace:
        kernel(1.0, x, z)
        kernel(1.0, x, z)
    assert f"{DIRECT}, from the store" in str(trace)
    (launches,) = trace.launches
    assert launches.count == 2
    assert "from the store" in trace.html()
    assert f"launched by {DIRECT}" in repr(kernel)
    assert f"engine: {DIRECT}" in kernel._repr_html_()


def test_recordings_have_every_launch(
    kernel: Any, few_launches: None, tmp_path: Path, rng: np.random.Generator
) -> None:
    x, z = np.ones(9, np.float32), np.zeros(9, np.float32)
    until_decided(kernel, lambda: kernel(1.0, x, z))
    with aot.record(tmp_path / "calls.yml") as recording:
        bound = kernel.bind(1.0, x, z)
        for call in (lambda: kernel(2.0, x, z), lambda: kernel(a=3.0, x=x, z=z), bound) * 2:
            call()
    assert [launch.arguments["a"] for launch in recording.content.launches] == [2.0, 3.0, 1.0] * 2
    assert kernel.engine == DIRECT


def failing(error: Exception) -> Any:
    def fail(*_: Any) -> None:
        raise error

    return fail


def test_verifications_keep_evidence_of_their_engine(
    few_launches: None, one_process: None, tmp_path: Path
) -> None:
    given = {"expr": f"z = x + {next(numbers)}", "dtype": "f32"}
    tikgen.verify(
        "map", archs=(ARCH,), engine=DIRECT, max_examples=examples(8, 3), scripts=tmp_path, **given
    )
    found = [e for digest in verified_digests() for e in tikgen.verification.evidence_for(digest)]
    found = [e for e in found if given["expr"] in e.params.get("expr", "")]
    assert {(e.engine, e.arch, e.passed) for e in found} == {(DIRECT, ARCH, True)}


def verified_digests() -> set[str]:
    return {key.partition("-")[0] for key in default_store().keys(evidence.KIND)}


@pytest.mark.parametrize(
    ("owner", "name", "broken", "why"),
    [
        (engines, "missing", lambda name: "llvmlite is missing", "llvmlite is missing"),
        (engines, "problem", lambda name: "LLVM 15; 17 is needed", "LLVM 15; 17 is needed"),
        (runtime, "is_profiling", lambda: True, "profiler"),
        (runtime, "is_debug", lambda: True, "debug mode"),
        (engines.engine(DIRECT), "text_problem", lambda *a: "an unknown form", "an unknown form"),
        (engines.engine(DIRECT), "load", failing(RuntimeError("no room")), "no room"),
        (engines.engine(DIRECT), "begin", failing(OSError("no process")), "no process"),
    ],
    ids=["missing", "another LLVM", "profiler", "debug", "form", "load", "process"],
)
def test_whatever_is_wrong_taichi_launches(
    kernel: Any, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, broken: Any, why: str
) -> None:
    monkeypatch.setattr(owner, name, broken)
    x, z = np.ones(9, np.float32), np.zeros(9, np.float32)
    until_decided(kernel, lambda: kernel(1.0, x, z))
    assert kernel.engine == "taichi"
    assert why in kernel.why
    assert z.all()
    bound = kernel.bind(1.0, x, z)
    z.fill(0)
    bound()
    assert z.all()
    assert bound.engine == "taichi"


@on_cpu
def test_what_a_process_makes_is_in_the_store(kernel: Any) -> None:
    """So that it is not lost if this process ends before it asks."""
    x, z = np.ones(9, np.float32), np.zeros(9, np.float32)
    while (making := automatic.choice_of(kernel.loaded)._making) is None:
        kernel(1.0, x, z)
    making.wait(60)
    init_taichi()
    for _ in range(automatic.COMPARED):
        kernel(1.0, x, z)
    assert kernel.engine == DIRECT


def test_a_process_that_fails_is_given_up(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = engines.engine(DIRECT).begin
    monkeypatch.setattr(
        engines.engine(DIRECT), "begin", lambda text, *rest: begin(lambda: "not LLVM", *rest)
    )
    x, z = np.ones(9, np.float32), np.zeros(9, np.float32)
    until_decided(kernel, lambda: kernel(1.0, x, z))
    assert ("ended with exit status 1" if ARCH == "cpu" else "PTX") in kernel.why


def test_threads_follow_as_well(kernel: Any) -> None:
    x = np.ones(300, np.float32)
    want = expected(kernel, 2.0, x)

    def launch(_: int) -> list[bool]:
        z, found = np.zeros_like(x), []
        bound = kernel.bind(2.0, x, z)
        for call in (bound, lambda: kernel(2.0, x, z)) * 100:
            z.fill(0)
            call()
            found.append(bool((z == want).all()))
            making = automatic.choice_of(kernel.loaded)._making
            if making is not None:
                making.wait(60)
        return found

    with ThreadPoolExecutor() as threads:
        assert all(map(all, threads.map(launch, range(4))))
    assert kernel.engine == DIRECT


def test_what_no_engine_beside_taichi_takes_stays_with_taichi(ti_arch: str) -> None:
    field = tikgen.build("stencil", dim=1, storage="field", engine="auto")
    assert (field.engine, "it takes fields" in field.why) == ("taichi", True)


def test_auto_is_an_option_of_builds(ti_arch: str) -> None:
    kernel = tikgen.build("map", expr="y = x", engine="auto")
    assert kernel is tikgen.build("map", expr="y = x").with_engine("auto")
    assert tikgen.build("map", expr="y = x", engine=DIRECT).engine == DIRECT
    with pytest.raises(EngineUnavailable, match="none of that name"):
        tikgen.build("map", expr="y = x", engine="warp")
    with pytest.raises(ParameterError, match="takes default, taichi"):
        tikgen.verify("map", engine="auto")
    with pytest.raises(ArgumentError):
        kernel(np.zeros(3, np.float32), np.zeros(4, np.float32))

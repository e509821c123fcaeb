"""The schedule of some sizes is that of the engine that launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH

pytestmark = [
    pytest.mark.arch,
    pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu"),
]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")


@pytest.mark.parametrize("count", [1000, 100_003])
@pytest.mark.parametrize("engine", ["taichi", "auto", "direct", "direct-cpu"])
def test_an_engine_that_wakes_its_threads_soon_shares_shorter_arrays(
    ti_arch: str, engine: str, count: int
) -> None:
    x = np.linspace(0, 1, count, dtype=np.float32)
    y, expected = np.empty_like(x), x * x + np.float32(3)
    kernel = tikgen.build("map", expr="y = x*x + 3", dtype="f32", engine=engine)
    kernel(x, y)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    is_serial = count == 1000 or engine in ("taichi", "auto")
    taken: Any = kernel.source.variant.schedule
    assert taken.serial == is_serial
    shaped: Any = tikgen.build("map", expr="y = x*x + 3", engine=engine, shape=count)
    assert shaped.schedule.serial == is_serial
    assert shaped.schedule_origin == "default on cpu"


def test_a_kernel_of_several_engines_has_a_schedule_of_each(ti_arch: str) -> None:
    x = np.ones(100_003, np.float32)
    y = np.empty_like(x)
    kernel = tikgen.build("map", expr="y = x*x + 5", dtype="f32", engine="taichi")
    chosen = []
    for each in (kernel, kernel.with_engine("direct-cpu"), kernel):
        each(x, y)
        taken: Any = each.source.variant.schedule
        chosen.append(taken.serial)
    assert chosen == [True, False, True]
    assert y[0] == y[-1] == 6


@pytest.mark.parametrize(("op", "shape"), [("argmax", (2000, 7)), ("sum", (3, 50_000))])
def test_lines_are_shared_sooner_too(ti_arch: str, op: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(5).uniform(-1, 1, shape).astype(np.float32)
    problem: Any = {"op": op, "dim": 2, "axis": 1, "dtype": "f32"}
    by_taichi = tikgen.build("reduce", **problem, engine="taichi")
    shared = tikgen.build("reduce", **problem, engine="direct-cpu")
    alone = tikgen.build("reduce", **problem, engine="direct-cpu", unroll=1, serial=True)
    outs = [np.empty(shape[0], np.int32 if op == "argmax" else np.float32) for _ in range(3)]
    for kernel, out in zip((by_taichi, shared, alone), outs, strict=True):
        kernel(x, out)
    schedules: Any = [kernel.source.variant.schedule for kernel in (by_taichi, shared)]
    assert [(each.serial, each.spread) for each in schedules] == [(True, 1), (False, 1)]
    np.testing.assert_array_equal(outs[1], outs[2])
    np.testing.assert_allclose(outs[1], outs[0], rtol=1e-5)


@pytest.mark.parametrize("name", ["stencil", "update"])
def test_grids_are_shared_sooner_too(ti_arch: str, name: str) -> None:
    problem: Any = {"equations": "q = lap(u)"} if name == "update" else {}
    problem |= {"dim": 2, "boundary": "periodic", "dtype": "f32"}
    u = np.random.default_rng(6).uniform(-1, 1, (333, 57)).astype(np.float32)
    by_taichi = tikgen.build(name, **problem, engine="taichi")
    shared = tikgen.build(name, **problem, engine="direct-cpu")
    outs = [np.empty_like(u) for _ in range(2)]
    for kernel, out in zip((by_taichi, shared), outs, strict=True):
        kernel(u, out)
    schedules: Any = [kernel.source.variant.schedule for kernel in (by_taichi, shared)]
    assert [each.serial for each in schedules] == [True, False]
    np.testing.assert_allclose(outs[1], by_taichi.reference(u, u), rtol=1e-4, atol=1e-4)


def test_sums_are_the_same_by_any_engine(ti_arch: str) -> None:
    x = np.random.default_rng(7).uniform(-1, 1, 100_003).astype(np.float32)
    found = []
    for engine in ("taichi", "direct-cpu"):
        kernel = tikgen.build("map", expr="s = sum(x*x)", dtype="f32", engine=engine)
        total = np.empty(1, np.float32)
        kernel(x, total)
        taken: Any = kernel.source.variant.schedule
        found.append((taken.serial, taken.chunk))
    assert found[0] == found[1]

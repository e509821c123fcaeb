"""Kernels launched by the engine direct-cpu compute what they compute with Taichi."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tikgen
from compared import TEMPLATES, compare
from conftest import ARCH, init_taichi
from tikgen.dtypes import DType
from tikgen.engines import native
from tikgen.errors import ArgumentError, EngineUnavailable, ParameterError
from tikgen.pipeline.direct import Direct
from tikgen.pipeline.machine_code import MachineCode

DIRECT = "direct-cpu"
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu")
pytestmark = [pytest.mark.arch, on_cpu]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")


@pytest.fixture
def axpy(ti_arch: str) -> Iterator[Any]:
    yield tikgen.build("map", expr="z = a*x + y", dtype="f32").with_engine(DIRECT)


def arrays(size: int, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.random(size, np.float32) for _ in range(3)]


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_agree_with_their_reference(ti_arch: str, name: str) -> None:
    assert compare(name, DIRECT, 2, ["it takes fields"])


@pytest.mark.parametrize("dtype", ["i8", "u16", "i32", "u64", "f16", "f32", "f64"])
def test_plain_calls_take_scalars_and_arrays_of_every_dtype(
    ti_arch: str, dtype: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("map", expr="z = a*x + y + b", dtype=dtype, scalars=("a", "b"), dim=2)
    direct = kernel.with_engine(DIRECT)
    for shape in ((1, 1), (3, 5), (40, 1001)):
        x, y = (rng.integers(0, 5, shape).astype(DType(dtype).numpy) for _ in range(2))
        x.flags.writeable = False
        expected, z = np.zeros_like(y), np.zeros_like(y)
        number = 3.0 if DType(dtype).is_float else 3
        values = {"a": number, "b": 1 + 0 * number, "x": x, "y": y}
        kernel(**values, z=expected)
        direct(**values, z=z)
        assert (z == expected).all()
    before = direct.launches
    direct(**values, z=z)
    assert direct.launches == before + 1
    with pytest.raises(ArgumentError):
        direct(**values, z=z[:1])


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("number", [6e4, -np.inf, float("nan"), 0.1, np.float64(0.1), 3])
@pytest.mark.filterwarnings("error")
def test_floats_are_rounded_to_their_dtype(ti_arch: str, dtype: str, number: Any) -> None:
    kernel = tikgen.build("map", expr="z = a*x", dtype=dtype, scalars=("a",))
    x = np.ones(3, DType(dtype).numpy)
    expected, plain, bound = (np.zeros_like(x) for _ in range(3))
    kernel(number, x, expected)
    direct = kernel.with_engine(DIRECT)
    direct(number, x, plain)
    direct.bind(number, x, bound)()
    np.testing.assert_array_equal(plain, expected)
    np.testing.assert_array_equal(bound, expected)


@pytest.mark.usefixtures("without_fast_math")
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(1, 100_000), st.integers(0, 2**32 - 1))
def test_the_bits_are_those_of_taichi_without_fast_math(size: int, seed: int) -> None:
    x, y, z = arrays(size, np.random.default_rng(seed))
    kernel = tikgen.build("map", expr="z = sqrt(x*x + y*y)*x/(y + 1)", dtype="f32")
    kernel(x, y, z)
    again = np.full_like(z, np.nan)
    kernel.with_engine(DIRECT).bind(x, y, again)()
    assert (z == again).all()


def test_fast_math_lets_a_product_and_a_sum_be_rounded_once(ti_arch: str) -> None:
    kernel = tikgen.build("map", expr="z = x*x - y", dtype="f32")
    x = np.full(100, 1 + 2**-12, np.float32)
    y, z, exact = np.full_like(x, 1 + 2**-11), np.zeros_like(x), np.zeros_like(x)
    kernel.with_engine(DIRECT)(x, y, z)
    assert set(z) <= {0, 2**-24}
    if "fma" in native.identity().get("flags", "").split():
        assert (z == 2**-24).all()
    loaded = kernel.loaded
    code = MachineCode(loaded, DIRECT, exact=True)
    Direct(loaded, DIRECT, code.load()).launch(loaded, (x, y, exact))
    assert (exact == 0).all()


def test_scalars_and_arrays_are_replaced(axpy: Any, rng: np.random.Generator) -> None:
    x, y, z = arrays(1000, rng)
    bound = axpy.bind(2.0, x, y, z)
    bound()
    np.testing.assert_allclose(z, 2 * x + y, rtol=1e-6)
    bound(a=-1.0)
    np.testing.assert_allclose(z, y - x, rtol=1e-6)
    bound()
    np.testing.assert_allclose(z, y - x, rtol=1e-6)
    other = np.zeros(7, np.float32)
    bound.rebind(x=x[:7].copy(), y=y[:7].copy(), z=other)
    bound()
    np.testing.assert_allclose(other, y[:7] - x[:7], rtol=1e-6)
    with pytest.raises(ArgumentError):
        bound(a="two")
    assert DIRECT in repr(bound)


def test_arrays_of_taichi_are_taken(axpy: Any, rng: np.random.Generator) -> None:
    host = arrays(513, rng)
    device = [ti.ndarray(ti.f32, 513) for _ in host]
    for array, content in zip(device, host, strict=True):
        array.from_numpy(content)
    axpy.bind(3.0, *device)()
    np.testing.assert_allclose(device[2].to_numpy(), 3 * host[0] + host[1], rtol=1e-6)


def test_threads_launch_at_once(axpy: Any, rng: np.random.Generator) -> None:
    x, y, z = arrays(50_000, rng)
    axpy.bind(1.0, x, y, z)

    def launch(number: int) -> np.ndarray:
        z = np.zeros_like(x)
        bound = axpy.bind(float(number), x, y, z)
        for _ in range(50):
            bound()
        return z

    with ThreadPoolExecutor() as threads:
        for number, found in zip(range(4), threads.map(launch, range(4)), strict=True):
            np.testing.assert_allclose(found, number * x + y, rtol=1e-5)


def test_threads_have_scratch_arrays_of_their_own(ti_arch: str) -> None:
    kernel = tikgen.build("reduce", op="sum", dtype="f64").with_engine(DIRECT)
    assert kernel.workspace

    def sums(number: int) -> list[float]:
        x, y = np.full(60_000, float(number)), np.zeros(1)
        bound, found = kernel.bind(x, y), []
        for call in (lambda: kernel(x, y), bound) * 100:
            call()
            found.append(y[0])
        return found

    sums(1)
    with ThreadPoolExecutor() as threads:
        for number, found in zip(range(4), threads.map(sums, range(4)), strict=True):
            assert set(found) == {60_000.0 * number}


def test_the_engine_is_part_of_the_kernel(axpy: Any) -> None:
    plain = axpy.with_engine("taichi")
    assert (axpy.engine, plain.engine) == (DIRECT, "taichi")
    assert axpy.with_engine(DIRECT) is axpy is plain.with_engine(DIRECT)
    assert axpy.with_engine("default") is tikgen.build("map", expr="z = a*x + y", dtype="f32")
    values = 1.0, *arrays(9, np.random.default_rng())
    assert plain.bind(*values).kernel.digest == axpy.bind(*values).kernel.digest


def test_a_new_ti_init_ends_what_was_bound(axpy: Any, rng: np.random.Generator) -> None:
    values = arrays(100, rng)
    bound = axpy.bind(1.0, *values)
    bound()
    init_taichi()
    with pytest.raises(ArgumentError, match="bind it again"):
        bound()
    axpy.bind(1.0, *values)()
    np.testing.assert_allclose(values[2], values[0] + values[1], rtol=1e-6)


def test_declaring_fields_stays_possible(axpy: Any, rng: np.random.Generator) -> None:
    axpy.bind(1.0, *arrays(10, rng))()
    field = ti.field(ti.f32, 4)
    field.fill(2)
    assert field.to_numpy().sum() == 8


COUNT = """
import taichi as ti

@ti.kernel
def count(x: ti.types.ndarray(dtype=ti.i32, ndim=1)) -> ti.i32:
    return x.shape[0]
"""


def test_what_the_engine_cannot_take_is_named(ti_arch: str) -> None:
    with pytest.raises(EngineUnavailable, match="'warp': there is none of that name"):
        tikgen.build("map", expr="y = x").with_engine("warp")
    with pytest.raises(ParameterError, match="takes default, taichi, direct-cpu or direct-cuda"):
        tikgen.verify("map", engine="warp")
    with pytest.raises(ParameterError, match=r"needs archs=\('cpu',\)"):
        tikgen.verify("map", engine=DIRECT)
    field = tikgen.build("stencil", dim=1, storage="field").with_engine(DIRECT)
    x, y = ti.field(ti.f32, 9), ti.field(ti.f32, 9)
    with pytest.raises(EngineUnavailable, match="it takes fields"):
        field.bind(x, y)
    counted = tikgen.from_string(COUNT).with_engine(DIRECT)
    with pytest.raises(EngineUnavailable, match="a return value"):
        counted.bind(np.zeros(3, np.int32))


def test_without_llvmlite_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, ti_arch: str) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    native._llvm.cache_clear()
    try:
        with pytest.raises(EngineUnavailable, match=r"pip install tikgen\[fast\]"):
            tikgen.build("map", expr="y = x").with_engine(DIRECT)
    finally:
        native._llvm.cache_clear()


def test_another_llvm_is_named(monkeypatch: pytest.MonkeyPatch, ti_arch: str) -> None:
    monkeypatch.setattr(native._llvm(), "llvm_version_info", (15, 0, 7))
    with pytest.raises(EngineUnavailable, match=r"LLVM 15\.0\.7; 17 or later is needed"):
        tikgen.build("map", expr="y = x", engine=DIRECT)


@pytest.mark.parametrize(
    ("system", "machine", "why"),
    [("Darwin", "arm64", "needs Linux"), ("Linux", "riscv64", "does not know .* riscv64")],
)
def test_another_system_is_named(
    monkeypatch: pytest.MonkeyPatch, ti_arch: str, system: str, machine: str, why: str
) -> None:
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(sysname=system, machine=machine))
    with pytest.raises(EngineUnavailable, match=why):
        tikgen.build("map", expr="y = x", engine=DIRECT)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="for x86")
def test_a_processor_without_avx2_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, ti_arch: str, rng: np.random.Generator
) -> None:
    llvm = native._llvm()
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "x86-64")
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: types.SimpleNamespace(flatten=str))
    kernel = tikgen.build("map", expr="z = x*y + 19/7", dtype="f32")
    x, y, z = arrays(1001, rng)
    expected = np.zeros_like(z)
    kernel(x, y, expected)
    kernel.with_engine(DIRECT)(x, y, z)
    np.testing.assert_allclose(z, expected, rtol=1e-6)


def test_arrays_that_are_bound_cannot_be_freed(axpy: Any, rng: np.random.Generator) -> None:
    x, y, z = arrays(9, rng)
    bound = axpy.bind(1.0, x, y, z)
    for refcheck in (True, False):
        with pytest.raises(ValueError, match="resize"):
            x.resize(10**6, refcheck=refcheck)
    kept = x + y
    del x, y
    bound()
    assert (z == kept).all()


DEBUG = """
import numpy as np, taichi as ti, tikgen
ti.init(arch=ti.cpu, debug=True, log_level=ti.ERROR)
kernel = tikgen.build("map", expr="y = x + 1", dtype="f32").with_engine("direct-cpu")
try:
    kernel.bind(np.zeros(3, np.float32), np.zeros(3, np.float32))
except tikgen.errors.EngineUnavailable as error:
    print(error)
"""


@pytest.mark.process
def test_in_debug_mode_taichi_launches() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEBUG], capture_output=True, text=True, timeout=120, check=False
    )
    assert "debug mode" in done.stdout, done.stderr


@pytest.mark.parametrize("accuracy", ["kahan", "pairwise"])
@pytest.mark.parametrize("problem", [{"dim": 1}, {"dim": 2, "axis": 1}], ids=str)
def test_sums_whose_rounding_matters_keep_it(
    ti_arch: str, accuracy: str, problem: dict[str, Any], rng: np.random.Generator
) -> None:
    kernel = tikgen.build("reduce", op="sum", accuracy=accuracy, **problem)
    direct = kernel.with_engine(DIRECT)
    for size in (3, 17, 100, 5001):
        x = rng.integers(0, 4, size).astype(np.float32)
        # What is lost beside them shows once they are gone.
        first, last = rng.choice(size, 2, replace=False)
        x[first], x[last] = 2**24, -(2**24)
        given = x if problem["dim"] == 1 else x[None]
        found, expected = np.zeros(1, np.float32), np.zeros(1, np.float32)
        direct(given, found)
        kernel(given, expected)
        exact = x.astype(np.float64).sum()
        if accuracy == "kahan":
            assert found == expected == exact
        else:
            allowed = np.log2(size) * np.finfo(np.float32).eps * np.abs(x).sum()
            assert abs(found - exact) <= allowed


def test_the_first_kernel_of_a_process_may_call_functions_of_c() -> None:
    script = (
        "from tikgen.engines import native\n"
        "assert native.has_symbol('exp') and not native.has_symbol('no_such_function')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

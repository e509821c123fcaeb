"""The engine "direct": that of the arch where it can launch a kernel, else Taichi."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import ARCH, init_taichi
from tikgen import engines
from tikgen.engines import native
from tikgen.errors import ArgumentError, EngineUnavailable, ParameterError
from tikgen.pipeline import events

ITS = engines.for_arch(ARCH)
if ITS:
    pytest.importorskip("llvmlite" if ARCH == "cpu" else "cuda", reason="an extra of tikgen")

TEXT = """
import taichi as ti


@ti.kernel
def {{ name }}(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = 2 * x[i]
        if x[i] < 0:
            print(x[i])
"""
CODE = """
from tikgen import Array, DType, Template


class Loud(Template):
    def arguments(self, p):
        return (Array("x", DType.f32, ("n",), role="inout"),)
"""
DEFAULT = """
import taichi as ti, tikgen
ti.init(arch=ti.cpu, log_level=ti.ERROR)
try:
    print(tikgen.build("map", expr="y = 2*x").engine)
except tikgen.errors.TikgenError as error:
    print(error)
"""


def doubled(kernel: Any, count: int = 9) -> str:
    """Launch a kernel that doubles, plainly and bound; return what launched it."""
    x, y, z = (np.full(count, k, np.float32) for k in (3, 0, 0))
    kernel(x, y)
    bound = kernel.bind(x, z)
    bound()
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(z, 2 * x)
    assert bound.engine == kernel.engine
    return str(kernel.engine)


@pytest.fixture
def kernel(ti_arch: str) -> Any:
    return tikgen.build("map", expr="y = 2*x", dtype="f32", engine="direct")


def test_the_engine_of_the_arch_launches(kernel: Any) -> None:
    assert doubled(kernel) == doubled(kernel, 100_003) == (ITS or "taichi")
    assert ("there is none for" in kernel.why) == (not ITS)
    with pytest.raises(ArgumentError, match="y is missing"):
        kernel(np.zeros(3, np.float32))


def test_code_is_made_without_a_launch(kernel: Any) -> None:
    x, y = np.ones(9, np.float32), np.zeros(9, np.float32)
    init_taichi()
    assert not kernel.is_compiled(x, y)
    kernel.compile(x, y)
    assert kernel.is_compiled(x, y)
    assert kernel.is_compiled()
    assert not y.any()
    with events.recording() as found:
        kernel(x, y)
    assert not found.events
    assert y.all()
    with pytest.raises(ArgumentError, match="y"):
        kernel.compile(x, y[::2])
    init_taichi()
    assert not kernel.is_compiled(x, y)


def test_taichi_launches_where_the_engine_is_missing(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The answer is kept for the process: it must not stay there, nor be there already.
    monkeypatch.setattr(engines, "works", lambda name: not engines.problem(name))
    monkeypatch.setattr(engines, "problem", lambda name: f"{name} is not installed")
    init_taichi()
    assert doubled(kernel) == "taichi"
    assert kernel.why.endswith("is not installed" if ITS else f"there is none for {ARCH}")
    monkeypatch.undo()
    assert doubled(kernel) == "taichi"  # Until the next ti.init.
    init_taichi()
    assert doubled(kernel) == (ITS or "taichi")


@pytest.mark.skipif(not ITS, reason="Taichi launches all there")
def test_taichi_launches_what_the_engine_refuses(ti_arch: str, tmp_path: Any) -> None:
    folder = tmp_path / "loud"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE)
    loud = tikgen.build(tikgen.load_template(folder), engine="direct")
    x = np.ones(5, np.float32)
    for _ in range(2):
        loud(x)
    loud.bind(x)()
    assert x.tolist() == [8] * 5
    assert loud.engine == "taichi"
    with pytest.raises(EngineUnavailable) as refused:
        loud.with_engine(ITS)(x)
    assert loud.why == f"no engine beside Taichi launches it: {refused.value.why}"


GRADIENT = """
import taichi as ti

held = ti.types.ndarray(dtype=ti.f32, ndim=1, needs_grad=True)


@ti.kernel
def double(x: held, y: held):
    for i in x:
        y[i] = 2 * x[i]
"""
IN_A_THREAD = """
import sys, threading
import numpy as np, taichi as ti, tikgen

ti.init(arch=ti.cpu, log_level=ti.ERROR)
x, y = np.ones(9, np.float32), np.zeros(9, np.float32)
tikgen.build("map", expr="y = 2*x")(x, y)
new = tikgen.build("map", expr=f"y = {sys.argv[1]}*x")
thread = threading.Thread(target=lambda: new(x, y))
thread.start()
thread.join()
print(new.engine, y[0])
"""
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="direct-cpu is for cpu")


@on_cpu
def test_taichi_launches_what_its_exporter_does_not_take(ti_arch: str) -> None:
    for array in (np.ones(5, np.float32), ti.ndarray(ti.f32, 5, needs_grad=True)):
        kernel = tikgen.from_string(GRADIENT).with_engine("direct")
        x, y = array, np.zeros(5, np.float32)
        if not isinstance(x, np.ndarray):
            x.fill(1)
            y = ti.ndarray(ti.f32, 5, needs_grad=True)
        kernel(x, y)
        assert np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y).tolist() == [2] * 5
        assert kernel.engine == "taichi"
        assert "its machine code cannot be made: ValueError" in kernel.why


@on_cpu
@pytest.mark.process
def test_threads_compile_where_the_first_code_came_from_the_store(tmp_path: Path) -> None:
    for number in (3, 4):  # The second process compiles one kernel only, in the thread.
        run = subprocess.run(
            [sys.executable, "-c", IN_A_THREAD, str(number)],
            env={**os.environ, "TIKGEN_CACHE_DIR": str(tmp_path), "TIKGEN_ENGINE": "direct"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.splitlines()[-1] == f"direct-cpu {float(number)}", run.stderr


@on_cpu
def test_llvm_that_cannot_be_loaded_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no libllvmlite.so")

    monkeypatch.setattr(native, "_llvm", broken)
    assert "cannot load its library (no libllvmlite.so)" in native.problem()


@on_cpu
def test_what_launches_is_known_before_the_first_launch(ti_arch: str) -> None:
    made = tikgen.build("stencil", dim=1, storage="field", engine="direct")
    assert made.engine == "taichi"
    kernel = tikgen.build("map", expr="y = 5*x", dtype="f32")
    assert kernel.engine == "direct-cpu"
    large = {"n0": 200_000}
    try:
        ti.init(arch=ti.cpu, kernel_profiler=True, log_level=ti.ERROR)
        assert engines.resolved(engines.DEFAULT, "cpu") == "taichi"
        assert kernel.engine == "taichi"
        assert kernel.why == "taichi is the default where it profiles or debugs"
        serial = tikgen.build("map", expr="y = 5*x", dtype="f32", shape=large).schedule.serial
        kernel(np.ones(9, np.float32), np.zeros(9, np.float32))
        assert "Taichi compiled it once" in str(tikgen.why(kernel))
    finally:
        init_taichi()
    direct = tikgen.build("map", expr="y = 5*x", dtype="f32", shape=large)
    assert (serial, direct.schedule.serial) == (True, False)


@pytest.mark.skipif(ARCH != "cpu", reason="the same on every arch")
def test_verification_names_its_engine() -> None:
    for option in ("auto", "direct"):
        with pytest.raises(ParameterError, match="takes default, taichi"):
            tikgen.verify("map", engine=option, archs=("cpu",))


@pytest.mark.some
@pytest.mark.skipif(ARCH != "cpu", reason="the same on every arch")
@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("", "direct-cpu"),
        ("taichi", "taichi"),
        ("direct", "direct-cpu"),
        ("fast", "TIKGEN_ENGINE names 'fast'; take one of taichi, direct-cpu"),
    ],
)
def test_the_environment_says_what_the_default_is(wanted: str, said: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", DEFAULT],
        env={**os.environ, "TIKGEN_ENGINE": wanted},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said in run.stdout.splitlines()[-1]

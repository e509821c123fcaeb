"""Equations by the engine direct-cpu: real functions that are not inlined, reductions, libm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.engines import direct_cpu
from tikgen.pipeline.direct import Direct
from tikgen.pipeline.machine_code import MachineCode
from tikgen.template.arguments import Array, concrete_shape

DIRECT = "direct-cpu"
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu")
pytestmark = [pytest.mark.arch, on_cpu]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    # LLVM reads two extents of the first array at once.
    "extents": (
        "update",
        {"equations": "r = u*v[0, 0, -1]; t = sum(r); m = min(abs(v))", "dim": 3, "loop": "points"},
    ),
    "inlined": ("update", {"equations": "u' = u + lap(u); err = sum((u' - u)**2)", "dim": 2}),
    "sums": ("map", {"expr": "x = x + 0.5*y; s = sum(x*x); h = max(y)"}),
    "functions": ("map", {"expr": "z = exp(x) + sin(x*y)*tanh(y) + atan2(x, y)"}),
    "polynomials": ("map", {"expr": "z = atan(x) + sinh(x*y)*cosh(y)", "dtype": "f64"}),
}

# Called at two places, so that LLVM does not inline it: Taichi makes a context for each call.
CALLED = """
import taichi as ti


@ti.real_func
def points(x: ti.types.ndarray(dtype=ti.f32, ndim=1), y: ti.types.ndarray(dtype=ti.f32, ndim=1),
           first: ti.i32, last: ti.i32, factor: ti.f32):
    for i in range(first, last):
        value = x[i]
        for step in ti.static(range(40)):
            value = ti.sqrt(ti.abs(value * factor - x[(i + step) % x.shape[0]]) + 1)
        y[i] = value


@ti.kernel
def twice(x: ti.types.ndarray(dtype=ti.f32, ndim=1), y: ti.types.ndarray(dtype=ti.f32, ndim=1),
          z: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for strip in range((x.shape[0] - 1) // 8 + 1):
        points(x, y, strip * 8, ti.min(strip * 8 + 8, x.shape[0]), 0.5)
        points(x, z, strip * 8, ti.min(strip * 8 + 8, x.shape[0]), 0.25)
"""


@pytest.mark.usefixtures("without_fast_math")
@pytest.mark.parametrize("name", CASES)
def test_equations_have_the_bits_of_taichi(name: str, rng: np.random.Generator) -> None:
    template, params = CASES[name]
    launched_alike(tikgen.build(template, **params), rng)


@pytest.mark.usefixtures("without_fast_math")
def test_real_functions_may_be_called(rng: np.random.Generator) -> None:
    kernel = tikgen.from_string(CALLED)
    launched_alike(kernel, rng)
    assert "call fastcc void @points_" in kernel.loaded.compiled_text(direct_cpu.text_of)


def launched_alike(kernel: tikgen.Kernel, rng: np.random.Generator) -> None:
    """Launch by Taichi and by the engine, and compare what was written, bit for bit."""
    sizes = dict.fromkeys(kernel.signature.symbols, 37)
    given = {
        a.name: rng.uniform(-1, 1, concrete_shape(a, sizes)).astype(a.dtype.numpy)
        for a in kernel.signature.arguments
        if isinstance(a, Array)
    }
    other = {key: value.copy() for key, value in given.items()}
    # Not the kernel, which may choose another schedule for these sizes.
    loaded = kernel.loaded
    loaded.run(loaded.prepare(tuple(given.values())))
    direct = Direct(loaded, DIRECT, MachineCode(loaded, DIRECT, exact=True).load())
    direct.try_with([*other.values(), *direct.scratch([37] * len(sizes))])
    for key, value in given.items():
        assert value.tobytes() == other[key].tobytes(), key


# LLVM 22.1 vectorised the comparison of the addresses of these arrays so that it used a number
# before it had computed it, and ended the process when it emitted that.
OVERLAPPING = """
    t = max(u, v)*min(v, q)
    u' = u + dt*(dy(w) + sqrt(abs(v) + 0.5)*dy(v))
    v' = v + dt*(u*t + 4)
    w' = w + dt*(u[-1, 0] - sqrt(abs(dx(q)**2 + dy(q)**2 + 0.1) + 0.5) + a*lap(w))
    q' = q + dt*dx(u)
"""


def test_code_that_llvm_cannot_emit_is_made_in_another_way(
    ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.update(
        OVERLAPPING, dim=2, dtype="f64", boundary="zero", scalars="dt a", row_buffer=8
    )
    given = {name: rng.random((30, 41)) for name in "uvwq"}
    found = {f"{name}_next": np.zeros((30, 41)) for name in "uvwq"}
    kernel(**given, **found, dt=0.1, a=0.5)
    expected = kernel.reference(**given, **found, dt=0.1, a=0.5)
    for value, exact in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(value, exact, rtol=1e-12)

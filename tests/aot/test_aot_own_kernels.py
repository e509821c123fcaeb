"""Users' own kernels as text: what the text computes in a fresh process, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import taichi as ti
import taichi.math as tm

import tikgen
from own_samples import Fresh, agrees, axpy, fill, repeated, scaled
from own_samples import fresh as fresh
from own_samples import module_of as module_of
from tikgen.aot.user_kernels.extraction import extract
from tikgen.live import Loader
from tikgen.pipeline.one_off import only_read

# Programs as people write them.

MPM = """
import numpy as np
import taichi.math as tm
from conftest import ARCH, init_taichi

n_particles, n_grid = 7, 8
dx, inv_dx = 1 / n_grid, float(n_grid)
dt = 1e-4
p_mass = np.float32(0.5)
gravity = ti.Vector([0.0, -9.8])
weights = np.array([0.5, 0.75, 0.5], np.float32)
x = ti.Vector.field(2, ti.f32, n_particles)
v = ti.Vector.field(2, ti.f32, n_particles)
C = ti.Matrix.field(2, 2, ti.f32, n_particles)
grid_v = ti.Vector.field(2, ti.f32, (n_grid, n_grid))
grid_m = ti.field(ti.f32, (n_grid, n_grid))


@ti.kernel
def p2g(scale: ti.f32):
    for p in x:
        # Quadratic weights.
        base = (x[p] * inv_dx - 0.5).cast(int)
        fx = x[p] * inv_dx - base.cast(ti.f32)
        w = [weights[0] * (1.5 - fx) ** 2, weights[1] - (fx - 1) ** 2, weights[2] * (fx - 0.5) ** 2]
        affine = materials.stress(x[p], dt) + p_mass * C[p]
        for i, j in ti.static(ti.ndrange(3, 3)):
            offset = ti.Vector([i, j])
            weight = w[i][0] * w[j][1]
            dpos = (offset.cast(ti.f32) - fx) * dx
            cell = tm.clamp(base + offset, 0, n_grid - 1)
            grid_v[cell] += weight * (p_mass * v[p] + affine @ dpos + dt * gravity) * scale
            grid_m[cell] += weight * p_mass
"""
MATERIALS = """
import math

E = 5.0
I = ti.Matrix([[1.0, 0.0], [0.0, 1.0]])


@ti.func
def softened(a):
    return ti.sqrt(a.dot(a) + math.pi)


@ti.func
def stress(a, dt):
    return E * dt * softened(a) * I
"""


def test_a_step_of_mpm(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator, module_of: Callable[..., Any]
) -> None:
    mpm = module_of(MPM, materials=module_of(MATERIALS))
    for field in (mpm.x, mpm.v, mpm.C):
        shape = field.to_numpy().shape
        field.from_numpy(rng.random(shape, dtype=np.float32) * 0.6 + 0.2)
    own = extract(mpm.p2g)
    assert own.fields["grid_v"].shape == (8, 8) and own.fields["grid_v"].element == (2,)
    assert own.fields["C"].element == (2, 2)
    assert "# Quadratic weights." in own.text, "comments stay"
    assert "user_module" not in own.text
    agrees(fresh, own, mpm.p2g, (1.5,))


def test_typed_arrays_and_scalars(ti_arch: str, fresh: Fresh, rng: np.random.Generator) -> None:
    own = extract(axpy)
    shown = [(a.name, a.kind, a.dtype, a.shape, a.role) for a in own.arguments]
    assert shown == [
        ("a", "scalar", "f32", (), "in"),
        ("x", "array", "f32", ("x_0",), "in"),
        ("y", "array", "f32", ("y_0",), "inout"),
    ]
    assert not own.arguments[2].covered and own.arguments[2].inplace
    x, y = rng.random((2, 13), dtype=np.float32)
    agrees(fresh, own, axpy, (3.0, x, y))


def test_open_arrays_take_their_kind_from_an_example(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator
) -> None:
    # An f64 is what np.dtype says equals Python's float, and yet is no f32.
    own = extract(scaled, {"x": ti.ndarray(ti.f32, 3), "y": np.zeros(3)})
    assert [a.dtype for a in own.arguments] == ["f32", "f32", "f64"]
    assert own.templates == {"x": "f32[1d]", "y": "f64[1d]"}
    agrees(fresh, own, scaled, (3.0, rng.random(5, dtype=np.float32), rng.random(5)))
    declared = ti.types.ndarray(dtype=ti.i32, ndim=1)
    assert [a.dtype for a in extract(scaled, {"x": declared, "y": declared}).arguments[1:]] == [
        "i32",
        "i32",
    ]


def test_each_template_value_makes_a_kernel_of_its_own(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator
) -> None:
    x = rng.random(4, dtype=np.float32)
    for n in (3, 4):
        repeated(n, x.copy())  # What was launched before decides nothing.
    for n in (4, 1, 3):
        own = extract(repeated, {"n": n})
        assert own.templates == {"n": n} and [a.name for a in own.arguments] == ["x"]
        agrees(fresh, own, repeated, (x,), n=n)


def test_fields_and_dtypes_as_template_arguments(ti_arch: str, fresh: Fresh) -> None:
    counts = ti.field(ti.i32, 5)
    own = extract(fill, {"f": counts, "kind": ti.i32})
    assert own.templates == {"f": "f", "kind": "i32"}
    assert own.fields["f"].shape == (5,) and own.sources["f"] is counts
    agrees(fresh, own, fill, (3.7,), f=counts, kind=ti.i32)


def test_vectors_in_arrays(ti_arch: str, fresh: Fresh, rng: np.random.Generator) -> None:
    vec3 = ti.types.vector(3, ti.f32)

    @ti.kernel
    def mix(
        v: ti.types.ndarray(dtype=vec3, ndim=1),
        m: ti.types.ndarray(dtype=tm.mat2, ndim=1),
        out: ti.types.ndarray(dtype=vec3, ndim=1),
    ):
        for i in range(v.shape[0]):
            out[i].y += v[i].x * m[i][0, 1]
            out[i][2] = tm.dot(v[i], vec3(1, 2, 3))

    own = extract(mix)
    assert [a.element for a in own.arguments] == [(3,), (2, 2), (3,)]
    assert [a.shape for a in own.arguments] == [("v_0",), ("m_0",), ("out_0",)]
    # What functions take may be written there; what m is used for cannot.
    assert [a.role for a in own.arguments] == ["inout", "in", "inout"]
    arrays = (rng.random((7, *shape), dtype=np.float32) for shape in [(3,), (2, 2), (3,)])
    agrees(fresh, own, mix, tuple(arrays))


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("y[0] = x[0] + x.shape[0]", "in"),
        ("for i in range(x.shape[0]):\n        y[i] = x[i].y", "in"),
        ("x[0] = 1", "inout"),
        ("x[0] += 1", "inout"),
        ("x[0].y = 1", "inout"),
        ("x[0][1] -= 1", "inout"),
        ("y[0] = ti.atomic_add(x[0], 1)", "inout"),
        ("helper(target=x[0])", "inout"),
        ("helper(x[0].xy)", "inout"),
        ("helper(*x)", "inout"),
        ("helper(*(x[0], 1))", "inout"),
        ("a, b = ti.static(([x[0]], 1))", "inout"),
        ("x[0].fill(0)", "inout"),
    ],
)
def test_an_array_is_only_read_where_nothing_can_write_to_it(body: str, role: str) -> None:
    read = only_read(f"def kernel(x, y):\n    {body}\n", "kernel")
    assert ("x" in read) == (role == "in")
    assert ("y" in read) == ("y[" not in body)


def test_functions_of_every_kind(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator, module_of: Callable[..., Any]
) -> None:
    if ti_arch == "vulkan":
        pytest.skip("Taichi has no real functions on vulkan")
    module = module_of(
        """
last = object()


def unrolled(n):
    if n > 2:  # In Python, what a block writes is still there behind it.
        first, last = 0, n
    return [k * k for k in range(first, last)]


@ti.real_func
def power(x: ti.f32, n: ti.i32) -> ti.f32:
    result = ti.f32(1.0)
    if n > 0:
        result = x * power(x, n - 1)
    return result


@ti.pyfunc
def add(a, b):
    return a + b


@ti.func
def accumulate(target: ti.template(), i: int, value: float):
    target[i] += value


@ti.kernel
def run(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        for k in ti.static(unrolled(3)):
            accumulate(x, i, add(power(x[i], 3), k))
"""
    )
    agrees(fresh, extract(module.run), module.run, (rng.random(11, dtype=np.float32),))


def test_kernels_that_tikgen_made_of_a_text(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator
) -> None:
    text = """
import taichi as ti

@ti.kernel
def add(x: ti.types.ndarray(dtype=ti.f32, ndim=1), y: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        y[i] += {{ factor }} * x[i]
"""
    arrays = tuple(rng.random((2, 9), dtype=np.float32))
    kernel = tikgen.from_string(text, factor=3)
    agrees(fresh, extract(kernel), kernel, arrays)
    loaded = Loader().load(text, factor=4).add
    agrees(fresh, extract(loaded), loaded, arrays)

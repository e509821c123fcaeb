# map: Arithmetic at every element, such as `z = a*x + y`.
# problem: expr='z = a * x + y', dim=1, dtype=f32, scalars=None, part=None
# schedule: loop='flat', serial=True
# shape: n0=1000
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def chunk(
    a: ti.f32,
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=1),
    z: ti.types.ndarray(dtype=ti.f32, ndim=1),
    i_start: ti.i32,
    i_stop: ti.i32,
):
    for i in range(i_start, i_stop):
        z[i] = a * x[i] + y[i]


@ti.kernel
def map(
    a: ti.f32,
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=1),
    z: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    chunk(a, x, y, z, 0, 1000)

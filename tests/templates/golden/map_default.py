# map: Arithmetic at every element, such as `z = a*x + y`.
# problem: expr='z = a * x + y', dim=2, dtype=f32, scalars=None, part=None
# schedule: loop='flat', chunk=2048, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def chunk(
    a: ti.f32,
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    z: ti.types.ndarray(dtype=ti.f32, ndim=2),
    i_start: ti.i32,
    i_stop: ti.i32,
):
    for i in range(i_start, i_stop):
        z[0, i] = a * x[0, i] + y[0, i]


@ti.kernel
def map(
    a: ti.f32,
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    z: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    for i_chunk in range((z.shape[0] * z.shape[1] - 1) // 2048 + 1):
        i_start = i_chunk * 2048
        chunk(a, x, y, z, i_start, ti.min(i_start + 2048, z.shape[0] * z.shape[1]))

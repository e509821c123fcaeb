# map: Arithmetic at every element, such as `z = a*x + y`.
# problem: expr='z = a * x + y; w = where(z > 0, sqrt(z), 0)', dim=2, dtype=f32, scalars=None, part=None
# schedule: loop='rows', unroll=2, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def map(
    a: ti.f32,
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    z: ti.types.ndarray(dtype=ti.f32, ndim=2),
    w: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    for i in range(z.shape[0]):
        for j_step in range(z.shape[1] // 2):
            j = j_step * 2
            new_z = a * x[i, j] + y[i, j]
            new_w = ti.select(new_z > ti.f32(0.0), ti.sqrt(new_z), ti.f32(0.0))
            z[i, j] = new_z
            w[i, j] = new_w
            j1 = j + 1
            new_z = a * x[i, j1] + y[i, j1]
            new_w = ti.select(new_z > ti.f32(0.0), ti.sqrt(new_z), ti.f32(0.0))
            z[i, j1] = new_z
            w[i, j1] = new_w
        for j_rest in range(z.shape[1] % 2):
            j = z.shape[1] - z.shape[1] % 2 + j_rest
            new_z = a * x[i, j] + y[i, j]
            new_w = ti.select(new_z > ti.f32(0.0), ti.sqrt(new_z), ti.f32(0.0))
            z[i, j] = new_z
            w[i, j] = new_w

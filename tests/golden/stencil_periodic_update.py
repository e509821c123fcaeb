# stencil: Weighted sum over a neighbourhood on a regular grid.
# problem: dim=2, dtype=f32, order=2, spacing=1.0, points=None, boundary='periodic', storage='ndarray', update=True
# schedule: loop='rows', unroll=4, row_buffer=0, chunk=4096, block_dim=0
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.kernel
def stencil(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    scale: ti.f32,
):
    for i in range(x.shape[0]):
        for j_step in range(x.shape[1] // 4):
            j = j_step * 4
            y[i, j] = x[i, j] + scale * (
                (
                    x[(i - 1) % x.shape[0], j]
                    + x[i, (j - 1) % x.shape[1]]
                    + x[i, (j + 1) % x.shape[1]]
                    + x[(i + 1) % x.shape[0], j]
                )
                + ti.f32(-4.0) * x[i, j]
            )
            j1 = j + 1
            y[i, j1] = x[i, j1] + scale * (
                (
                    x[(i - 1) % x.shape[0], j1]
                    + x[i, (j1 - 1) % x.shape[1]]
                    + x[i, (j1 + 1) % x.shape[1]]
                    + x[(i + 1) % x.shape[0], j1]
                )
                + ti.f32(-4.0) * x[i, j1]
            )
            j2 = j + 2
            y[i, j2] = x[i, j2] + scale * (
                (
                    x[(i - 1) % x.shape[0], j2]
                    + x[i, (j2 - 1) % x.shape[1]]
                    + x[i, (j2 + 1) % x.shape[1]]
                    + x[(i + 1) % x.shape[0], j2]
                )
                + ti.f32(-4.0) * x[i, j2]
            )
            j3 = j + 3
            y[i, j3] = x[i, j3] + scale * (
                (
                    x[(i - 1) % x.shape[0], j3]
                    + x[i, (j3 - 1) % x.shape[1]]
                    + x[i, (j3 + 1) % x.shape[1]]
                    + x[(i + 1) % x.shape[0], j3]
                )
                + ti.f32(-4.0) * x[i, j3]
            )
        for j_rest in range(x.shape[1] % 4):
            j = x.shape[1] - x.shape[1] % 4 + j_rest
            y[i, j] = x[i, j] + scale * (
                (
                    x[(i - 1) % x.shape[0], j]
                    + x[i, (j - 1) % x.shape[1]]
                    + x[i, (j + 1) % x.shape[1]]
                    + x[(i + 1) % x.shape[0], j]
                )
                + ti.f32(-4.0) * x[i, j]
            )

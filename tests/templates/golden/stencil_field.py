# stencil: Weighted sum over a neighbourhood on a regular grid.
# problem: dim=3, dtype=f32, order=2, spacing=1.0, points=None, boundary='interior', storage='field', update=False
# schedule: loop='rows', unroll=2, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def stencil(
    x: ti.template(),
    y: ti.template(),
):
    for i, j in ti.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1)):
        for k_step in range(ti.max(x.shape[2] - 2, 0) // 2):
            k = 1 + k_step * 2
            y[i, j, k] = (
                (
                    x[i - 1, j, k]
                    + x[i, j - 1, k]
                    + x[i, j, k - 1]
                    + x[i, j, k + 1]
                    + x[i, j + 1, k]
                    + x[i + 1, j, k]
                )
                + ti.f32(-6.0) * x[i, j, k]
            )
            k1 = k + 1
            y[i, j, k1] = (
                (
                    x[i - 1, j, k1]
                    + x[i, j - 1, k1]
                    + x[i, j, k1 - 1]
                    + x[i, j, k1 + 1]
                    + x[i, j + 1, k1]
                    + x[i + 1, j, k1]
                )
                + ti.f32(-6.0) * x[i, j, k1]
            )
        for k_rest in range(ti.max(x.shape[2] - 2, 0) % 2):
            k = x.shape[2] - 1 - (x.shape[2] - 2) % 2 + k_rest
            y[i, j, k] = (
                (
                    x[i - 1, j, k]
                    + x[i, j - 1, k]
                    + x[i, j, k - 1]
                    + x[i, j, k + 1]
                    + x[i, j + 1, k]
                    + x[i + 1, j, k]
                )
                + ti.f32(-6.0) * x[i, j, k]
            )

# stencil: Weighted sum over a neighbourhood on a regular grid.
# problem: dim=3, dtype=f32, order=2, spacing=1.0, points=None, boundary='interior', storage='ndarray', update=False
# schedule: loop='lanes', block_dim=128, items=4, item_rows=2
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def stencil(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    y: ti.types.ndarray(dtype=ti.f32, ndim=3),
):
    ti.loop_config(block_dim=128)
    for block, block_row, k in ti.ndrange((x.shape[0] - 3) // 4 + 1, (x.shape[1] - 3) // 2 + 1, (1, x.shape[2] - 1)):
        first = 1 + block * 4
        first_row = 1 + block_row * 2
        if first + 4 <= x.shape[0] - 1 and first_row + 2 <= x.shape[1] - 1:
            row = x.shape[2]
            plane = x.shape[1] * row
            sums = ti.Matrix.zero(ti.f32, 4, 2)
            for lane, lane_row in ti.static(ti.ndrange(4, 2)):
                i = first + lane
                j = first_row + lane_row
                sums[lane, lane_row] = (
                    (
                        x[0, 0, (i - 1) * plane + j * row + k]
                        + x[0, 0, i * plane + (j - 1) * row + k]
                        + x[0, 0, i * plane + j * row + k - 1]
                        + x[0, 0, i * plane + j * row + k + 1]
                        + x[0, 0, i * plane + (j + 1) * row + k]
                        + x[0, 0, (i + 1) * plane + j * row + k]
                    )
                    + ti.f32(-6.0) * x[0, 0, i * plane + j * row + k]
                )
            for lane, lane_row in ti.static(ti.ndrange(4, 2)):
                i = first + lane
                j = first_row + lane_row
                y[0, 0, i * plane + j * row + k] = sums[lane, lane_row]
        else:
            for i in range(first, ti.min(first + 4, x.shape[0] - 1)):
                for j in range(first_row, ti.min(first_row + 2, x.shape[1] - 1)):
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

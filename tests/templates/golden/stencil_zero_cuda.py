# stencil: Weighted sum over a neighbourhood on a regular grid.
# problem: dim=2, dtype=f32, order=2, spacing=1.0, points=None, boundary='zero', storage='ndarray', update=False
# schedule: loop='lanes', block_dim=128, items=4
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def stencil(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    ti.loop_config(block_dim=128)
    for block, j in ti.ndrange((x.shape[0] - 1) // 4 + 1, x.shape[1]):
        first = block * 4
        if first + 4 <= x.shape[0]:
            row = x.shape[1]
            places = ti.Vector(
                [
                    ti.max(first - 1, 0),
                    first,
                    first + 1,
                    first + 2,
                    first + 3,
                    ti.min(first + 4, x.shape[0] - 1),
                ]
            )
            sums = ti.Vector.zero(ti.f32, 4)
            for lane in ti.static(range(4)):
                i = first + lane
                sums[lane] = (
                    (
                        ti.select(i - 1 >= 0, x[0, places[lane] * row + j], ti.f32(0.0))
                        + ti.select(j - 1 >= 0, x[0, i * row + ti.max(j - 1, 0)], ti.f32(0.0))
                        + ti.select(j + 1 < x.shape[1], x[0, i * row + ti.min(j + 1, x.shape[1] - 1)], ti.f32(0.0))
                        + ti.select(i + 1 < x.shape[0], x[0, places[lane + 2] * row + j], ti.f32(0.0))
                    )
                    + ti.f32(-4.0) * x[0, i * row + j]
                )
            for lane in ti.static(range(4)):
                i = first + lane
                y[0, i * row + j] = sums[lane]
        else:
            for i in range(first, ti.min(first + 4, x.shape[0])):
                y[i, j] = (
                    (
                        ti.select(i - 1 >= 0, x[ti.max(i - 1, 0), j], ti.f32(0.0))
                        + ti.select(j - 1 >= 0, x[i, ti.max(j - 1, 0)], ti.f32(0.0))
                        + ti.select(j + 1 < x.shape[1], x[i, ti.min(j + 1, x.shape[1] - 1)], ti.f32(0.0))
                        + ti.select(i + 1 < x.shape[0], x[ti.min(i + 1, x.shape[0] - 1), j], ti.f32(0.0))
                    )
                    + ti.f32(-4.0) * x[i, j]
                )

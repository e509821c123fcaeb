# stencil: Weighted sum over a neighbourhood on a regular grid.
# problem: dim=3, dtype=f32, order=4, spacing=1.0, points=None, boundary='interior', storage='ndarray', update=False
# schedule: loop='rows', unroll=1, row_buffer=32, chunk=4096, block_dim=0
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.kernel
def stencil(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    y: ti.types.ndarray(dtype=ti.f32, ndim=3),
):
    for i, j in ti.ndrange((2, x.shape[0] - 2), (2, x.shape[1] - 2)):
        row = x.shape[2]
        plane = x.shape[1] * row
        first = i * plane + j * row
        start = first + 2
        stop = first + x.shape[2] - 2
        if stop - start >= 32:
            for step in range((stop - start - 1) // 32 + 1):
                # The last step overlaps the one before it, so that nothing remains.
                base = ti.min(start + step * 32, stop - 32)
                buffer = ti.Vector.zero(ti.f32, 32)
                for u in range(32):
                    k = base + u
                    buffer[u] = (
                        ti.f32(-0.08333333333333333) * (
                            x[0, 0, k - 2 * plane]
                            + x[0, 0, k - 2 * row]
                            + x[0, 0, k - 2]
                            + x[0, 0, k + 2]
                            + x[0, 0, k + 2 * row]
                            + x[0, 0, k + 2 * plane]
                        )
                        + ti.f32(1.3333333333333333) * (
                            x[0, 0, k - plane]
                            + x[0, 0, k - row]
                            + x[0, 0, k - 1]
                            + x[0, 0, k + 1]
                            + x[0, 0, k + row]
                            + x[0, 0, k + plane]
                        )
                        + ti.f32(-7.5) * x[0, 0, k]
                    )
                for u in range(32):
                    y[0, 0, base + u] = buffer[u]
        else:
            for k in range(start, stop):
                y[0, 0, k] = (
                    ti.f32(-0.08333333333333333) * (
                        x[0, 0, k - 2 * plane]
                        + x[0, 0, k - 2 * row]
                        + x[0, 0, k - 2]
                        + x[0, 0, k + 2]
                        + x[0, 0, k + 2 * row]
                        + x[0, 0, k + 2 * plane]
                    )
                    + ti.f32(1.3333333333333333) * (
                        x[0, 0, k - plane]
                        + x[0, 0, k - row]
                        + x[0, 0, k - 1]
                        + x[0, 0, k + 1]
                        + x[0, 0, k + row]
                        + x[0, 0, k + plane]
                    )
                    + ti.f32(-7.5) * x[0, 0, k]
                )

# stencil: Weighted sum over a neighbourhood on a regular grid.
# problem: dim=3, dtype=f32, order=4, spacing=1.0, points=None, boundary='interior', storage='ndarray', update=False
# schedule: loop='function', row_buffer=32, rows=16, iterations=8, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def rows(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    y: ti.types.ndarray(dtype=ti.f32, ndim=3),
    row: ti.i32,
    i: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    plane = x.shape[1] * row
    for j in range(first, last):
        begin = i * plane + j * row
        left = 2
        right = ti.max(row - 2, left)
        start = begin + left
        stop = begin + right
        buffer = ti.Vector.zero(ti.f32, 32)
        for step in range((stop - start) // 32):
            k = start + step * 32
            # Bounded, so that LLVM knows that adding to them cannot overflow.
            out = ti.min(k, 2147483136)
            run0 = ti.min(k - 2 * plane, 2147483136)
            run1 = ti.min(k - plane, 2147483136)
            run2 = ti.min(k - 2 * row, 2147483136)
            run3 = ti.min(k - row, 2147483136)
            run4 = ti.min(k - 2, 2147483136)
            run5 = ti.min(k + row, 2147483136)
            run6 = ti.min(k + 2 * row, 2147483136)
            run7 = ti.min(k + plane, 2147483136)
            run8 = ti.min(k + 2 * plane, 2147483136)
            for u in range(32):
                buffer[u] = (
                    ti.f32(-0.08333333333333333) * (
                        x[0, 0, run0 + u]
                        + x[0, 0, run2 + u]
                        + x[0, 0, run4 + u]
                        + x[0, 0, run4 + u + 4]
                        + x[0, 0, run6 + u]
                        + x[0, 0, run8 + u]
                    )
                    + ti.f32(1.3333333333333333) * (
                        x[0, 0, run1 + u]
                        + x[0, 0, run3 + u]
                        + x[0, 0, run4 + u + 1]
                        + x[0, 0, run4 + u + 3]
                        + x[0, 0, run5 + u]
                        + x[0, 0, run7 + u]
                    )
                    + ti.f32(-7.5) * x[0, 0, run4 + u + 2]
                )
            for u in range(32):
                y[0, 0, out + u] = buffer[u]
        for k in range(stop - (stop - start) % 32, stop):
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


@ti.kernel
def stencil(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    y: ti.types.ndarray(dtype=ti.f32, ndim=3),
):
    # Taichi gives a thread 512 iterations at least: with empty ones, few strips occupy all threads.
    for turn in range(ti.max(x.shape[0] - 4, 0) * ((x.shape[1] - 5) // 16 + 1) * 8):
        if turn % 8 == 0:
            strips = (x.shape[1] - 5) // 16 + 1
            i = 2 + turn // 8 // strips
            strip = turn // 8 % strips
            first = 2 + strip * 16
            row = x.shape[2]
            rows(x, y, row, i, first, ti.min(first + 16, x.shape[1] - 2))

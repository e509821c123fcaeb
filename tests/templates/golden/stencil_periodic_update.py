# stencil: Weighted sum over a neighbourhood on a regular grid.
# problem: dim=2, dtype=f32, order=2, spacing=1.0, points=None, boundary='periodic', storage='ndarray', update=True
# schedule: loop='function', row_buffer=32, rows=1, iterations=8, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def rows(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    scale: ti.f32,
    row: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    for i in range(first, last):
        begin = i * row
        left = ti.min(1, row)
        right = ti.max(row - 1, left)
        if i < 1 or i >= x.shape[0] - 1:
            left = row
            right = row
        for j in range(left):
            y[i, j] = x[i, j] + scale * (
                (
                    x[(i - 1) % x.shape[0], j]
                    + x[i, (j - 1) % x.shape[1]]
                    + x[i, (j + 1) % x.shape[1]]
                    + x[(i + 1) % x.shape[0], j]
                )
                + ti.f32(-4.0) * x[i, j]
            )
        start = begin + left
        stop = begin + right
        buffer = ti.Vector.zero(ti.f32, 32)
        for step in range((stop - start) // 32):
            k = start + step * 32
            # Bounded, so that LLVM knows that adding to them cannot overflow.
            out = ti.min(k, 2147483136)
            run0 = ti.min(k - row, 2147483136)
            run1 = ti.min(k - 1, 2147483136)
            run2 = ti.min(k + row, 2147483136)
            for u in range(32):
                buffer[u] = x[0, run1 + u + 1] + scale * (
                    (
                        x[0, run0 + u]
                        + x[0, run1 + u]
                        + x[0, run1 + u + 2]
                        + x[0, run2 + u]
                    )
                    + ti.f32(-4.0) * x[0, run1 + u + 1]
                )
            for u in range(32):
                y[0, out + u] = buffer[u]
        for k in range(stop - (stop - start) % 32, stop):
            y[0, k] = x[0, k] + scale * (
                (x[0, k - row] + x[0, k - 1] + x[0, k + 1] + x[0, k + row])
                + ti.f32(-4.0) * x[0, k]
            )
        for j in range(right, x.shape[1]):
            y[i, j] = x[i, j] + scale * (
                (
                    x[(i - 1) % x.shape[0], j]
                    + x[i, (j - 1) % x.shape[1]]
                    + x[i, (j + 1) % x.shape[1]]
                    + x[(i + 1) % x.shape[0], j]
                )
                + ti.f32(-4.0) * x[i, j]
            )


@ti.kernel
def stencil(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    scale: ti.f32,
):
    # Taichi gives a thread 512 iterations at least: with empty ones, few strips occupy all threads.
    for turn in range(((x.shape[0] - 1) // 1 + 1) * 8):
        if turn % 8 == 0:
            strip = turn // 8
            first = strip * 1
            row = x.shape[1]
            rows(x, y, scale, row, first, ti.min(first + 1, x.shape[0]))

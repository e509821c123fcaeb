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
        start_run0 = begin - row
        start_run1 = begin
        start_run2 = begin + row
        if i < 1 or i >= x.shape[0] - 1:
            start_run0 = (i - 1) % x.shape[0] * row
            start_run2 = (i + 1) % x.shape[0] * row
        if row < 8:
            for k in range(row):
                y[i, k] = x[i, k] + scale * (
                    (
                        x[(i - 1) % x.shape[0], k]
                        + x[i, (k - 1) % x.shape[1]]
                        + x[i, (k + 1) % x.shape[1]]
                        + x[(i + 1) % x.shape[0], k]
                    )
                    + ti.f32(-4.0) * x[i, k]
                )
        else:
            is_long = row >= 34
            # A long row is what lies between its ends, in parts, and a short one is all end.
            stride = ti.select(is_long, row, 8)
            for part in range(ti.select(is_long, 3, (row - 1) // 8 + 1)):
                if is_long and part == 1:
                    points = ti.Vector.zero(ti.f32, 32)
                    for step in range((row - 3) // 32 + 1):
                        k = ti.min(1 + step * 32, row - 33)
                        # Bounded, so that LLVM knows that adding to them cannot overflow.
                        out = ti.min(begin + k, 2147483136)
                        run0 = ti.min(start_run0 + k, 2147483136)
                        run1 = ti.min(start_run1 + k - 1, 2147483136)
                        run2 = ti.min(start_run2 + k, 2147483136)
                        for u in range(32):
                            points[u] = x[0, run1 + u + 1] + scale * (
                                (
                                    x[0, run0 + u]
                                    + x[0, run1 + u]
                                    + x[0, run1 + u + 2]
                                    + x[0, run2 + u]
                                )
                                + ti.f32(-4.0) * x[0, run1 + u + 1]
                            )
                        for u in range(32):
                            y[0, out + u] = points[u]
                else:
                    k = ti.min(part * stride, row - 8)
                    points = ti.Vector.zero(ti.f32, 8)
                    near_run1 = ti.Vector.zero(ti.f32, 10)
                    for u in range(10):
                        place = k + u - 1
                        near_run1[u] = x[0, start_run1 + ti.select(place < 0, place + row, ti.select(place >= row, place - row, place))]
                    # Bounded, so that LLVM knows that adding to them cannot overflow.
                    out = ti.min(begin + k, 2147483136)
                    run0 = ti.min(start_run0 + k, 2147483136)
                    run2 = ti.min(start_run2 + k, 2147483136)
                    for u in range(8):
                        points[u] = near_run1[u + 1] + scale * (
                            (
                                x[0, run0 + u]
                                + near_run1[u]
                                + near_run1[u + 2]
                                + x[0, run2 + u]
                            )
                            + ti.f32(-4.0) * near_run1[u + 1]
                        )
                    for u in range(8):
                        y[0, out + u] = points[u]


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

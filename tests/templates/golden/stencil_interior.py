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
        start_run0 = begin - 2 * plane
        start_run1 = begin - plane
        start_run2 = begin - 2 * row
        start_run3 = begin - row
        start_run4 = begin
        start_run5 = begin + row
        start_run6 = begin + 2 * row
        start_run7 = begin + plane
        start_run8 = begin + 2 * plane
        inner = row - 4
        if inner >= 32:
            points = ti.Vector.zero(ti.f32, 32)
            for step in range((row - 5) // 32 + 1):
                k = ti.min(2 + step * 32, row - 34)
                # Bounded, so that LLVM knows that adding to them cannot overflow.
                out = ti.min(begin + k, 2147483136)
                run0 = ti.min(start_run0 + k, 2147483136)
                run1 = ti.min(start_run1 + k, 2147483136)
                run2 = ti.min(start_run2 + k, 2147483136)
                run3 = ti.min(start_run3 + k, 2147483136)
                run4 = ti.min(start_run4 + k - 2, 2147483136)
                run5 = ti.min(start_run5 + k, 2147483136)
                run6 = ti.min(start_run6 + k, 2147483136)
                run7 = ti.min(start_run7 + k, 2147483136)
                run8 = ti.min(start_run8 + k, 2147483136)
                for u in range(32):
                    points[u] = (
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
                    y[0, 0, out + u] = points[u]
        elif inner >= 8:
            points = ti.Vector.zero(ti.f32, 8)
            for step in range((row - 5) // 8 + 1):
                k = ti.min(2 + step * 8, row - 10)
                # Bounded, so that LLVM knows that adding to them cannot overflow.
                out = ti.min(begin + k, 2147483136)
                run0 = ti.min(start_run0 + k, 2147483136)
                run1 = ti.min(start_run1 + k, 2147483136)
                run2 = ti.min(start_run2 + k, 2147483136)
                run3 = ti.min(start_run3 + k, 2147483136)
                run4 = ti.min(start_run4 + k - 2, 2147483136)
                run5 = ti.min(start_run5 + k, 2147483136)
                run6 = ti.min(start_run6 + k, 2147483136)
                run7 = ti.min(start_run7 + k, 2147483136)
                run8 = ti.min(start_run8 + k, 2147483136)
                for u in range(8):
                    points[u] = (
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
                for u in range(8):
                    y[0, 0, out + u] = points[u]
        else:
            for k in range(2, row - 2):
                y[0, 0, begin + k] = (
                    ti.f32(-0.08333333333333333) * (
                        x[0, 0, begin + k - 2 * plane]
                        + x[0, 0, begin + k - 2 * row]
                        + x[0, 0, begin + k - 2]
                        + x[0, 0, begin + k + 2]
                        + x[0, 0, begin + k + 2 * row]
                        + x[0, 0, begin + k + 2 * plane]
                    )
                    + ti.f32(1.3333333333333333) * (
                        x[0, 0, begin + k - plane]
                        + x[0, 0, begin + k - row]
                        + x[0, 0, begin + k - 1]
                        + x[0, 0, begin + k + 1]
                        + x[0, 0, begin + k + row]
                        + x[0, 0, begin + k + plane]
                    )
                    + ti.f32(-7.5) * x[0, 0, begin + k]
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

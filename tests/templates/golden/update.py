# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="r = u * v ** 2; u' = u + a * (lap(u) - r)", dim=2, dtype=f32, order=2, spacing=1.0, scalars=(a,), on_device=(), constants=None, boundary='periodic', mask=None, where=None, vectors=None, layout='first', at=None, types=None, outputs=None, part=None, window=False
# schedule: loop='function', row_buffer=32, rows=1, iterations=8, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def points(
    u: ti.types.ndarray(dtype=ti.f32, ndim=2),
    v: ti.types.ndarray(dtype=ti.f32, ndim=2),
    a: ti.f32,
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=2),
    row: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    for i in range(first, last):
        start = i * row
        start_n1 = ti.select(i < 1, u.shape[0] - 1, i - 1) * row
        start_1 = ti.select(i + 1 < u.shape[0], i + 1, 0) * row
        left = ti.min(1, row)
        right = ti.max(row - 1, left)
        if row > 2:
            for end in ti.static(range(2)):
                j = end if ti.static(end < 1) else right + (end - 1)
                r = u[0, start + j] * v[0, start + j] ** 2
                u_next[0, start + j] = (
                    u[0, start + j]
                    + a
                    * (
                        u[0, start_n1 + j]
                        + u[0, start_1 + j]
                        + u[0, start + ti.select(j - 1 < 0, j - 1 + row, j - 1)]
                        + u[0, start + ti.select(j + 1 >= row, j + 1 - row, j + 1)]
                        - ti.f32(4.0) * u[0, start + j]
                        - r
                    )
                )
        else:
            for j in range(row):
                r = u[0, start + j] * v[0, start + j] ** 2
                u_next[0, start + j] = (
                    u[0, start + j]
                    + a
                    * (
                        u[0, start_n1 + j]
                        + u[0, start_1 + j]
                        + u[0, start + ti.select(j < 1, row - 1, j - 1)]
                        + u[0, start + ti.select(j + 1 < row, j + 1, 0)]
                        - ti.f32(4.0) * u[0, start + j]
                        - r
                    )
                )
        if (right - left) >= 32:
            for step in range(((right - left) - 1) // 32 + 1):
                j = ti.min(left + step * 32, right - 32)
                buffer_u_next = ti.Vector.zero(ti.f32, 32)
                # Bounded, so that LLVM knows that adding to them cannot overflow.
                run = ti.min(start + j - 1, 2147483136)
                run_n1 = ti.min(start_n1 + j, 2147483136)
                run_1 = ti.min(start_1 + j, 2147483136)
                for lane in range(32):
                    r = u[0, run + lane + 1] * v[0, run + lane + 1] ** 2
                    buffer_u_next[lane] = (
                        u[0, run + lane + 1]
                        + a
                        * (
                            u[0, run_n1 + lane]
                            + u[0, run_1 + lane]
                            + u[0, run + lane]
                            + u[0, run + lane + 2]
                            - ti.f32(4.0) * u[0, run + lane + 1]
                            - r
                        )
                    )
                for lane in range(32):
                    u_next[0, run + lane + 1] = buffer_u_next[lane]
        else:
            for j in range(left, right):
                r = u[0, start + j] * v[0, start + j] ** 2
                u_next[0, start + j] = (
                    u[0, start + j]
                    + a
                    * (
                        u[0, start_n1 + j]
                        + u[0, start_1 + j]
                        + u[0, start + j - 1]
                        + u[0, start + j + 1]
                        - ti.f32(4.0) * u[0, start + j]
                        - r
                    )
                )


@ti.kernel
def update(
    u: ti.types.ndarray(dtype=ti.f32, ndim=2),
    v: ti.types.ndarray(dtype=ti.f32, ndim=2),
    a: ti.f32,
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    # Taichi gives a thread 512 iterations at least: with empty ones, few strips occupy all threads.
    for turn in range(u.shape[0] * 8):
        if turn % 8 == 0:
            strip = turn // 8
            first = strip
            row = u.shape[1]
            points(u, v, a, u_next, row, first, first + 1)

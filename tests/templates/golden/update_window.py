# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="u' = lap(u)", dim=3, dtype=f32, order=2, spacing=1.0, scalars=(), on_device=(), constants=None, boundary='periodic', mask=None, where=None, vectors=None, layout='first', at=None, types=None, outputs=None, part=None, window=True
# schedule: loop='function', row_buffer=16, rows=16, iterations=8, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def points(
    u: ti.types.ndarray(dtype=ti.f32, ndim=3),
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=3),
    row: ti.i32,
    i: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    plane = u.shape[1] * row
    for j in range(first, last):
        start = i * plane + j * row
        start_n1_0 = ti.select(i < 1, u.shape[0] - 1, i - 1) * plane + j * row
        start_1_0 = ti.select(i + 1 < u.shape[0], i + 1, 0) * plane + j * row
        start_0_n1 = i * plane + ti.select(j < 1, u.shape[1] - 1, j - 1) * row
        start_0_1 = i * plane + ti.select(j + 1 < u.shape[1], j + 1, 0) * row
        left = ti.min(1, row)
        right = ti.max(row - 1, left)
        if row > 2:
            for end in ti.static(range(2)):
                k = end if ti.static(end < 1) else right + (end - 1)
                u_next[0, 0, start + k] = (
                    u[0, 0, start_n1_0 + k]
                    + u[0, 0, start_1_0 + k]
                    + u[0, 0, start_0_n1 + k]
                    + u[0, 0, start_0_1 + k]
                    + u[0, 0, start + ti.select(k - 1 < 0, k - 1 + row, k - 1)]
                    + u[0, 0, start + ti.select(k + 1 >= row, k + 1 - row, k + 1)]
                    - ti.f32(6.0) * u[0, 0, start + k]
                )
        else:
            for k in range(row):
                u_next[0, 0, start + k] = (
                    u[0, 0, start_n1_0 + k]
                    + u[0, 0, start_1_0 + k]
                    + u[0, 0, start_0_n1 + k]
                    + u[0, 0, start_0_1 + k]
                    + u[0, 0, start + ti.select(k < 1, row - 1, k - 1)]
                    + u[0, 0, start + ti.select(k + 1 < row, k + 1, 0)]
                    - ti.f32(6.0) * u[0, 0, start + k]
                )
        if (right - left) >= 16:
            for step in range(((right - left) - 1) // 16 + 1):
                k = ti.min(left + step * 16, right - 16)
                buffer_u_next = ti.Vector.zero(ti.f32, 16)
                # Bounded, so that LLVM knows that adding to them cannot overflow.
                run = ti.min(start + k - 1, 2147483136)
                run_n1_0 = ti.min(start_n1_0 + k, 2147483136)
                run_1_0 = ti.min(start_1_0 + k, 2147483136)
                run_0_n1 = ti.min(start_0_n1 + k, 2147483136)
                run_0_1 = ti.min(start_0_1 + k, 2147483136)
                for lane in range(16):
                    buffer_u_next[lane] = (
                        u[0, 0, run_n1_0 + lane]
                        + u[0, 0, run_1_0 + lane]
                        + u[0, 0, run_0_n1 + lane]
                        + u[0, 0, run_0_1 + lane]
                        + u[0, 0, run + lane]
                        + u[0, 0, run + lane + 2]
                        - ti.f32(6.0) * u[0, 0, run + lane + 1]
                    )
                for lane in range(16):
                    u_next[0, 0, run + lane + 1] = buffer_u_next[lane]
        else:
            for k in range(left, right):
                u_next[0, 0, start + k] = (
                    u[0, 0, start_n1_0 + k]
                    + u[0, 0, start_1_0 + k]
                    + u[0, 0, start_0_n1 + k]
                    + u[0, 0, start_0_1 + k]
                    + u[0, 0, start + k - 1]
                    + u[0, 0, start + k + 1]
                    - ti.f32(6.0) * u[0, 0, start + k]
                )


@ti.kernel
def update(
    u: ti.types.ndarray(dtype=ti.f32, ndim=3),
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=3),
    window_start: ti.i32,
    window_stop: ti.i32,
):
    window_low = ti.max(window_start, 0)
    window_high = ti.max(ti.min(window_stop, u.shape[0]), window_low)
    # Taichi gives a thread 512 iterations at least: with empty ones, few strips occupy all threads.
    for turn in range(ti.max(window_high - window_low, 0) * ((u.shape[1] - 1) // 16 + 1) * 8):
        if turn % 8 == 0:
            strips = (u.shape[1] - 1) // 16 + 1
            i = window_low + turn // 8 // strips
            strip = turn // 8 % strips
            first = strip * 16
            row = u.shape[2]
            points(u, u_next, row, i, first, ti.min(first + 16, u.shape[1]))

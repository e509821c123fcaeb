# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="u' = u + a * lap(u)", dim=3, dtype=f32, order=2, spacing=1.0, scalars=(a,), on_device=(), constants=None, boundary='zero', mask=None, where=None, vectors=None, layout='first', at=None, types=None, outputs=None, part=None, window=False
# schedule: loop='function', row_buffer=16, rows=16, iterations=8, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def points(
    u: ti.types.ndarray(dtype=ti.f32, ndim=3),
    a: ti.f32,
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=3),
    row: ti.i32,
    i: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    plane = u.shape[1] * row
    for j in range(first, last):
        if i < 1 or i >= u.shape[0] - 1 or j < 1 or j >= u.shape[1] - 1:
            start = i * plane + j * row
            start_n1_0 = ti.max(i - 1, 0) * plane + j * row
            start_1_0 = ti.min(i + 1, u.shape[0] - 1) * plane + j * row
            start_0_n1 = i * plane + ti.max(j - 1, 0) * row
            start_0_1 = i * plane + ti.min(j + 1, u.shape[1] - 1) * row
            left = ti.min(1, row)
            right = ti.max(row - 1, left)
            for end in range(left + row - right):
                k = ti.select(end < left, end, right - left + end)
                u_next[i, j, k] = (
                    u[i, j, k]
                    + a
                    * (
                        ti.select(i - 1 < 0, ti.f32(0.0), u[ti.max(i - 1, 0), j, k])
                        + ti.select(i + 1 >= u.shape[0], ti.f32(0.0), u[ti.min(i + 1, u.shape[0] - 1), j, k])
                        + ti.select(j - 1 < 0, ti.f32(0.0), u[i, ti.max(j - 1, 0), k])
                        + ti.select(j + 1 >= u.shape[1], ti.f32(0.0), u[i, ti.min(j + 1, u.shape[1] - 1), k])
                        + ti.select(k - 1 < 0, ti.f32(0.0), u[i, j, ti.max(k - 1, 0)])
                        + ti.select(k + 1 >= u.shape[2], ti.f32(0.0), u[i, j, ti.min(k + 1, u.shape[2] - 1)])
                        - ti.f32(6.0) * u[i, j, k]
                    )
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
                            u[0, 0, run + lane + 1]
                            + a
                            * (
                                ti.select(i - 1 < 0, ti.f32(0.0), u[0, 0, run_n1_0 + lane])
                                + ti.select(i + 1 >= u.shape[0], ti.f32(0.0), u[0, 0, run_1_0 + lane])
                                + ti.select(j - 1 < 0, ti.f32(0.0), u[0, 0, run_0_n1 + lane])
                                + ti.select(j + 1 >= u.shape[1], ti.f32(0.0), u[0, 0, run_0_1 + lane])
                                + u[0, 0, run + lane]
                                + u[0, 0, run + lane + 2]
                                - ti.f32(6.0) * u[0, 0, run + lane + 1]
                            )
                        )
                    for lane in range(16):
                        u_next[0, 0, run + lane + 1] = buffer_u_next[lane]
            else:
                for k in range(left, right):
                    u_next[0, 0, start + k] = (
                        u[i, j, k]
                        + a
                        * (
                            ti.select(i - 1 < 0, ti.f32(0.0), u[ti.max(i - 1, 0), j, k])
                            + ti.select(i + 1 >= u.shape[0], ti.f32(0.0), u[ti.min(i + 1, u.shape[0] - 1), j, k])
                            + ti.select(j - 1 < 0, ti.f32(0.0), u[i, ti.max(j - 1, 0), k])
                            + ti.select(j + 1 >= u.shape[1], ti.f32(0.0), u[i, ti.min(j + 1, u.shape[1] - 1), k])
                            + ti.select(k - 1 < 0, ti.f32(0.0), u[i, j, ti.max(k - 1, 0)])
                            + ti.select(k + 1 >= u.shape[2], ti.f32(0.0), u[i, j, ti.min(k + 1, u.shape[2] - 1)])
                            - ti.f32(6.0) * u[i, j, k]
                        )
                    )
        else:
            start = i * plane + j * row
            start_n1_0 = (i - 1) * plane + j * row
            start_1_0 = (i + 1) * plane + j * row
            start_0_n1 = i * plane + (j - 1) * row
            start_0_1 = i * plane + (j + 1) * row
            left = ti.min(1, row)
            right = ti.max(row - 1, left)
            if row > 2:
                for end in ti.static(range(2)):
                    k = end if ti.static(end < 1) else right + (end - 1)
                    u_next[0, 0, start + k] = (
                        u[0, 0, start + k]
                        + a
                        * (
                            u[0, 0, start_n1_0 + k]
                            + u[0, 0, start_1_0 + k]
                            + u[0, 0, start_0_n1 + k]
                            + u[0, 0, start_0_1 + k]
                            + ti.select(k - 1 < 0, ti.f32(0.0), u[0, 0, start + ti.max(k - 1, 0)])
                            + ti.select(k + 1 >= row, ti.f32(0.0), u[0, 0, start + ti.min(k + 1, row - 1)])
                            - ti.f32(6.0) * u[0, 0, start + k]
                        )
                    )
            else:
                for k in range(row):
                    u_next[0, 0, start + k] = (
                        u[0, 0, start + k]
                        + a
                        * (
                            u[0, 0, start_n1_0 + k]
                            + u[0, 0, start_1_0 + k]
                            + u[0, 0, start_0_n1 + k]
                            + u[0, 0, start_0_1 + k]
                            + ti.select(k - 1 < 0, ti.f32(0.0), u[0, 0, start + ti.max(k - 1, 0)])
                            + ti.select(k + 1 >= row, ti.f32(0.0), u[0, 0, start + ti.min(k + 1, row - 1)])
                            - ti.f32(6.0) * u[0, 0, start + k]
                        )
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
                            u[0, 0, run + lane + 1]
                            + a
                            * (
                                u[0, 0, run_n1_0 + lane]
                                + u[0, 0, run_1_0 + lane]
                                + u[0, 0, run_0_n1 + lane]
                                + u[0, 0, run_0_1 + lane]
                                + u[0, 0, run + lane]
                                + u[0, 0, run + lane + 2]
                                - ti.f32(6.0) * u[0, 0, run + lane + 1]
                            )
                        )
                    for lane in range(16):
                        u_next[0, 0, run + lane + 1] = buffer_u_next[lane]
            else:
                for k in range(left, right):
                    u_next[0, 0, start + k] = (
                        u[0, 0, start + k]
                        + a
                        * (
                            u[0, 0, start_n1_0 + k]
                            + u[0, 0, start_1_0 + k]
                            + u[0, 0, start_0_n1 + k]
                            + u[0, 0, start_0_1 + k]
                            + u[0, 0, start + k - 1]
                            + u[0, 0, start + k + 1]
                            - ti.f32(6.0) * u[0, 0, start + k]
                        )
                    )


@ti.kernel
def update(
    u: ti.types.ndarray(dtype=ti.f32, ndim=3),
    a: ti.f32,
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=3),
):
    # Taichi gives a thread 512 iterations at least: with empty ones, few strips occupy all threads.
    for turn in range(u.shape[0] * ((u.shape[1] - 1) // 16 + 1) * 8):
        if turn % 8 == 0:
            strips = (u.shape[1] - 1) // 16 + 1
            i = turn // 8 // strips
            strip = turn // 8 % strips
            first = strip * 16
            row = u.shape[2]
            points(u, a, u_next, row, i, first, ti.min(first + 16, u.shape[1]))

# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="u' = u + a * lap(u) + u[0, -2]", dim=2, dtype=f32, order=2, spacing=1.0, scalars=(a,), on_device=(), constants=None, boundary={'x': ('value', a), 'y': 'reflect'}, mask=None, where=None, vectors=None, layout='first', at=None, types=None, outputs=None, part=None, window=False
# schedule: loop='function', row_buffer=32, rows=1, iterations=8, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.func
def mirrored(place, extent):
    """Return the index inside that lies as far from the edge point as ``place`` does."""
    turn = ti.max(2 * extent - 2, 1)
    rest = ti.abs(place) % turn
    return ti.min(rest, turn - rest, extent - 1)


@ti.real_func
def points(
    u: ti.types.ndarray(dtype=ti.f32, ndim=2),
    a: ti.f32,
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=2),
    row: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    for i in range(first, last):
        if i < 1 or i >= u.shape[0] - 1:
            for j in range(0, row):
                u_next[i, j] = (
                    u[i, j]
                    + a
                    * (
                        ti.select(i - 1 < 0, a, u[ti.max(i - 1, 0), j])
                        + ti.select(i + 1 >= u.shape[0], a, u[ti.min(i + 1, u.shape[0] - 1), j])
                        + u[i, mirrored(j - 1, u.shape[1])]
                        + u[i, mirrored(j + 1, u.shape[1])]
                        - ti.f32(4.0) * u[i, j]
                    )
                    + u[i, mirrored(j - 2, u.shape[1])]
                )
        else:
            start = i * row
            start_n1 = (i - 1) * row
            start_1 = (i + 1) * row
            left = ti.min(2, row)
            right = ti.max(row - 1, left)
            if row > 3:
                for end in ti.static(range(3)):
                    j = end if ti.static(end < 2) else right + (end - 2)
                    u_next[0, start + j] = (
                        u[0, start + j]
                        + a
                        * (
                            u[0, start_n1 + j]
                            + u[0, start_1 + j]
                            + u[0, start + ti.abs(j - 1)]
                            + u[0, start + ti.min(j + 1, 2 * row - 2 - (j + 1))]
                            - ti.f32(4.0) * u[0, start + j]
                        )
                        + u[0, start + ti.abs(j - 2)]
                    )
            else:
                for j in range(row):
                    u_next[0, start + j] = (
                        u[0, start + j]
                        + a
                        * (
                            u[0, start_n1 + j]
                            + u[0, start_1 + j]
                            + u[0, start + mirrored(j - 1, row)]
                            + u[0, start + mirrored(j + 1, row)]
                            - ti.f32(4.0) * u[0, start + j]
                        )
                        + u[0, start + mirrored(j - 2, row)]
                    )
            if (right - left) >= 32:
                for step in range(((right - left) - 1) // 32 + 1):
                    j = ti.min(left + step * 32, right - 32)
                    buffer_u_next = ti.Vector.zero(ti.f32, 32)
                    # Bounded, so that LLVM knows that adding to them cannot overflow.
                    run = ti.min(start + j - 2, 2147483136)
                    run_n1 = ti.min(start_n1 + j, 2147483136)
                    run_1 = ti.min(start_1 + j, 2147483136)
                    for lane in range(32):
                        buffer_u_next[lane] = (
                            u[0, run + lane + 2]
                            + a
                            * (
                                u[0, run_n1 + lane]
                                + u[0, run_1 + lane]
                                + u[0, run + lane + 1]
                                + u[0, run + lane + 3]
                                - ti.f32(4.0) * u[0, run + lane + 2]
                            )
                            + u[0, run + lane]
                        )
                    for lane in range(32):
                        u_next[0, run + lane + 2] = buffer_u_next[lane]
            else:
                for j in range(left, right):
                    u_next[0, start + j] = (
                        u[0, start + j]
                        + a
                        * (
                            u[0, start_n1 + j]
                            + u[0, start_1 + j]
                            + u[0, start + j - 1]
                            + u[0, start + j + 1]
                            - ti.f32(4.0) * u[0, start + j]
                        )
                        + u[0, start + j - 2]
                    )


@ti.kernel
def update(
    u: ti.types.ndarray(dtype=ti.f32, ndim=2),
    a: ti.f32,
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    # Taichi gives a thread 512 iterations at least: with empty ones, few strips occupy all threads.
    for turn in range(u.shape[0] * 8):
        if turn % 8 == 0:
            strip = turn // 8
            first = strip
            row = u.shape[1]
            points(u, a, u_next, row, first, first + 1)

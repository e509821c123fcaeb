# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="u' = u + a * lap(u)", dim=1, dtype=f32, order=2, spacing=1.0, scalars=(a,), on_device=(), constants=None, boundary={'x+': ('absorbing', 20, 0.1, 1, 'wall'), 'x-': ('value', inflow)}, mask=solid, where=None, vectors=None, layout='first', at=None, types=None, outputs=None, part=None, window=False
# schedule: loop='function', row_buffer=32, chunk=1024, iterations=8, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.func
def mirrored_at_wall(place, extent):
    """Return the index inside that lies as far from the wall as ``place`` does."""
    rest = ti.max(place, -1 - place) % (2 * extent)
    return ti.min(rest, 2 * extent - 1 - rest)


@ti.func
def faded(depth, rate):
    """Return what is taken from 1 at a depth in an absorbing layer, in halves of a point."""
    return rate * ti.cast(ti.max(depth, 0), ti.f32) ** 2


@ti.real_func
def points(
    u: ti.types.ndarray(dtype=ti.f32, ndim=1),
    a: ti.f32,
    solid: ti.types.ndarray(dtype=ti.u8, ndim=1),
    inflow: ti.types.ndarray(dtype=ti.f32, ndim=1),
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=1),
    first: ti.i32,
    last: ti.i32,
):
    left = ti.min(ti.max(first, 1), last)
    right = ti.max(ti.min(last, u.shape[0] - 1), left)
    before = left - first
    for end in range(before + last - right):
        i = ti.select(end < before, first + end, right - before + end)
        faded_u_next = (
            ti.select(
                not ti.cast(solid[i], ti.f32) == ti.f32(0.0),
                u[i],
                u[i]
                + a
                * (
                    ti.select(i - 1 < 0, inflow[0], u[ti.max(i - 1, 0)])
                    + u[mirrored_at_wall(i + 1, u.shape[0])]
                    - ti.f32(2.0) * u[i]
                )
            )
        )
        if i >= u.shape[0] - 20:
            faded_u_next = (
                ti.select(
                    ti.cast(solid[i], ti.f32) != ti.f32(0.0),
                    faded_u_next,
                    faded_u_next * (ti.f32(1.0) - faded(2 * i + 41 - 2 * u.shape[0], ti.f32(6.25e-05)))
                )
            )
        u_next[i] = faded_u_next
    if (right - left) >= 32:
        for step in range(((right - left) - 1) // 32 + 1):
            i = ti.min(left + step * 32, right - 32)
            buffer_u_next = ti.Vector.zero(ti.f32, 32)
            # Bounded, so that LLVM knows that adding to them cannot overflow.
            run = ti.min(i - 1, 2147483136)
            for lane in range(32):
                buffer_u_next[lane] = (
                    ti.select(
                        not ti.cast(solid[run + lane + 1], ti.f32) == ti.f32(0.0),
                        u[run + lane + 1],
                        u[run + lane + 1]
                        + a * (u[run + lane] + u[run + lane + 2] - ti.f32(2.0) * u[run + lane + 1])
                    )
                )
            for lane in range(32):
                u_next[run + lane + 1] = buffer_u_next[lane]
            if i + 32 > u.shape[0] - 20:
                for lane in range(32):
                    u_next[run + lane + 1] = (
                        ti.select(
                            ti.cast(solid[run + lane + 1], ti.f32) != ti.f32(0.0),
                            u_next[run + lane + 1],
                            u_next[run + lane + 1]
                            * (ti.f32(1.0) - faded(2 * (i + lane) + 41 - 2 * u.shape[0], ti.f32(6.25e-05)))
                        )
                    )
    else:
        for i in range(left, right):
            faded_u_next = (
                ti.select(
                    not ti.cast(solid[i], ti.f32) == ti.f32(0.0),
                    u[i],
                    u[i] + a * (u[i - 1] + u[i + 1] - ti.f32(2.0) * u[i])
                )
            )
            if i >= u.shape[0] - 20:
                faded_u_next = (
                    ti.select(
                        ti.cast(solid[i], ti.f32) != ti.f32(0.0),
                        faded_u_next,
                        faded_u_next * (ti.f32(1.0) - faded(2 * i + 41 - 2 * u.shape[0], ti.f32(6.25e-05)))
                    )
                )
            u_next[i] = faded_u_next


@ti.kernel
def update(
    u: ti.types.ndarray(dtype=ti.f32, ndim=1),
    a: ti.f32,
    solid: ti.types.ndarray(dtype=ti.u8, ndim=1),
    inflow: ti.types.ndarray(dtype=ti.f32, ndim=1),
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    # Taichi gives a thread 512 iterations at least: with empty ones, few strips occupy all threads.
    for turn in range(((u.shape[0] - 1) // 1024 + 1) * 8):
        if turn % 8 == 0:
            strip = turn // 8
            first = strip * 1024
            points(u, a, solid, inflow, u_next, first, ti.min(first + 1024, u.shape[0]))

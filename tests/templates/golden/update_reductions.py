# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="u' = lap(u); err = sum((u' - u) ** 2); top = max(abs(u'))", dim=2, dtype=f32, order=2, spacing=1.0, scalars=(), on_device=(), constants=None, boundary='interior', mask=None, where=None, vectors=None, layout='first', at=None, types=None, outputs=None, part=None, window=False
# schedule: loop='function', row_buffer=32, rows=2, iterations=16, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.func
def rank(a: ti.f32):
    bits = ti.bit_cast(a, ti.i32)
    size = bits & 0x7FFFFFFF
    sign = bits >> 31
    place = (size ^ sign) - sign
    # NaN comes after every number.
    return ti.select(size > 0x7F800000, 0x7FFFFFFF, place)


@ti.func
def at_rank(place: ti.i32):
    return ti.bit_cast(ti.abs(place) | (place & ~0x7FFFFFFF), ti.f32)


@ti.real_func
def points(
    u: ti.types.ndarray(dtype=ti.f32, ndim=2),
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=2),
    err_of_parts: ti.types.ndarray(dtype=ti.f32, ndim=1),
    top_of_parts: ti.types.ndarray(dtype=ti.i32, ndim=1),
    row: ti.i32,
    part: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    err_so_far = ti.Vector.zero(ti.f32, 32)
    top_so_far = ti.Vector.zero(ti.i32, 32) + ti.i32(-2139095040)
    for i in range(first, last):
        start = i * row
        start_n1 = (i - 1) * row
        start_1 = (i + 1) * row
        stop = ti.max(row - 1, 1)
        if (stop - 1) >= 32:
            for step in range(((stop - 1) - 1) // 32 + 1):
                j = ti.min(1 + step * 32, stop - 32)
                # Points that the step before took.
                seen = 1 + step * 32 - j
                buffer_u_next = ti.Vector.zero(ti.f32, 32)
                # Bounded, so that LLVM knows that adding to them cannot overflow.
                run = ti.min(start + j - 1, 2147483136)
                run_n1 = ti.min(start_n1 + j, 2147483136)
                run_1 = ti.min(start_1 + j, 2147483136)
                for lane in range(32):
                    new_u_next = (
                        u[0, run_n1 + lane]
                        + u[0, run_1 + lane]
                        + u[0, run + lane]
                        + u[0, run + lane + 2]
                        - ti.f32(4.0) * u[0, run + lane + 1]
                    )
                    buffer_u_next[lane] = new_u_next
                    err_so_far[lane] += (
                        ti.select(lane < seen, ti.f32(0.0), (new_u_next - u[0, run + lane + 1]) ** 2)
                    )
                    top_so_far[lane] = ti.max(top_so_far[lane], rank(ti.abs(new_u_next)))
                for lane in range(32):
                    u_next[0, run + lane + 1] = buffer_u_next[lane]
        else:
            for j in range(1, stop):
                new_u_next = (
                    u[0, start_n1 + j]
                    + u[0, start_1 + j]
                    + u[0, start + j - 1]
                    + u[0, start + j + 1]
                    - ti.f32(4.0) * u[0, start + j]
                )
                u_next[0, start + j] = new_u_next
                err_so_far[0] += (new_u_next - u[0, start + j]) ** 2
                top_so_far[0] = ti.max(top_so_far[0], rank(ti.abs(new_u_next)))
    for half in ti.static((16, 8, 4, 2, 1)):
        for lane in range(half):
            err_so_far[lane] += err_so_far[half + lane]
            top_so_far[lane] = ti.max(top_so_far[lane], top_so_far[half + lane])
    err_of_parts[part] = err_so_far[0]
    top_of_parts[part] = top_so_far[0]


@ti.kernel
def update(
    u: ti.types.ndarray(dtype=ti.f32, ndim=2),
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=2),
    err: ti.types.ndarray(dtype=ti.f32, ndim=1),
    top: ti.types.ndarray(dtype=ti.f32, ndim=1),
    err_of_parts: ti.types.ndarray(dtype=ti.f32, ndim=1),
    top_of_parts: ti.types.ndarray(dtype=ti.i32, ndim=1),
):
    # Taichi gives a thread 512 iterations at least: with empty ones, few strips occupy all threads.
    for turn in range(((u.shape[0] - 3) // 2 + 1) * 16):
        if turn % 16 == 0:
            strip = turn // 16
            first = 1 + strip * 2
            row = u.shape[1]
            points(u, u_next, err_of_parts, top_of_parts, row, strip, first, ti.min(first + 2, u.shape[0] - 1))
    # One thread combines what the chunks left, in order.
    ti.loop_config(serialize=True)
    for _ in range(1):
        used = ti.max((u.shape[0] - 3) // 2 + 1, 0)
        err_so_far = ti.Vector.zero(ti.f32, 8)
        top_so_far = ti.Vector.zero(ti.i32, 8) + ti.i32(-2139095040)
        for step in range(used // 8):
            for lane in range(8):
                err_so_far[lane] += err_of_parts[step * 8 + lane]
                top_so_far[lane] = ti.max(top_so_far[lane], top_of_parts[step * 8 + lane])
        for part in range(used - used % 8, used):
            err_so_far[0] += err_of_parts[part]
            top_so_far[0] = ti.max(top_so_far[0], top_of_parts[part])
        for half in ti.static((4, 2, 1)):
            for lane in range(half):
                err_so_far[lane] += err_so_far[half + lane]
                top_so_far[lane] = ti.max(top_so_far[lane], top_so_far[half + lane])
        err[0] = err_so_far[0]
        top[0] = at_rank(top_so_far[0])

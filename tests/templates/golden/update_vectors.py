# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="each q in f:\n    f'.q = f.q[-c.q, 0] + a * sum((f.r for r in f))", dim=2, dtype=f32, order=2, spacing=1.0, scalars=(a,), on_device=(), constants={c: (0.0, 1.0, -1.0)}, boundary='periodic', mask=None, where=None, vectors={f: 3}, layout='first', at=None, types=None, outputs=None, part=None, window=False
# schedule: loop='function', row_buffer=16, rows=1, iterations=8, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def points(
    f: ti.types.ndarray(dtype=ti.f32, ndim=3),
    a: ti.f32,
    f_next: ti.types.ndarray(dtype=ti.f32, ndim=3),
    row: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    block = f.shape[1] * row
    for i in range(first, last):
        start = i * row
        start_n1 = ti.select(i < 1, f.shape[1] - 1, i - 1) * row
        start_1 = ti.select(i + 1 < f.shape[1], i + 1, 0) * row
        if row >= 16:
            for step in range((row - 1) // 16 + 1):
                j = ti.min(step * 16, row - 16)
                buffer_f_next_x = ti.Vector.zero(ti.f32, 16)
                buffer_f_next_y = ti.Vector.zero(ti.f32, 16)
                buffer_f_next_z = ti.Vector.zero(ti.f32, 16)
                # Bounded, so that LLVM knows that adding to them cannot overflow.
                run = ti.min(start + j, 2147483136)
                run_c1 = ti.min(block + start + j, 2147483136)
                run_c2 = ti.min(2 * block + start + j, 2147483136)
                run_c1_n1 = ti.min(block + start_n1 + j, 2147483136)
                run_c2_1 = ti.min(2 * block + start_1 + j, 2147483136)
                for lane in range(16):
                    buffer_f_next_x[lane] = (
                        f[0, 0, run + lane]
                        + a * (f[0, 0, run + lane] + f[0, 0, run_c1 + lane] + f[0, 0, run_c2 + lane])
                    )
                    buffer_f_next_y[lane] = (
                        f[0, 0, run_c1_n1 + lane]
                        + a * (f[0, 0, run + lane] + f[0, 0, run_c1 + lane] + f[0, 0, run_c2 + lane])
                    )
                    buffer_f_next_z[lane] = (
                        f[0, 0, run_c2_1 + lane]
                        + a * (f[0, 0, run + lane] + f[0, 0, run_c1 + lane] + f[0, 0, run_c2 + lane])
                    )
                for lane in range(16):
                    f_next[0, 0, run + lane] = buffer_f_next_x[lane]
                for lane in range(16):
                    f_next[0, 0, run_c1 + lane] = buffer_f_next_y[lane]
                for lane in range(16):
                    f_next[0, 0, run_c2 + lane] = buffer_f_next_z[lane]
        else:
            for j in range(row):
                f_next[0, 0, start + j] = (
                    f[0, 0, start + j] + a * (f[0, 0, start + j] + f[1, 0, start + j] + f[2, 0, start + j])
                )
                f_next[1, 0, start + j] = (
                    f[1, 0, start_n1 + j] + a * (f[0, 0, start + j] + f[1, 0, start + j] + f[2, 0, start + j])
                )
                f_next[2, 0, start + j] = (
                    f[2, 0, start_1 + j] + a * (f[0, 0, start + j] + f[1, 0, start + j] + f[2, 0, start + j])
                )


@ti.kernel
def update(
    f: ti.types.ndarray(dtype=ti.f32, ndim=3),
    a: ti.f32,
    f_next: ti.types.ndarray(dtype=ti.f32, ndim=3),
):
    # Taichi gives a thread 512 iterations at least: with empty ones, few strips occupy all threads.
    for turn in range(f.shape[1] * 8):
        if turn % 8 == 0:
            strip = turn // 8
            first = strip
            row = f.shape[2]
            points(f, a, f_next, row, first, first + 1)

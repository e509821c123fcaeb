# gemm: Matrix product, C = alpha * op(A) @ op(B) + beta * C.
# problem: layout='nt', dtype=f32, epilogue='max(v, 0)'
# schedule: via='panels', vectors_of='b', tile_m=4, tile_n=32, unroll=4, split_k=1, iterations=8, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def fill_panel(
    b: ti.types.ndarray(dtype=ti.f32, ndim=2),
    panels: ti.types.ndarray(dtype=ti.f32, ndim=2),
    n: ti.i32,
    j_tile: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    k_stop, j0 = b.shape[1], j_tile * 32
    for k in range(first, last):
        base = ti.min((j_tile * k_stop + k) * 32, 2147483136)
        if j0 + 32 <= n:
            for v in range(32):
                panels[0, base + v] = b[j0 + v, k]
        else:
            for v in range(32):
                # A panel over the edge repeats the last column.
                j = ti.min(j0 + v, n - 1)
                panels[0, base + v] = b[j, k]


@ti.real_func
def compute_tile(
    a: ti.types.ndarray(dtype=ti.f32, ndim=2),
    b: ti.types.ndarray(dtype=ti.f32, ndim=2),
    c: ti.types.ndarray(dtype=ti.f32, ndim=2),
    alpha: ti.f32,
    beta: ti.f32,
    panels: ti.types.ndarray(dtype=ti.f32, ndim=2),
    j_tile: ti.i32,
    i_tile: ti.i32,
):
    m, n, k_stop = c.shape[0], c.shape[1], a.shape[1]
    # A tile over the edge reads the last row again, but stores it once.
    i0, j0 = i_tile * 4, j_tile * 32
    i1 = ti.min(i0 + 1, m - 1)
    i2 = ti.min(i0 + 2, m - 1)
    i3 = ti.min(i0 + 3, m - 1)
    width = ti.min(32, n - j0)
    row0 = ti.Vector.zero(ti.f32, 32)
    row1 = ti.Vector.zero(ti.f32, 32)
    row2 = ti.Vector.zero(ti.f32, 32)
    row3 = ti.Vector.zero(ti.f32, 32)
    for step in range(k_stop // 4):
        k = step * 4
        base = ti.min((j_tile * k_stop + k) * 32, 2147483136)
        a00, a01, a02, a03 = a[i0, k], a[i0, k + 1], a[i0, k + 2], a[i0, k + 3]
        a10, a11, a12, a13 = a[i1, k], a[i1, k + 1], a[i1, k + 2], a[i1, k + 3]
        a20, a21, a22, a23 = a[i2, k], a[i2, k + 1], a[i2, k + 2], a[i2, k + 3]
        a30, a31, a32, a33 = a[i3, k], a[i3, k + 1], a[i3, k + 2], a[i3, k + 3]
        for v in range(32):
            b0 = panels[0, base + v]
            b1 = panels[0, base + 32 + v]
            b2 = panels[0, base + 64 + v]
            b3 = panels[0, base + 96 + v]
            row0[v] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
            row1[v] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
            row2[v] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
            row3[v] += a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
    for k in range(k_stop - k_stop % 4, k_stop):
        base = ti.min((j_tile * k_stop + k) * 32, 2147483136)
        a00 = a[i0, k]
        a10 = a[i1, k]
        a20 = a[i2, k]
        a30 = a[i3, k]
        for v in range(32):
            b0 = panels[0, base + v]
            row0[v] += a00 * b0
            row1[v] += a10 * b0
            row2[v] += a20 * b0
            row3[v] += a30 * b0
    start = ti.min(i0 * n + j0, 2147483136)
    if beta == 0:
        for v in range(width):
            value = alpha * row0[v]
            c[0, start + v] = ti.max(value, ti.f32(0.0))
    else:
        for v in range(width):
            value = alpha * row0[v] + beta * c[0, start + v]
            c[0, start + v] = ti.max(value, ti.f32(0.0))
    if i0 + 1 < m:
        start = ti.min(i1 * n + j0, 2147483136)
        if beta == 0:
            for v in range(width):
                value = alpha * row1[v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
        else:
            for v in range(width):
                value = alpha * row1[v] + beta * c[0, start + v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
    if i0 + 2 < m:
        start = ti.min(i2 * n + j0, 2147483136)
        if beta == 0:
            for v in range(width):
                value = alpha * row2[v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
        else:
            for v in range(width):
                value = alpha * row2[v] + beta * c[0, start + v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
    if i0 + 3 < m:
        start = ti.min(i3 * n + j0, 2147483136)
        if beta == 0:
            for v in range(width):
                value = alpha * row3[v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
        else:
            for v in range(width):
                value = alpha * row3[v] + beta * c[0, start + v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))


@ti.kernel
def gemm(
    a: ti.types.ndarray(dtype=ti.f32, ndim=2),
    b: ti.types.ndarray(dtype=ti.f32, ndim=2),
    c: ti.types.ndarray(dtype=ti.f32, ndim=2),
    alpha: ti.f32,
    beta: ti.f32,
    panels: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    for j_tile, part in ti.ndrange(
        (c.shape[1] - 1) // 32 + 1,
        (a.shape[1] - 1) // 64 + 1,
    ):
        last = ti.min(part * 64 + 64, a.shape[1])
        fill_panel(b, panels, c.shape[1], j_tile, part * 64, last)
    # Taichi gives a thread 512 iterations at least: with empty ones, few tiles occupy all threads.
    for j_tile, turn in ti.ndrange(
        (c.shape[1] - 1) // 32 + 1,
        ((c.shape[0] - 1) // 4 + 1) * 8,
    ):
        if turn % 8 == 0:
            i_tile = turn // 8
            compute_tile(a, b, c, alpha, beta, panels, j_tile, i_tile)

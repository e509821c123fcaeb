# gemm: Matrix product, C = alpha * op(A) @ op(B) + beta * C.
# problem: layout='nt', dtype=f32, epilogue='max(v, 0)'
# schedule: via='panels', vectors_of='b', order='down', tile_m=4, tile_n=16, unroll=4, split_k=1, iterations=8, block_dim=0
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
    k_stop = b.shape[1]
    # A vector over the edge begins before its tile, so that it is as long as the others.
    j0 = ti.max(0, ti.min(j_tile * 16, n - 16))
    for k in range(first, last):
        base = ti.min((j_tile * k_stop + k) * 16, 2147483136)
        if j0 + 16 <= n:
            for v in range(16):
                panels[0, base + v] = b[j0 + v, k]
        else:
            for v in range(16):
                # A panel that is wider than C repeats the last column.
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
    i0 = i_tile * 4
    i1 = ti.min(i0 + 1, m - 1)
    i2 = ti.min(i0 + 2, m - 1)
    i3 = ti.min(i0 + 3, m - 1)
    # A vector over the edge begins before its tile, so that it is as long as the others.
    j0 = ti.max(0, ti.min(j_tile * 16, n - 16))
    width = ti.min(16, n - j0)
    row0 = ti.Vector.zero(ti.f32, 16)
    row1 = ti.Vector.zero(ti.f32, 16)
    row2 = ti.Vector.zero(ti.f32, 16)
    row3 = ti.Vector.zero(ti.f32, 16)
    for step in range(k_stop // 4):
        k = step * 4
        base = ti.min((j_tile * k_stop + k) * 16, 2147483136)
        a0 = ti.min(i0 * k_stop + k, 2147483136)
        a00 = a[0, a0]
        a01 = a[0, a0 + 1]
        a02 = a[0, a0 + 2]
        a03 = a[0, a0 + 3]
        a1 = ti.min(i1 * k_stop + k, 2147483136)
        a10 = a[0, a1]
        a11 = a[0, a1 + 1]
        a12 = a[0, a1 + 2]
        a13 = a[0, a1 + 3]
        a2 = ti.min(i2 * k_stop + k, 2147483136)
        a20 = a[0, a2]
        a21 = a[0, a2 + 1]
        a22 = a[0, a2 + 2]
        a23 = a[0, a2 + 3]
        a3 = ti.min(i3 * k_stop + k, 2147483136)
        a30 = a[0, a3]
        a31 = a[0, a3 + 1]
        a32 = a[0, a3 + 2]
        a33 = a[0, a3 + 3]
        for v in range(16):
            b0 = panels[0, base + v]
            b1 = panels[0, base + 16 + v]
            b2 = panels[0, base + 32 + v]
            b3 = panels[0, base + 48 + v]
            row0[v] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
            row1[v] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
            row2[v] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
            row3[v] += a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
    rest = k_stop % 4
    if rest > 0:
        # The last step: what lies behind the inner axis counts as 0.
        k = k_stop - rest
        base = ti.min((j_tile * k_stop + k) * 16, 2147483136)
        a0 = ti.min(i0 * k_stop + k, 2147483136)
        a00 = a[0, a0]
        a01 = ti.select(rest > 1, a[0, a0 + ti.min(1, rest - 1)], ti.f32(0.0))
        a02 = ti.select(rest > 2, a[0, a0 + ti.min(2, rest - 1)], ti.f32(0.0))
        a1 = ti.min(i1 * k_stop + k, 2147483136)
        a10 = a[0, a1]
        a11 = ti.select(rest > 1, a[0, a1 + ti.min(1, rest - 1)], ti.f32(0.0))
        a12 = ti.select(rest > 2, a[0, a1 + ti.min(2, rest - 1)], ti.f32(0.0))
        a2 = ti.min(i2 * k_stop + k, 2147483136)
        a20 = a[0, a2]
        a21 = ti.select(rest > 1, a[0, a2 + ti.min(1, rest - 1)], ti.f32(0.0))
        a22 = ti.select(rest > 2, a[0, a2 + ti.min(2, rest - 1)], ti.f32(0.0))
        a3 = ti.min(i3 * k_stop + k, 2147483136)
        a30 = a[0, a3]
        a31 = ti.select(rest > 1, a[0, a3 + ti.min(1, rest - 1)], ti.f32(0.0))
        a32 = ti.select(rest > 2, a[0, a3 + ti.min(2, rest - 1)], ti.f32(0.0))
        for v in range(16):
            b0 = panels[0, base + v]
            b1 = ti.select(rest > 1, panels[0, base + ti.min(1, rest - 1) * 16 + v], ti.f32(0.0))
            b2 = ti.select(rest > 2, panels[0, base + ti.min(2, rest - 1) * 16 + v], ti.f32(0.0))
            row0[v] += a00 * b0 + a01 * b1 + a02 * b2
            row1[v] += a10 * b0 + a11 * b1 + a12 * b2
            row2[v] += a20 * b0 + a21 * b1 + a22 * b2
            row3[v] += a30 * b0 + a31 * b1 + a32 * b2
    edge = ti.Vector.zero(ti.f32, 16)
    start = ti.min(i0 * n + j0, 2147483136)
    if width == 16 and beta == 0:
        for v in range(16):
            value = alpha * row0[v]
            c[0, start + v] = ti.max(value, ti.f32(0.0))
    else:
        for v in range(16):
            edge[v] = alpha * row0[v]
        if beta == 0:
            for v in range(width):
                value = edge[v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
        else:
            for v in range(j_tile * 16 - j0, width):
                value = edge[v] + beta * c[0, start + v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
    if i0 + 1 < m:
        start = ti.min(i1 * n + j0, 2147483136)
        if width == 16 and beta == 0:
            for v in range(16):
                value = alpha * row1[v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
        else:
            for v in range(16):
                edge[v] = alpha * row1[v]
            if beta == 0:
                for v in range(width):
                    value = edge[v]
                    c[0, start + v] = ti.max(value, ti.f32(0.0))
            else:
                for v in range(j_tile * 16 - j0, width):
                    value = edge[v] + beta * c[0, start + v]
                    c[0, start + v] = ti.max(value, ti.f32(0.0))
    if i0 + 2 < m:
        start = ti.min(i2 * n + j0, 2147483136)
        if width == 16 and beta == 0:
            for v in range(16):
                value = alpha * row2[v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
        else:
            for v in range(16):
                edge[v] = alpha * row2[v]
            if beta == 0:
                for v in range(width):
                    value = edge[v]
                    c[0, start + v] = ti.max(value, ti.f32(0.0))
            else:
                for v in range(j_tile * 16 - j0, width):
                    value = edge[v] + beta * c[0, start + v]
                    c[0, start + v] = ti.max(value, ti.f32(0.0))
    if i0 + 3 < m:
        start = ti.min(i3 * n + j0, 2147483136)
        if width == 16 and beta == 0:
            for v in range(16):
                value = alpha * row3[v]
                c[0, start + v] = ti.max(value, ti.f32(0.0))
        else:
            for v in range(16):
                edge[v] = alpha * row3[v]
            if beta == 0:
                for v in range(width):
                    value = edge[v]
                    c[0, start + v] = ti.max(value, ti.f32(0.0))
            else:
                for v in range(j_tile * 16 - j0, width):
                    value = edge[v] + beta * c[0, start + v]
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
        (c.shape[1] - 1) // 16 + 1,
        (a.shape[1] - 1) // 64 + 1,
    ):
        last = ti.min(part * 64 + 64, a.shape[1])
        fill_panel(b, panels, c.shape[1], j_tile, part * 64, last)
    # Taichi gives a thread 512 iterations at least: with empty ones, few tiles occupy all threads.
    for turn in range(((c.shape[1] - 1) // 16 + 1) * ((c.shape[0] - 1) // 4 + 1) * 8):
        if turn % 8 == 0:
            tile, count = turn // 8, (c.shape[0] - 1) // 4 + 1
            compute_tile(a, b, c, alpha, beta, panels, tile // count, tile % count)

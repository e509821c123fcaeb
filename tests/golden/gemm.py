# gemm: Matrix product, C = alpha * op(A) @ op(B) + beta * C.
# problem: layout='nt', dtype=f32, epilogue='max(v, 0)'
# schedule: tile_m=4, tile_n=4, unroll=1, block_dim=0
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.kernel
def gemm(
    a: ti.types.ndarray(dtype=ti.f32, ndim=2),
    b: ti.types.ndarray(dtype=ti.f32, ndim=2),
    c: ti.types.ndarray(dtype=ti.f32, ndim=2),
    alpha: ti.f32,
    beta: ti.f32,
):
    for i_tile, j_tile in ti.ndrange(
        (c.shape[0] - 1) // 4 + 1,
        (c.shape[1] - 1) // 4 + 1,
    ):
        m, n, k_stop = c.shape[0], c.shape[1], a.shape[1]
        # A tile over the edge reads the last row or column again, but stores it once.
        i0, j0 = i_tile * 4, j_tile * 4
        i1 = ti.min(i0 + 1, m - 1)
        i2 = ti.min(i0 + 2, m - 1)
        i3 = ti.min(i0 + 3, m - 1)
        j1 = ti.min(j0 + 1, n - 1)
        j2 = ti.min(j0 + 2, n - 1)
        j3 = ti.min(j0 + 3, n - 1)
        row0 = ti.Vector.zero(ti.f32, 4)
        row1 = ti.Vector.zero(ti.f32, 4)
        row2 = ti.Vector.zero(ti.f32, 4)
        row3 = ti.Vector.zero(ti.f32, 4)
        for k in range(k_stop):
            right = ti.Vector([b[j0, k], b[j1, k], b[j2, k], b[j3, k]])
            row0 += a[i0, k] * right
            row1 += a[i1, k] * right
            row2 += a[i2, k] * right
            row3 += a[i3, k] * right
        for v in ti.static(range(4)):
            if j0 + v < n:
                value = alpha * row0[v]
                if beta != 0:
                    value += beta * c[i0, j0 + v]
                c[i0, j0 + v] = ti.max(value, ti.f32(0.0))
        if i0 + 1 < m:
            for v in ti.static(range(4)):
                if j0 + v < n:
                    value = alpha * row1[v]
                    if beta != 0:
                        value += beta * c[i1, j0 + v]
                    c[i1, j0 + v] = ti.max(value, ti.f32(0.0))
        if i0 + 2 < m:
            for v in ti.static(range(4)):
                if j0 + v < n:
                    value = alpha * row2[v]
                    if beta != 0:
                        value += beta * c[i2, j0 + v]
                    c[i2, j0 + v] = ti.max(value, ti.f32(0.0))
        if i0 + 3 < m:
            for v in ti.static(range(4)):
                if j0 + v < n:
                    value = alpha * row3[v]
                    if beta != 0:
                        value += beta * c[i3, j0 + v]
                    c[i3, j0 + v] = ti.max(value, ti.f32(0.0))

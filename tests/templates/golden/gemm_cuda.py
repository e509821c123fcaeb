# gemm: Matrix product, C = alpha * op(A) @ op(B) + beta * C.
# problem: layout='nn', dtype=f32, epilogue=None
# schedule: via='shared', tile_m=16, tile_n=4, unroll=4, block_m=128, block_n=128, block_k=8, strip=4, split_k=1
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def gemm(
    a: ti.types.ndarray(dtype=ti.f32, ndim=2),
    b: ti.types.ndarray(dtype=ti.f32, ndim=2),
    c: ti.types.ndarray(dtype=ti.f32, ndim=2),
    alpha: ti.f32,
    beta: ti.f32,
):
    ti.loop_config(block_dim=256)
    for i_block, j_block, thread in ti.ndrange(
        (c.shape[0] - 1) // 128 + 1,
        (c.shape[1] - 1) // 128 + 1,
        256,
    ):
        m, n, k_stop = c.shape[0], c.shape[1], a.shape[1]
        left = ti.simt.block.SharedArray((2, 8, 132), ti.f32)
        right = ti.simt.block.SharedArray((2, 8, 132), ti.f32)
        next_left = ti.Vector.zero(ti.f32, 4)
        next_right = ti.Vector.zero(ti.f32, 4)
        # Threads side by side read what stands side by side in A and B.
        k_left, i_left = thread % 8, thread // 8
        k_right, j_right = thread // 128, thread % 128
        i0, j0 = thread // 32 * 4, thread % 32 * 4
        row0 = ti.Vector.zero(ti.f32, 4)
        row1 = ti.Vector.zero(ti.f32, 4)
        row2 = ti.Vector.zero(ti.f32, 4)
        row3 = ti.Vector.zero(ti.f32, 4)
        row4 = ti.Vector.zero(ti.f32, 4)
        row5 = ti.Vector.zero(ti.f32, 4)
        row6 = ti.Vector.zero(ti.f32, 4)
        row7 = ti.Vector.zero(ti.f32, 4)
        row8 = ti.Vector.zero(ti.f32, 4)
        row9 = ti.Vector.zero(ti.f32, 4)
        row10 = ti.Vector.zero(ti.f32, 4)
        row11 = ti.Vector.zero(ti.f32, 4)
        row12 = ti.Vector.zero(ti.f32, 4)
        row13 = ti.Vector.zero(ti.f32, 4)
        row14 = ti.Vector.zero(ti.f32, 4)
        row15 = ti.Vector.zero(ti.f32, 4)
        for step in range((k_stop - 1) // 8 + 2):
            k0, half = step * 8, step % 2
            # Beyond the inner axis zeros are read, over the edges the last row or column again.
            for u in ti.static(range(4)):
                k = k0 + k_left
                i = ti.min(i_block * 128 + i_left + u * 32, m - 1)
                next_left[u] = ti.select(k < k_stop, a[i, ti.min(k, k_stop - 1)], ti.f32(0.0))
            for u in ti.static(range(4)):
                k = k0 + k_right + u * 2
                j = ti.min(j_block * 128 + j_right, n - 1)
                next_right[u] = ti.select(k < k_stop, b[ti.min(k, k_stop - 1), j], ti.f32(0.0))
            if step > 0:
                for q_step in range(8 // 4):
                    q = q_step * 4
                    columns = ti.Vector([right[1 - half, q, j0 + v // 4 * 128 + v % 4] for v in range(4)])
                    row0 += left[1 - half, q, i0] * columns
                    row1 += left[1 - half, q, i0 + 1] * columns
                    row2 += left[1 - half, q, i0 + 2] * columns
                    row3 += left[1 - half, q, i0 + 3] * columns
                    row4 += left[1 - half, q, i0 + 32] * columns
                    row5 += left[1 - half, q, i0 + 33] * columns
                    row6 += left[1 - half, q, i0 + 34] * columns
                    row7 += left[1 - half, q, i0 + 35] * columns
                    row8 += left[1 - half, q, i0 + 64] * columns
                    row9 += left[1 - half, q, i0 + 65] * columns
                    row10 += left[1 - half, q, i0 + 66] * columns
                    row11 += left[1 - half, q, i0 + 67] * columns
                    row12 += left[1 - half, q, i0 + 96] * columns
                    row13 += left[1 - half, q, i0 + 97] * columns
                    row14 += left[1 - half, q, i0 + 98] * columns
                    row15 += left[1 - half, q, i0 + 99] * columns
                    q1 = q + 1
                    columns = ti.Vector([right[1 - half, q1, j0 + v // 4 * 128 + v % 4] for v in range(4)])
                    row0 += left[1 - half, q1, i0] * columns
                    row1 += left[1 - half, q1, i0 + 1] * columns
                    row2 += left[1 - half, q1, i0 + 2] * columns
                    row3 += left[1 - half, q1, i0 + 3] * columns
                    row4 += left[1 - half, q1, i0 + 32] * columns
                    row5 += left[1 - half, q1, i0 + 33] * columns
                    row6 += left[1 - half, q1, i0 + 34] * columns
                    row7 += left[1 - half, q1, i0 + 35] * columns
                    row8 += left[1 - half, q1, i0 + 64] * columns
                    row9 += left[1 - half, q1, i0 + 65] * columns
                    row10 += left[1 - half, q1, i0 + 66] * columns
                    row11 += left[1 - half, q1, i0 + 67] * columns
                    row12 += left[1 - half, q1, i0 + 96] * columns
                    row13 += left[1 - half, q1, i0 + 97] * columns
                    row14 += left[1 - half, q1, i0 + 98] * columns
                    row15 += left[1 - half, q1, i0 + 99] * columns
                    q2 = q + 2
                    columns = ti.Vector([right[1 - half, q2, j0 + v // 4 * 128 + v % 4] for v in range(4)])
                    row0 += left[1 - half, q2, i0] * columns
                    row1 += left[1 - half, q2, i0 + 1] * columns
                    row2 += left[1 - half, q2, i0 + 2] * columns
                    row3 += left[1 - half, q2, i0 + 3] * columns
                    row4 += left[1 - half, q2, i0 + 32] * columns
                    row5 += left[1 - half, q2, i0 + 33] * columns
                    row6 += left[1 - half, q2, i0 + 34] * columns
                    row7 += left[1 - half, q2, i0 + 35] * columns
                    row8 += left[1 - half, q2, i0 + 64] * columns
                    row9 += left[1 - half, q2, i0 + 65] * columns
                    row10 += left[1 - half, q2, i0 + 66] * columns
                    row11 += left[1 - half, q2, i0 + 67] * columns
                    row12 += left[1 - half, q2, i0 + 96] * columns
                    row13 += left[1 - half, q2, i0 + 97] * columns
                    row14 += left[1 - half, q2, i0 + 98] * columns
                    row15 += left[1 - half, q2, i0 + 99] * columns
                    q3 = q + 3
                    columns = ti.Vector([right[1 - half, q3, j0 + v // 4 * 128 + v % 4] for v in range(4)])
                    row0 += left[1 - half, q3, i0] * columns
                    row1 += left[1 - half, q3, i0 + 1] * columns
                    row2 += left[1 - half, q3, i0 + 2] * columns
                    row3 += left[1 - half, q3, i0 + 3] * columns
                    row4 += left[1 - half, q3, i0 + 32] * columns
                    row5 += left[1 - half, q3, i0 + 33] * columns
                    row6 += left[1 - half, q3, i0 + 34] * columns
                    row7 += left[1 - half, q3, i0 + 35] * columns
                    row8 += left[1 - half, q3, i0 + 64] * columns
                    row9 += left[1 - half, q3, i0 + 65] * columns
                    row10 += left[1 - half, q3, i0 + 66] * columns
                    row11 += left[1 - half, q3, i0 + 67] * columns
                    row12 += left[1 - half, q3, i0 + 96] * columns
                    row13 += left[1 - half, q3, i0 + 97] * columns
                    row14 += left[1 - half, q3, i0 + 98] * columns
                    row15 += left[1 - half, q3, i0 + 99] * columns
            for u in ti.static(range(4)):
                left[half, k_left, i_left + u * 32] = next_left[u]
            for u in ti.static(range(4)):
                right[half, k_right + u * 2, j_right] = next_right[u]
            ti.simt.block.sync()
        i = i_block * 128 + i0
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row0[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 1
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row1[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 2
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row2[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 3
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row3[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 32
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row4[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 33
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row5[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 34
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row6[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 35
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row7[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 64
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row8[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 65
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row9[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 66
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row10[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 67
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row11[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 96
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row12[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 97
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row13[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 98
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row14[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value
        i = i_block * 128 + i0 + 99
        if i < m:
            for v in ti.static(range(4)):
                j = j_block * 128 + j0 + v // 4 * 128 + v % 4
                if j < n:
                    value = alpha * row15[v]
                    if beta != 0:
                        value += beta * c[i, j]
                    c[i, j] = value

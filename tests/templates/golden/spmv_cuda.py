# spmv: Sparse matrix-vector product, y = alpha * A @ x + beta * y.
# problem: format='csr', dtype=f32, index_dtype=i32
# schedule: lanes=2, combine='shuffle', unroll=8, blocks=4224, block_dim=128
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def spmv(
    data: ti.types.ndarray(dtype=ti.f32, ndim=1),
    indices: ti.types.ndarray(dtype=ti.i32, ndim=1),
    indptr: ti.types.ndarray(dtype=ti.i32, ndim=1),
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=1),
    alpha: ti.f32,
    beta: ti.f32,
):
    ti.loop_config(block_dim=128)
    for block, thread in ti.ndrange(4224, 128):
        for round in range((y.shape[0] - 1) // 270336 + 1):
            row = (round * 4224 + block) * 64 + thread // 2
            # The threads of a row take its entries in turn.
            lane = thread % 2
            total = ti.f32(0.0)
            if row < y.shape[0]:
                start = ti.cast(indptr[row], ti.i32)
                stop = ti.cast(indptr[row + 1], ti.i32)
                first = start + lane
                for turn in range((stop - start - 1) // 16 + 1):
                    e0 = first + turn * 16
                    at0 = ti.min(e0, stop - 1)
                    e1 = first + turn * 16 + 2
                    at1 = ti.min(e1, stop - 1)
                    e2 = first + turn * 16 + 4
                    at2 = ti.min(e2, stop - 1)
                    e3 = first + turn * 16 + 6
                    at3 = ti.min(e3, stop - 1)
                    e4 = first + turn * 16 + 8
                    at4 = ti.min(e4, stop - 1)
                    e5 = first + turn * 16 + 10
                    at5 = ti.min(e5, stop - 1)
                    e6 = first + turn * 16 + 12
                    at6 = ti.min(e6, stop - 1)
                    e7 = first + turn * 16 + 14
                    at7 = ti.min(e7, stop - 1)
                    term0 = data[at0] * x[ti.cast(indices[at0], ti.i32)]
                    term1 = data[at1] * x[ti.cast(indices[at1], ti.i32)]
                    term2 = data[at2] * x[ti.cast(indices[at2], ti.i32)]
                    term3 = data[at3] * x[ti.cast(indices[at3], ti.i32)]
                    term4 = data[at4] * x[ti.cast(indices[at4], ti.i32)]
                    term5 = data[at5] * x[ti.cast(indices[at5], ti.i32)]
                    term6 = data[at6] * x[ti.cast(indices[at6], ti.i32)]
                    term7 = data[at7] * x[ti.cast(indices[at7], ti.i32)]
                    if e0 < stop:
                        total += term0
                    if e1 < stop:
                        total += term1
                    if e2 < stop:
                        total += term2
                    if e3 < stop:
                        total += term3
                    if e4 < stop:
                        total += term4
                    if e5 < stop:
                        total += term5
                    if e6 < stop:
                        total += term6
                    if e7 < stop:
                        total += term7
            total += ti.simt.warp.shfl_down_f32(ti.u32(0xFFFFFFFF), total, 1)
            if row < y.shape[0] and lane == 0:
                value = alpha * total
                if beta != 0:
                    value += beta * y[row]
                y[row] = value

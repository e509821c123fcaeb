# spmv: Sparse matrix-vector product, y = alpha * A @ x + beta * y.
# problem: format='csr', dtype=f32, index_dtype=i32
# schedule: lanes=8, combine='shared', unroll=1, block_dim=128
# Rendered by tikgen 0.1.0.
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
    for block, thread in ti.ndrange((y.shape[0] - 1) // 16 + 1, 128):
        totals = ti.simt.block.SharedArray((128,), ti.f32)
        # The threads of a row take its entries in turn.
        row = block * 16 + thread // 8
        lane = thread % 8
        total = ti.f32(0.0)
        if row < y.shape[0]:
            start = ti.cast(indptr[row], ti.i32)
            stop = ti.cast(indptr[row + 1], ti.i32)
            for turn in range((ti.max(stop - start - lane, 0) + 7) // 8):
                e = start + turn * 8 + lane
                total += data[e] * x[ti.cast(indices[e], ti.i32)]
        totals[thread] = total
        ti.simt.block.sync()
        if lane < 4:
            totals[thread] = totals[thread] + totals[thread + 4]
        ti.simt.block.sync()
        if lane < 2:
            totals[thread] = totals[thread] + totals[thread + 2]
        ti.simt.block.sync()
        if lane < 1:
            totals[thread] = totals[thread] + totals[thread + 1]
        # The block may take up further rows: it must not overwrite what is still read.
        ti.simt.block.sync()
        total = totals[thread]
        if row < y.shape[0] and lane == 0:
            value = alpha * total
            if beta != 0:
                value += beta * y[row]
            y[row] = value

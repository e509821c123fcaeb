# spmv: Sparse matrix-vector product, y = alpha * A @ x + beta * y.
# problem: format='csr', dtype=f32, index_dtype=i32
# schedule: unroll=1, block_dim=0
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
    for row in range(y.shape[0]):
        total = ti.f32(0.0)
        start = ti.cast(indptr[row], ti.i32)
        stop = ti.cast(indptr[row + 1], ti.i32)
        for e in range(start, stop):
            total += data[e] * x[ti.cast(indices[e], ti.i32)]
        value = alpha * total
        if beta != 0:
            value += beta * y[row]
        y[row] = value

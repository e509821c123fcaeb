# spmv: Sparse matrix-vector product, y = alpha * A @ x + beta * y.
# problem: format='ell', dtype=f32, index_dtype=i32
# schedule: unroll=1, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def spmv(
    data: ti.types.ndarray(dtype=ti.f32, ndim=2),
    indices: ti.types.ndarray(dtype=ti.i32, ndim=2),
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=1),
    alpha: ti.f32,
    beta: ti.f32,
):
    for row in range(y.shape[0]):
        total = ti.f32(0.0)
        for e in range(data.shape[1]):
            column = indices[row, e]
            if column >= 0:
                total += data[row, e] * x[ti.cast(column, ti.i32)]
        value = alpha * total
        if beta != 0:
            value += beta * y[row]
        y[row] = value

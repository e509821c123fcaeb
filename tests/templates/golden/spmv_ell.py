# spmv: Sparse matrix-vector product, y = alpha * A @ x + beta * y.
# problem: format='ell', dtype=f32, index_dtype=i32
# schedule: unroll=3, block_dim=0
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
        for e_step in range(data.shape[1] // 3):
            e = e_step * 3
            column = indices[row, e]
            if column >= 0:
                total += data[row, e] * x[ti.cast(column, ti.i32)]
            e1 = e + 1
            column = indices[row, e1]
            if column >= 0:
                total += data[row, e1] * x[ti.cast(column, ti.i32)]
            e2 = e + 2
            column = indices[row, e2]
            if column >= 0:
                total += data[row, e2] * x[ti.cast(column, ti.i32)]
        for e_rest in range(data.shape[1] % 3):
            e = data.shape[1] - data.shape[1] % 3 + e_rest
            column = indices[row, e]
            if column >= 0:
                total += data[row, e] * x[ti.cast(column, ti.i32)]
        value = alpha * total
        if beta != 0:
            value += beta * y[row]
        y[row] = value

# transpose: Permuted copy: axis `a` of y is axis `perm[a]` of x, as `np.transpose(x, perm)`.
# problem: perm=(1, 0), dtype=f32
# schedule: loop='strips', tile=256, row=-1, column=-1, unroll=8, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def transpose(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    for i_strip, j_step in ti.ndrange(
        (y.shape[0] - 1) // 256 + 1,
        (y.shape[1] - 1) // 8 + 1,
    ):
        i_start = i_strip * 256
        i_stop = ti.min(i_start + 256, y.shape[0])
        j = j_step * 8
        if j + 7 < y.shape[1]:
            for i in range(i_start, i_stop):
                x_0 = x[j, i]
                x_1 = x[j + 1, i]
                x_2 = x[j + 2, i]
                x_3 = x[j + 3, i]
                x_4 = x[j + 4, i]
                x_5 = x[j + 5, i]
                x_6 = x[j + 6, i]
                x_7 = x[j + 7, i]
                y[i, j] = x_0
                y[i, j + 1] = x_1
                y[i, j + 2] = x_2
                y[i, j + 3] = x_3
                y[i, j + 4] = x_4
                y[i, j + 5] = x_5
                y[i, j + 6] = x_6
                y[i, j + 7] = x_7
        else:
            for i in range(i_start, i_stop):
                for j_rest in range(j, y.shape[1]):
                    y[i, j_rest] = x[j_rest, i]

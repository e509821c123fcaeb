# transpose: Permuted copy: axis `a` of y is axis `perm[a]` of x, as `np.transpose(x, perm)`.
# problem: perm=(1, 0), dtype=f32
# schedule: loop='rows', tile=16, unroll=4, block_dim=0
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.kernel
def transpose(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    for i_tile, j_tile in ti.ndrange(
        (y.shape[0] - 1) // 16 + 1,
        (y.shape[1] - 1) // 16 + 1,
    ):
        i_start = i_tile * 16
        i_stop = ti.min(i_start + 16, y.shape[0])
        j_start = j_tile * 16
        j_stop = ti.min(j_start + 16, y.shape[1])
        for i in range(i_start, i_stop):
            for j_step in range(ti.max(j_stop - j_start, 0) // 4):
                j = j_start + j_step * 4
                y[i, j] = x[j, i]
                j1 = j + 1
                y[i, j1] = x[j1, i]
                j2 = j + 2
                y[i, j2] = x[j2, i]
                j3 = j + 3
                y[i, j3] = x[j3, i]
            for j_rest in range(ti.max(j_stop - j_start, 0) % 4):
                j = j_stop - ti.max(j_stop - j_start, 0) % 4 + j_rest
                y[i, j] = x[j, i]

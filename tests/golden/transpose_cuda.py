# transpose: Permuted copy: axis `a` of y is axis `perm[a]` of x, as `np.transpose(x, perm)`.
# problem: perm=(1, 0), dtype=f32
# schedule: loop='tiles', tile=32, unroll=1, block_dim=256
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.kernel
def transpose(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    ti.loop_config(block_dim=256)
    for i_tile, j_tile, thread in ti.ndrange(
        (y.shape[0] - 1) // 32 + 1,
        (y.shape[1] - 1) // 32 + 1,
        256,
    ):
        # The padding puts the elements of a column into different banks.
        tile = ti.simt.block.SharedArray((32, 33), ti.f32)
        turn = thread // 32
        lane = thread % 32
        i_turn = i_tile * 32 + turn
        i_lane = i_tile * 32 + lane
        j_turn = j_tile * 32 + turn
        j_lane = j_tile * 32 + lane
        if (i_tile + 1) * 32 <= y.shape[0] and (j_tile + 1) * 32 <= y.shape[1]:
            x_0 = x[j_turn, i_lane]
            x_1 = x[j_turn + 8, i_lane]
            x_2 = x[j_turn + 16, i_lane]
            x_3 = x[j_turn + 24, i_lane]
            tile[turn, lane] = x_0
            tile[turn + 8, lane] = x_1
            tile[turn + 16, lane] = x_2
            tile[turn + 24, lane] = x_3
        else:
            for step in range(4):
                j = j_turn + step * 8
                if i_lane < y.shape[0] and j < y.shape[1]:
                    tile[turn + step * 8, lane] = x[j, i_lane]
        ti.simt.block.sync()
        if (i_tile + 1) * 32 <= y.shape[0] and (j_tile + 1) * 32 <= y.shape[1]:
            y[i_turn, j_lane] = tile[lane, turn]
            y[i_turn + 8, j_lane] = tile[lane, turn + 8]
            y[i_turn + 16, j_lane] = tile[lane, turn + 16]
            y[i_turn + 24, j_lane] = tile[lane, turn + 24]
        else:
            for step in range(4):
                i = i_turn + step * 8
                if i < y.shape[0] and j_lane < y.shape[1]:
                    y[i, j_lane] = tile[lane, turn + step * 8]
        # A block may go on to another tile: it must not overwrite what a thread still reads.
        ti.simt.block.sync()

# transpose: Permuted copy: axis `a` of y is axis `perm[a]` of x, as `np.transpose(x, perm)`.
# problem: perm=(1, 0), dtype=f32
# schedule: loop='tiles', tile=64, row=-1, column=-1, block_dim=512
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def transpose(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    ti.loop_config(block_dim=512)
    for i_tile, j_tile, thread in ti.ndrange(
        (y.shape[0] - 1) // 64 + 1,
        (y.shape[1] - 1) // 64 + 1,
        512,
    ):
        # The padding puts the elements of a column into different banks.
        tile = ti.simt.block.SharedArray((64, 65), ti.f32)
        turn = thread // 64
        lane = thread % 64
        i_turn = i_tile * 64 + turn
        i_lane = i_tile * 64 + lane
        j_turn = j_tile * 64 + turn
        j_lane = j_tile * 64 + lane
        if (i_tile + 1) * 64 <= y.shape[0] and (j_tile + 1) * 64 <= y.shape[1]:
            x_0 = x[j_turn, i_lane]
            x_1 = x[j_turn + 8, i_lane]
            x_2 = x[j_turn + 16, i_lane]
            x_3 = x[j_turn + 24, i_lane]
            x_4 = x[j_turn + 32, i_lane]
            x_5 = x[j_turn + 40, i_lane]
            x_6 = x[j_turn + 48, i_lane]
            x_7 = x[j_turn + 56, i_lane]
            tile[turn, lane] = x_0
            tile[turn + 8, lane] = x_1
            tile[turn + 16, lane] = x_2
            tile[turn + 24, lane] = x_3
            tile[turn + 32, lane] = x_4
            tile[turn + 40, lane] = x_5
            tile[turn + 48, lane] = x_6
            tile[turn + 56, lane] = x_7
        else:
            # Beyond an edge the last element is read, so that no read waits for a condition.
            i = ti.min(i_lane, y.shape[0] - 1)
            x_0 = x[ti.min(j_turn, y.shape[1] - 1), i]
            x_1 = x[ti.min(j_turn + 8, y.shape[1] - 1), i]
            x_2 = x[ti.min(j_turn + 16, y.shape[1] - 1), i]
            x_3 = x[ti.min(j_turn + 24, y.shape[1] - 1), i]
            x_4 = x[ti.min(j_turn + 32, y.shape[1] - 1), i]
            x_5 = x[ti.min(j_turn + 40, y.shape[1] - 1), i]
            x_6 = x[ti.min(j_turn + 48, y.shape[1] - 1), i]
            x_7 = x[ti.min(j_turn + 56, y.shape[1] - 1), i]
            tile[turn, lane] = x_0
            tile[turn + 8, lane] = x_1
            tile[turn + 16, lane] = x_2
            tile[turn + 24, lane] = x_3
            tile[turn + 32, lane] = x_4
            tile[turn + 40, lane] = x_5
            tile[turn + 48, lane] = x_6
            tile[turn + 56, lane] = x_7
        ti.simt.block.sync()
        if (i_tile + 1) * 64 <= y.shape[0] and (j_tile + 1) * 64 <= y.shape[1]:
            y[i_turn, j_lane] = tile[lane, turn]
            y[i_turn + 8, j_lane] = tile[lane, turn + 8]
            y[i_turn + 16, j_lane] = tile[lane, turn + 16]
            y[i_turn + 24, j_lane] = tile[lane, turn + 24]
            y[i_turn + 32, j_lane] = tile[lane, turn + 32]
            y[i_turn + 40, j_lane] = tile[lane, turn + 40]
            y[i_turn + 48, j_lane] = tile[lane, turn + 48]
            y[i_turn + 56, j_lane] = tile[lane, turn + 56]
        else:
            for step in ti.static(range(8)):
                i = i_turn + step * 8
                if i < y.shape[0] and j_lane < y.shape[1]:
                    y[i, j_lane] = tile[lane, turn + step * 8]
        # A block may go on to another tile: it must not overwrite what a thread still reads.
        ti.simt.block.sync()

# transpose: Permuted copy: axis `a` of y is axis `perm[a]` of x, as `np.transpose(x, perm)`.
# problem: perm=(1, 0), dtype=f32
# schedule: loop='strips', tile=256, row=-1, column=-1, unroll=8, rows=8, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def copy_strip(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    from_x: ti.i32,
    from_y: ti.i32,
    x_column: ti.i32,
    y_row: ti.i32,
    rows: ti.i32,
    columns: ti.i32,
):
    if columns == 8 and rows >= 8:
        for step in range((rows - 1) // 8 + 1):
            # The last block overlaps the one before as well.
            row = ti.min(step * 8, rows - 8)
            # Each place is bounded, so that LLVM knows that adding to it cannot overflow.
            from_0 = ti.min(from_x + row, 2147483136)
            from_1 = ti.min(from_0 + x_column, 2147483136)
            from_2 = ti.min(from_1 + x_column, 2147483136)
            from_3 = ti.min(from_2 + x_column, 2147483136)
            from_4 = ti.min(from_3 + x_column, 2147483136)
            from_5 = ti.min(from_4 + x_column, 2147483136)
            from_6 = ti.min(from_5 + x_column, 2147483136)
            from_7 = ti.min(from_6 + x_column, 2147483136)
            place = ti.min(from_y + row * y_row, 2147483136)
            for line in ti.static(range(8)):
                x_0 = x[0, from_0 + line]
                x_1 = x[0, from_1 + line]
                x_2 = x[0, from_2 + line]
                x_3 = x[0, from_3 + line]
                x_4 = x[0, from_4 + line]
                x_5 = x[0, from_5 + line]
                x_6 = x[0, from_6 + line]
                x_7 = x[0, from_7 + line]
                y[0, place] = x_0
                y[0, place + 1] = x_1
                y[0, place + 2] = x_2
                y[0, place + 3] = x_3
                y[0, place + 4] = x_4
                y[0, place + 5] = x_5
                y[0, place + 6] = x_6
                y[0, place + 7] = x_7
                place = ti.min(place + y_row, 2147483136)
    else:
        for row in range(rows):
            for column in range(columns):
                y[0, from_y + column + row * y_row] = x[0, from_x + column * x_column + row]


@ti.kernel
def transpose(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    for i_strip, j_step in ti.ndrange(
        (y.shape[0] - 1) // 256 + 1,
        (y.shape[1] - 1) // 8 + 1,
    ):
        i_extent = y.shape[0]
        j_extent = y.shape[1]
        i = i_strip * 256
        # The last step overlaps the one before, which copies the same elements.
        j = ti.max(ti.min(j_step * 8, j_extent - 8), 0)
        copy_strip(
            x,
            y,
            j * i_extent + i,
            i * j_extent + j,
            i_extent,
            j_extent,
            ti.min(256, i_extent - i),
            ti.min(8, j_extent - j),
        )

# reduce: Reduction of an array to one number, or along one axis.
# problem: op='mean', dim=3, axis=0, dtype=f32, accumulator=None, accuracy='fast'
# schedule: chunks=64, columns=0, slab=64, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.real_func
def reduce_slab(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    partial: ti.types.ndarray(dtype=ti.f32, ndim=4),
    chunk: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    width = x.shape[1] * x.shape[2]
    held = ti.min(chunk * 64 * width, 2147483136)
    base = ti.min(first * width, 2147483136)
    rows = ti.min(64, last - first)
    for place in range(rows * width):
        total = x[0, 0, base + place]
        partial[0, 0, 0, held + place] = total
    for step in range(1, (last - first - 1) // 64 + 1):
        base = ti.min((first + step * 64) * width, 2147483136)
        for place in range(ti.min(64, last - first - step * 64) * width):
            total = partial[0, 0, 0, held + place]
            total += x[0, 0, base + place]
            partial[0, 0, 0, held + place] = total
    for row in range(1, rows):
        for place in range(width):
            total = partial[0, 0, 0, held + place]
            other = partial[0, 0, 0, held + row * width + place]
            total += other
            partial[0, 0, 0, held + place] = total


@ti.kernel
def reduce(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    out: ti.types.ndarray(dtype=ti.f32, ndim=2),
    partial: ti.types.ndarray(dtype=ti.f32, ndim=4),
):
    for chunk in range(64):
        length = ti.max((x.shape[0] - 1) // 64 + 1, 256)
        start = chunk * length
        if start < x.shape[0]:
            reduce_slab(x, partial, chunk, start, ti.min(start + length, x.shape[0]))
    ti.loop_config(serialize=True)
    for column in range(x.shape[1] * x.shape[2]):
        width, length = x.shape[1] * x.shape[2], ti.max((x.shape[0] - 1) // 64 + 1, 256)
        total = partial[0, 0, 0, column]
        for chunk in range(1, (x.shape[0] - 1) // length + 1):
            other = partial[0, 0, 0, chunk * 64 * width + column]
            total += other
        out[0, column] = total / ti.cast(x.shape[0], ti.f32)

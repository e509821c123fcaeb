# reduce: Reduction of an array to one number, or along one axis.
# problem: op='max', dim=3, axis=1, dtype=f32
# schedule: unroll=4, columns=0, strip=4096, spread=64
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.func
def rank(a: ti.f32):
    bits = ti.bit_cast(a, ti.i32)
    size = bits & 0x7FFFFFFF
    sign = bits >> 31
    place = (size ^ sign) - sign
    # NaN comes after every number.
    return ti.select(size > 0x7F800000, 0x7FFFFFFF, place)


@ti.func
def at_rank(place: ti.i32):
    return ti.bit_cast(ti.abs(place) | (place & ~0x7FFFFFFF), ti.f32)


@ti.real_func
def reduce_strip(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    out: ti.types.ndarray(dtype=ti.f32, ndim=2),
    i: ti.i32,
    first: ti.i32,
    last: ti.i32,
):
    for k in range(first, last):
        best = rank(x[i, 0, k])
        out[i, k] = at_rank(best)
    for step in range((x.shape[1] - 1) // 4):
        j = 1 + step * 4
        for k in range(first, last):
            best = rank(out[i, k])
            best = ti.max(best, rank(x[i, j, k]))
            best = ti.max(best, rank(x[i, j + 1, k]))
            best = ti.max(best, rank(x[i, j + 2, k]))
            best = ti.max(best, rank(x[i, j + 3, k]))
            out[i, k] = at_rank(best)
    for j in range(x.shape[1] - (x.shape[1] - 1) % 4, x.shape[1]):
        for k in range(first, last):
            best = rank(out[i, k])
            best = ti.max(best, rank(x[i, j, k]))
            out[i, k] = at_rank(best)


@ti.kernel
def reduce(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    out: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    across = (x.shape[2] - 1) // 4096 + 1
    for turn in range(x.shape[0] * across * 64):
        # A thread of the cpu gets 512 turns at a time.
        if turn % 64 == 0:
            line = turn // 64
            i = line // across
            first = line % across * 4096
            reduce_strip(x, out, i, first, ti.min(first + 4096, x.shape[2]))

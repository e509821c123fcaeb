# reduce: Reduction of an array to one number, or along one axis.
# problem: op='argmin', dim=3, axis=1, dtype=f32
# schedule: unroll=1, columns=32, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.func
def rank(a: ti.f32):
    bits = ti.bit_cast(a, ti.i32)
    size = bits & 0x7FFFFFFF
    sign = bits >> 31
    place = (size ^ sign) - sign
    # NaN comes before every number.
    return ti.select(size > 0x7F800000, -0x7FFFFFFF, place)


@ti.kernel
def reduce(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    out: ti.types.ndarray(dtype=ti.i32, ndim=2),
):
    lines = x.shape[0] * ((x.shape[2] - 1) // 32 + 1)
    for line in range(lines):
        across = (x.shape[2] - 1) // 32 + 1
        i = line // across
        if x.shape[2] >= 32:
            # The last block overlaps the one before it, so that nothing remains.
            base = ti.min(line % across * 32, x.shape[2] - 32)
            best = ti.Vector.zero(ti.i32, 32) + ti.i32(2147483647)
            at = ti.Vector.zero(ti.i32, 32)
            for j in range(x.shape[1]):
                for c in range(32):
                    k = base + c
                    value = rank(x[i, j, k])
                    better = value < best[c]
                    best[c] = ti.select(better, value, best[c])
                    at[c] = ti.select(better, j, at[c])
            for c in range(32):
                k = base + c
                out[i, k] = at[c]
        else:
            for k in range(x.shape[2]):
                best = rank(x[i, 0, k])
                for j in range(x.shape[1]):
                    best = ti.min(best, rank(x[i, j, k]))
                at = ti.i32(2147483647)
                for j in range(x.shape[1]):
                    at = ti.min(at, ti.select(rank(x[i, j, k]) == best, j, 2147483647))
                out[i, k] = at

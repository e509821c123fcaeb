# reduce: Reduction of an array to one number, or along one axis.
# problem: op='argmin', dim=3, axis=1, dtype=f32, accumulator=None, accuracy='fast'
# schedule: chunks=64, grain=1, linear=False, unroll=1, team=1, columns=64, spread=512, block_dim=0
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.func
def rank(a: ti.f32):
    bits = ti.bit_cast(a, ti.i32)
    size = bits & 0x7FFFFFFF
    place = ti.select(bits < 0, -size, size)
    # NaN comes before every number.
    return ti.select(size > 0x7F800000, -0x7FFFFFFF, place)


@ti.kernel
def reduce(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    out: ti.types.ndarray(dtype=ti.i32, ndim=2),
):
    lines = x.shape[0] * ((x.shape[2] - 1) // 64 + 1)
    for turn in range(lines * 512):
        # A thread of the cpu gets 512 turns at a time.
        if turn % 512 == 0:
            line = turn // 512
            across = (x.shape[2] - 1) // 64 + 1
            i = line // across
            if x.shape[2] >= 64:
                # The last block overlaps the one before it, so that nothing remains.
                base = ti.min(line % across * 64, x.shape[2] - 64)
                best = ti.Vector.zero(ti.i32, 64) + ti.i32(2147483647)
                at = ti.Vector.zero(ti.i32, 64) + ti.i32(2147483647)
                for j in range(x.shape[1]):
                    for c in range(64):
                        k = base + c
                        value = rank(x[i, j, k])
                        if value < best[c] or (value == best[c] and j < at[c]):
                            best[c] = value
                            at[c] = j
                for c in range(64):
                    k = base + c
                    out[i, k] = at[c]
            else:
                for k in range(x.shape[2]):
                    best = ti.i32(2147483647)
                    at = ti.i32(2147483647)
                    for j in range(x.shape[1]):
                        value = rank(x[i, j, k])
                        if value < best or (value == best and j < at):
                            best = value
                            at = j
                    out[i, k] = at

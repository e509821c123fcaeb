# reduce: Reduction of an array to one number, or along one axis.
# problem: op='argmin', dim=3, axis=1, dtype=f32, accumulator=None, accuracy='fast'
# schedule: chunks=64, unroll=1, block_dim=0
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.func
def is_nan(a: ti.f32):
    return (ti.bit_cast(a, ti.i32) & 0x7FFFFFFF) > 0x7F800000


@ti.func
def beats(a: ti.f32, b: ti.f32):
    # NaN beats every number, and nothing beats NaN.
    return not is_nan(b) and (is_nan(a) or a < b)


@ti.kernel
def reduce(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    out: ti.types.ndarray(dtype=ti.i32, ndim=2),
):
    for i, k in ti.ndrange(x.shape[0], x.shape[2]):
        best = x[i, 0, k]
        at = 0
        for j in range(x.shape[1]):
            if beats(x[i, j, k], best):
                best = x[i, j, k]
                at = j
        out[i, k] = at

# reduce: Reduction of an array to one number, or along one axis.
# problem: op='sum', dim=1, axis=None, dtype=f32, accumulator=None, accuracy='kahan'
# schedule: chunks=16384, grain=1024, unroll=1, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.func
def is_finite(a: ti.f32):
    return (ti.bit_cast(a, ti.i32) & 0x7FFFFFFF) < 0x7F800000


@ti.func
def rounded(a: ti.f32, zero: ti.i32):
    # The compiler cannot know that nothing changes here, so it must round a.
    return ti.bit_cast(ti.bit_cast(a, ti.i32) ^ zero, ti.f32)


@ti.func
def add(total: ti.template(), lost: ti.template(), a: ti.f32, zero: ti.i32):
    # What total + a loses to rounding goes to lost.
    is_small = ti.abs(a) <= ti.abs(total)
    small = ti.select(is_small, a, total)
    large = ti.select(is_small, total, a)
    total = rounded(total + a, zero)
    lost += rounded(rounded(large - total, zero) + small, zero)


@ti.kernel
def reduce(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    out: ti.types.ndarray(dtype=ti.f32, ndim=1),
    partial: ti.types.ndarray(dtype=ti.f32, ndim=1),
    partial_lost: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    count = x.shape[0]
    length = ti.max((count - 1) // 16384 + 1, 1024)
    used = (count - 1) // length + 1
    for chunk in range(used):
        start = chunk * length
        stop = start + ti.min(length, count - start)
        zero = x.shape[-1] & ti.i32(-2147483648)
        total = ti.f32(0.0)
        lost = ti.f32(0.0)
        for i in range(start, stop):
            add(total, lost, x[i], zero)
        partial[chunk] = total
        partial_lost[chunk] = lost
    # One thread combines what the chunks left, in order.
    ti.loop_config(serialize=True)
    for _ in range(1):
        zero = x.shape[-1] & ti.i32(-2147483648)
        total = ti.f32(0.0)
        lost = ti.f32(0.0)
        for chunk in range(used):
            add(total, lost, partial[chunk], zero)
            lost += partial_lost[chunk]
        if is_finite(total):
            total += lost
        out[0] = total

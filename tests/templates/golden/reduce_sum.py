# reduce: Reduction of an array to one number, or along one axis.
# problem: op='sum', dim=1, axis=None, dtype=f32, accumulator=None, accuracy='fast'
# schedule: chunks=16384, grain=1024, unroll=1, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def reduce(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    out: ti.types.ndarray(dtype=ti.f32, ndim=1),
    partial: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    count = x.shape[0]
    length = ti.max((count - 1) // 16384 + 1, 1024)
    used = (count - 1) // length + 1
    for chunk in range(used):
        start = chunk * length
        stop = start + ti.min(length, count - start)
        total = ti.f32(0.0)
        for i in range(start, stop):
            total += x[i]
        partial[chunk] = total
    # One thread combines what the chunks left, in order.
    ti.loop_config(serialize=True)
    for _ in range(1):
        total = ti.f32(0.0)
        for chunk in range(used):
            total += partial[chunk]
        out[0] = total

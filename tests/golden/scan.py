# scan: Running sum, product, minimum or maximum of a vector.
# problem: op='sum', mode='inclusive', dtype=f32
# schedule: chunks=64, unroll=1, block_dim=0
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.kernel
def scan(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    out: ti.types.ndarray(dtype=ti.f32, ndim=1),
    totals: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    count = x.shape[0]
    length = (count - 1) // 64 + 1
    used = (count - 1) // length + 1
    for chunk in range(used):
        start = chunk * length
        stop = start + ti.min(length, count - start)
        total = ti.f32(0.0)
        for i in range(start, stop):
            total += x[i]
        totals[chunk] = total
    # One thread combines what the chunks left, in order.
    for _ in range(1):
        before = ti.f32(0.0)
        for chunk in range(used):
            total = totals[chunk]
            totals[chunk] = before
            before += total
    for chunk in range(used):
        start = chunk * length
        stop = start + ti.min(length, count - start)
        running = totals[chunk]
        for i in range(start, stop):
            running += x[i]
            out[i] = running

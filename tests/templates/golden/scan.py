# scan: Running sum, product, minimum or maximum of a vector.
# problem: op='sum', mode='inclusive', dtype=f32
# schedule: chunks=16384, grain=1024, unroll=4, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def scan(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    out: ti.types.ndarray(dtype=ti.f32, ndim=1),
    totals: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    count = x.shape[0]
    length = ti.max((count - 1) // 16384 + 1, 1024)
    used = (count - 1) // length + 1
    # Each chunk but the first gets what the one before it holds.
    for chunk in range(1, used):
        total = ti.f32(0.0)
        for i in range((chunk - 1) * length, chunk * length):
            total = total + x[i]
        totals[chunk] = total
    # One thread combines what the chunks left, in order.
    ti.loop_config(serialize=True)
    for _ in range(1):
        running = ti.f32(0.0)
        totals[0] = running
        for chunk in range(used - 1):
            running = running + totals[chunk + 1]
            totals[chunk + 1] = running
    for chunk in range(used):
        start = chunk * length
        stop = start + ti.min(length, count - start)
        running = totals[chunk]
        for step in range((stop - start) // 4):
            i = start + step * 4
            upto0 = x[i]
            upto1 = upto0 + x[i + 1]
            upto2 = upto1 + x[i + 2]
            upto3 = upto2 + x[i + 3]
            out[i] = running + upto0
            out[i + 1] = running + upto1
            out[i + 2] = running + upto2
            out[i + 3] = running + upto3
            running = running + upto3
        for i in range(start + (stop - start) // 4 * 4, stop):
            running = running + x[i]
            out[i] = running

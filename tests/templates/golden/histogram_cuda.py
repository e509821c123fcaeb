# histogram: Histogram over equal bins from lo to hi, as `np.histogram`.
# problem: bins=64, dtype=f32, weighted=False, count_dtype=i32
# schedule: bins_in='shared', chunks=512, unroll=8, copies=1, block_dim=512
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def histogram(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    counts: ti.types.ndarray(dtype=ti.i32, ndim=1),
    lo: ti.f32,
    hi: ti.f32,
):
    for b in range(64):
        counts[b] = ti.i32(0)
    ti.loop_config(block_dim=512)
    for chunk, thread in ti.ndrange(512, 512):
        found = ti.simt.block.SharedArray((64,), ti.i32)
        b = thread
        if b < 64:
            found[b] = 0
        ti.simt.block.sync()
        size = (x.shape[0] - 1) // 512 + 1
        start = chunk * size
        stop = ti.min(start + size, x.shape[0])
        width = hi - lo
        scale = ti.f32(64.0) / width
        is_usable = ti.f32(3.009265538105056e-36) <= width and width <= ti.f32(1.3292279165567534e+36)
        # Were scale used only once, the compiler would divide by width for each element again.
        if is_usable and not ti.math.isnan(scale):
            for step in range((ti.max(stop - start, 0) - 1) // 4096 + 1):
                e = start + step * 4096 + thread
                values = ti.Vector.zero(ti.f32, 8)
                # Every load before the first count, so that they wait together.
                for u in ti.static(range(8)):
                    values[u] = x[ti.min(e + u * 512, stop - 1)]
                for u in ti.static(range(8)):
                    if e + u * 512 < stop:
                        value = values[u]
                        if lo <= value and value <= hi and not ti.math.isnan(value):
                            b = ti.cast((value - lo) * scale, ti.i32)
                            b = ti.max(ti.min(b, 63), 0)
                            ti.atomic_add(found[b], 1)
        ti.simt.block.sync()
        b = thread
        if b < 64:
            ti.atomic_add(counts[b], found[b])

# histogram: Histogram over equal bins from lo to hi, as `np.histogram`.
# problem: bins=16, dtype=f32, weighted=False, count_dtype=i32, weight_dtype=f32
# schedule: chunks=32, unroll=1, block_dim=0
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.kernel
def histogram(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    counts: ti.types.ndarray(dtype=ti.i32, ndim=1),
    lo: ti.f32,
    hi: ti.f32,
    partial: ti.types.ndarray(dtype=ti.i32, ndim=2),
):
    for chunk, b in ti.ndrange(32, 16):
        partial[chunk, b] = ti.i32(0)
    for chunk in range(32):
        size = (x.shape[0] - 1) // 32 + 1
        start = chunk * size
        stop = ti.min(start + size, x.shape[0])
        width = hi - lo
        is_usable = ti.f32(7.52316384526264e-37) <= width and width <= ti.f32(5.3169116662270134e+36)
        if is_usable and not ti.math.isnan(width):
            for e in range(start, stop):
                value = x[e]
                if lo <= value and value <= hi and not ti.math.isnan(value):
                    b = ti.cast((value - lo) / width * ti.f32(16.0), ti.i32)
                    b = ti.max(ti.min(b, 15), 0)
                    partial[chunk, b] = partial[chunk, b] + ti.i32(1)
    for b in range(16):
        total = ti.i32(0)
        for chunk in range(32):
            total += partial[chunk, b]
        counts[b] = total

# histogram: Histogram over equal bins from lo to hi, as `np.histogram`.
# problem: bins=16, dtype=f32, weighted=False, count_dtype=i32
# schedule: bins_in='local', chunks=32, buffer=64, copies=4, block_dim=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def histogram(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    counts: ti.types.ndarray(dtype=ti.i32, ndim=1),
    lo: ti.f32,
    hi: ti.f32,
    partial: ti.types.ndarray(dtype=ti.i32, ndim=2),
):
    for chunk in range(32):
        size = (x.shape[0] - 1) // 32 + 1
        start = chunk * size
        stop = ti.min(start + size, x.shape[0])
        found = ti.Vector.zero(ti.i32, 68)
        width = hi - lo
        scale = ti.f32(16.0) / width
        is_usable = ti.f32(7.52316384526264e-37) <= width and width <= ti.f32(5.3169116662270134e+36)
        # Were scale used only once, the compiler would divide by width for each element again.
        if is_usable and not ti.math.isnan(scale):
            steps = ti.max(stop - start, 0) // 64
            for step in range(steps):
                base = start + step * 64
                bins = ti.Vector.zero(ti.i32, 64)
                # A loop without branches that stores to nothing but a local buffer is vectorised.
                for u in range(64):
                    value = x[base + u]
                    place = (value - lo) * scale
                    # As unsigned numbers, the bits of what is negative or NaN exceed those of infinity.
                    counts_somewhere = (ti.bit_cast(place, ti.u32) < ti.u32(0x7F800000)) & (value <= hi)
                    place = ti.min(place, ti.f32(15.0))
                    bins[u] = ti.cast(ti.select(counts_somewhere, place, ti.f32(16.0)), ti.i32)
                # Each set of bins has its own elements: in one set, equal ones would wait for each other.
                for u in range(16):
                    b0 = bins[u * 4]
                    found[b0] = found[b0] + ti.i32(1)
                    b1 = 17 + bins[u * 4 + 1]
                    found[b1] = found[b1] + ti.i32(1)
                    b2 = 34 + bins[u * 4 + 2]
                    found[b2] = found[b2] + ti.i32(1)
                    b3 = 51 + bins[u * 4 + 3]
                    found[b3] = found[b3] + ti.i32(1)
            for e in range(start + steps * 64, stop):
                value = x[e]
                if lo <= value and value <= hi and not ti.math.isnan(value):
                    b = ti.cast((value - lo) * scale, ti.i32)
                    b = ti.max(ti.min(b, 15), 0)
                    found[b] = found[b] + ti.i32(1)
        for b in range(16):
            partial[chunk, b] = found[b] + found[17 + b] + found[34 + b] + found[51 + b]
    for b in range(16):
        total = ti.i32(0)
        for chunk in range(32):
            total += partial[chunk, b]
        counts[b] = total

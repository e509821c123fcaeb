# map: Arithmetic at every element, such as `z = a*x + y`.
# problem: expr='x = x + a * p; rr = sum(x * x); low = min(x)', dim=1, dtype=f32, scalars=None, part=None
# schedule: loop='flat', chunk=2048, serial=False
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.func
def rank_low(a: ti.f32):
    bits = ti.bit_cast(a, ti.i32)
    size = bits & 0x7FFFFFFF
    sign = bits >> 31
    place = (size ^ sign) - sign
    # NaN comes before every number.
    return ti.select(size > 0x7F800000, -0x7FFFFFFF, place)


@ti.func
def at_rank(place: ti.i32):
    return ti.bit_cast(ti.abs(place) | (place & ~0x7FFFFFFF), ti.f32)


@ti.real_func
def chunk(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    a: ti.f32,
    p: ti.types.ndarray(dtype=ti.f32, ndim=1),
    rr_of_parts: ti.types.ndarray(dtype=ti.f32, ndim=1),
    low_of_parts: ti.types.ndarray(dtype=ti.i32, ndim=1),
    part: ti.i32,
    start: ti.i32,
    stop: ti.i32,
):
    rr_so_far = ti.Vector.zero(ti.f32, 64)
    low_so_far = ti.Vector.zero(ti.i32, 64) + ti.i32(2139095040)
    buffer_x = ti.Vector.zero(ti.f32, 64)
    for step in range((stop - start) // 64):
        # Bounded, so that LLVM knows that adding to it cannot overflow.
        first = ti.min(start + step * 64, 2147483136)
        for lane in range(64):
            new_x = x[first + lane] + a * p[first + lane]
            rr_so_far[lane] += new_x * new_x
            low_so_far[lane] = ti.min(low_so_far[lane], rank_low(new_x))
            buffer_x[lane] = new_x
        for lane in range(64):
            x[first + lane] = buffer_x[lane]
    for i in range(stop - (stop - start) % 64, stop):
        new_x = x[i] + a * p[i]
        rr_so_far[0] += new_x * new_x
        low_so_far[0] = ti.min(low_so_far[0], rank_low(new_x))
        x[i] = new_x
    for half in ti.static((32, 16, 8, 4, 2, 1)):
        for lane in range(half):
            rr_so_far[lane] += rr_so_far[half + lane]
            low_so_far[lane] = ti.min(low_so_far[lane], low_so_far[half + lane])
    rr_of_parts[part] = rr_so_far[0]
    low_of_parts[part] = low_so_far[0]


@ti.kernel
def map(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    a: ti.f32,
    p: ti.types.ndarray(dtype=ti.f32, ndim=1),
    rr: ti.types.ndarray(dtype=ti.f32, ndim=1),
    low: ti.types.ndarray(dtype=ti.f32, ndim=1),
    rr_of_parts: ti.types.ndarray(dtype=ti.f32, ndim=1),
    low_of_parts: ti.types.ndarray(dtype=ti.i32, ndim=1),
):
    count = x.shape[0]
    length = ti.max((count - 1) // 16384 + 1, 2048)
    used = (count - 1) // length + 1
    for part in range(used):
        start = part * length
        chunk(x, a, p, rr_of_parts, low_of_parts, part, start, ti.min(start + length, count))
    # One thread combines what the chunks left, in order.
    ti.loop_config(serialize=True)
    for _ in range(1):
        rr_so_far = ti.Vector.zero(ti.f32, 8)
        low_so_far = ti.Vector.zero(ti.i32, 8) + ti.i32(2139095040)
        for step in range(used // 8):
            for lane in range(8):
                rr_so_far[lane] += rr_of_parts[step * 8 + lane]
                low_so_far[lane] = ti.min(low_so_far[lane], low_of_parts[step * 8 + lane])
        for part in range(used - used % 8, used):
            rr_so_far[0] += rr_of_parts[part]
            low_so_far[0] = ti.min(low_so_far[0], low_of_parts[part])
        for half in ti.static((4, 2, 1)):
            for lane in range(half):
                rr_so_far[lane] += rr_so_far[half + lane]
                low_so_far[lane] = ti.min(low_so_far[lane], low_so_far[half + lane])
        rr[0] = rr_so_far[0]
        low[0] = at_rank(low_so_far[0])

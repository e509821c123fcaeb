# ring: Kernel that stays on the device and answers messages from a ring in memory.
# problem: handler='total = total + x; count = n // 2', inputs={n: i16, x: f32}, outputs={count: i16, total: f32}, state=(total,), dtype=f32
# schedule: polling='atomic', batch=4096
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.func
def nearest(value, lowest, highest):
    """Return the nearest whole number from lowest to highest; 0 for a NaN."""
    wide = ti.cast(value, ti.f64)
    kept = ti.min(ti.max(wide, lowest), highest)
    return ti.cast(ti.select(ti.math.isnan(wide), ti.f64(0.0), ti.floor(kept + ti.f64(0.5))), ti.i64)


@ti.kernel
def ring(
    control: ti.types.ndarray(dtype=ti.i32, ndim=1),
    n_in: ti.types.ndarray(dtype=ti.i16, ndim=1),
    x_in: ti.types.ndarray(dtype=ti.f32, ndim=1),
    count_out: ti.types.ndarray(dtype=ti.i16, ndim=1),
    total_out: ti.types.ndarray(dtype=ti.f32, ndim=1),
    total_state: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    for ring_lane in range(1):
        # Taichi drops an atomic that adds a literal 0, and the word would be read only once. A shape
        # is never negative, which only tikgen knows.
        ring_zero = n_in.shape[-1] & ti.i32(-2147483648)
        ring_mask = n_in.shape[0] - 1
        ring_done = control[32]
        ring_beat = 0
        total = total_state[0]
        ring_polls = 0
        ring_silent = 0
        ring_told = 1
        ti.atomic_add(control[48], 1)
        ring_ended = 0
        while ring_ended == 0:
            ring_command = ti.atomic_add(control[0], ring_zero)
            ring_tail = ti.atomic_add(control[16], ring_zero)
            ring_polls += 1
            if ring_polls == 1024:
                ti.atomic_add(control[96], ring_polls)
                ring_polls = 0
                ring_silent += 1
                ring_latest = ti.atomic_add(control[64], ring_zero)
                if ring_latest != ring_beat:
                    ring_beat = ring_latest
                    ring_silent = 0
                ring_limit = ti.atomic_add(control[80], ring_zero)
                if ring_limit > 0 and ring_silent >= ring_limit:
                    ring_command = 4
            ring_count = 0
            if ring_command == 0 or ring_command == 2:
                ring_count = ti.min(ring_tail - ring_done, 4096)
            for ring_turn in range(ring_count):
                ring_slot = (ring_done + ring_turn) & ring_mask
                n = ti.cast(n_in[ring_slot], ti.f32)
                x = x_in[ring_slot]
                total = total + x
                count = n // ti.f32(2.0)
                count_out[ring_slot] = ti.cast(nearest(count, ti.f64(-32768.0), ti.f64(32767.0)), ti.i16)
                total_out[ring_slot] = total
            if ring_count > 0:
                total_state[0] = total
                ti.atomic_add(control[32], ring_count)
                ring_done += ring_count
            elif ring_command == 2:
                ring_ended = 4
            elif ring_command == 3:
                ring_ended = 3
            elif ring_command == 4:
                ring_ended = 5
            ring_now = 1
            if ring_command == 1:
                ring_now = 2
            if ring_ended > 0:
                ring_now = ring_ended
            if ring_now != ring_told:
                # Behind the word is the state before.
                control[49] = ring_told
                ti.atomic_add(control[48], ring_now - ring_told)
            ring_told = ring_now

# ring: Kernel that stays on the device and answers messages from a ring in memory.
# problem: handler='total = 2 * x; count = n', inputs={n: i16, x: f32}, outputs={count: i16, total: f32}, state=(), dtype=f32
# schedule: polling='fence', lanes=256, batch=4096
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
):
    ti.loop_config(block_dim=256)
    for ring_lane in range(256):
        ring_seen = ti.simt.block.SharedArray((2,), ti.i32)
        ring_mask = n_in.shape[0] - 1
        ring_done = control[32]
        ring_beat = 0
        ring_polled = control[96]
        ring_polls = 0
        ring_silent = 0
        ring_quiet = 0
        ring_told = 1
        if ring_lane == 0:
            ti.simt.grid.memfence()
            control[48] = 1
        ring_ended = 0
        while ring_ended == 0:
            if ring_lane == 0:
                ti.simt.grid.memfence()
                ring_seen[0] = control[0]
                ring_seen[1] = control[16]
                ring_polls += 1
                if ring_polls == 1024:
                    ti.simt.grid.memfence()
                    control[96] = ring_polled + ring_polls
                    ring_polled += ring_polls
                    ring_polls = 0
                    ring_silent += 1
                    ring_latest = control[64]
                    if ring_latest != ring_beat:
                        ring_beat = ring_latest
                        ring_silent = 0
                    ring_limit = control[80]
                    if ring_limit > 0 and ring_silent >= ring_limit:
                        ring_seen[0] = 4
            ti.simt.block.sync()
            ring_command = ring_seen[0]
            ring_tail = ring_seen[1]
            ti.simt.block.sync()
            ring_count = 0
            if ring_command == 0 or ring_command == 2:
                ring_count = ti.min(ring_tail - ring_done, 4096)
            for ring_turn in range((ring_count + 255 - ring_lane) // 256):
                ring_slot = (ring_done + ring_turn * 256 + ring_lane) & ring_mask
                n = ti.cast(n_in[ring_slot], ti.f32)
                x = x_in[ring_slot]
                total = ti.f32(2.0) * x
                count = n
                count_out[ring_slot] = ti.cast(nearest(count, ti.f64(-32768.0), ti.f64(32767.0)), ti.i16)
                total_out[ring_slot] = total
            if ring_count > 0:
                ti.simt.grid.memfence()
                ti.simt.block.sync()
                if ring_lane == 0:
                    ti.simt.grid.memfence()
                    control[32] = ring_done + ring_count
                ring_done += ring_count
            elif ring_command == 2:
                # What was written before the command may have come after the look at it. Atomics keep
                # the order.
                ring_quiet += 1
                if ring_quiet == 2:
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
            if ring_lane == 0 and ring_now != ring_told:
                # Behind the word is the state before.
                control[49] = ring_told
                ti.simt.grid.memfence()
                control[48] = ring_now
            ring_told = ring_now

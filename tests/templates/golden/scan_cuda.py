# scan: Running sum, product, minimum or maximum of a vector.
# problem: op='sum', mode='inclusive', dtype=f32
# schedule: chunks=1024, unroll=8, team=128, items=8, join='shuffle'
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.func
def lane_below(value, reach):
    """Return the value of the thread of the warp that is so many lanes below."""
    everyone = ti.u32(0xFFFFFFFF)
    return ti.simt.warp.shfl_up_f32(everyone, value, reach)


@ti.kernel
def scan(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    out: ti.types.ndarray(dtype=ti.f32, ndim=1),
    totals: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    ti.loop_config(block_dim=128)
    for chunk, lane in ti.ndrange(1024, 128):
        count = x.shape[0]
        length = ((count - 1) // 1048576 + 1) * 1024
        used = (count - 1) // length + 1
        if chunk < used:
            start = chunk * length
            stop = start + ti.min(length, count - start)
            shared_total = ti.simt.block.SharedArray((128,), ti.f32)
            total = ti.f32(0.0)
            first = start + lane
            steps = (stop - first + 127) // 128
            for step in range(steps // 8):
                i = first + step * 1024
                total = total + x[i]
                total = total + x[i + 128]
                total = total + x[i + 256]
                total = total + x[i + 384]
                total = total + x[i + 512]
                total = total + x[i + 640]
                total = total + x[i + 768]
                total = total + x[i + 896]
            for step in range(steps - steps % 8, steps):
                i = first + step * 128
                total = total + x[i]
            shared_total[lane] = total
            ti.simt.block.sync()
            half = 64
            while half >= 1:
                if lane < half:
                    other = lane + half
                    total = total + shared_total[other]
                    shared_total[lane] = total
                ti.simt.block.sync()
                half //= 2
            if lane == 0:
                totals[chunk] = total
    ti.loop_config(block_dim=128)
    for place, lane in ti.ndrange(1024, 128):
        count = x.shape[0]
        length = ((count - 1) // 1048576 + 1) * 1024
        used = (count - 1) // length + 1
        if place < used:
            # What was read last is still in the cache.
            chunk = used - 1 - place
            start = chunk * length
            stop = start + ti.min(length, count - start)
            # Every team joins what the chunks before its own hold, which saves a launch.
            shared_total = ti.simt.block.SharedArray((128,), ti.f32)
            total = ti.f32(0.0)
            first = lane
            steps = (chunk - first + 127) // 128
            for step in range(steps // 8):
                i = first + step * 1024
                total = total + totals[i]
                total = total + totals[i + 128]
                total = total + totals[i + 256]
                total = total + totals[i + 384]
                total = total + totals[i + 512]
                total = total + totals[i + 640]
                total = total + totals[i + 768]
                total = total + totals[i + 896]
            for step in range(steps - steps % 8, steps):
                i = first + step * 128
                total = total + totals[i]
            shared_total[lane] = total
            ti.simt.block.sync()
            half = 64
            while half >= 1:
                if lane < half:
                    other = lane + half
                    total = total + shared_total[other]
                    shared_total[lane] = total
                ti.simt.block.sync()
                half //= 2
            running = shared_total[0]
            before = ti.simt.block.SharedArray((1, 129), ti.f32)
            warps = ti.simt.block.SharedArray((4,), ti.f32)
            run = ti.simt.block.SharedArray((1056,), ti.f32)
            across = lane + (lane >> 5)
            along = lane * 8 + (lane >> 2)
            loaded = ti.Vector.zero(ti.f32, 8)
            for k in ti.static(range(8)):
                loaded[k] = x[ti.min(start + lane + k * 128, stop - 1)]
            for tile in range((stop - start - 1) // 1024 + 1):
                base = start + tile * 1024 + lane
                for k in ti.static(range(8)):
                    run[across + k * 132] = ti.select(base + k * 128 < stop, loaded[k], ti.f32(0.0))
                ti.simt.block.sync()
                # The next tile is on its way while this one is scanned.
                for k in ti.static(range(8)):
                    loaded[k] = x[ti.min(base + 1024 + k * 128, stop - 1)]
                total = ti.f32(0.0)
                for k in ti.static(range(8)):
                    total = total + run[along + k]
                    run[along + k] = total
                other = lane_below(total, 1)
                if lane & 31 >= 1:
                    total = other + total
                other = lane_below(total, 2)
                if lane & 31 >= 2:
                    total = other + total
                other = lane_below(total, 4)
                if lane & 31 >= 4:
                    total = other + total
                other = lane_below(total, 8)
                if lane & 31 >= 8:
                    total = other + total
                other = lane_below(total, 16)
                if lane & 31 >= 16:
                    total = other + total
                if lane & 31 == 31:
                    warps[lane >> 5] = total
                other = lane_below(total, 1)
                if lane & 31 == 0:
                    other = ti.f32(0.0)
                ti.simt.block.sync()
                upto = ti.f32(0.0)
                mine = ti.f32(0.0)
                for warp in ti.static(range(4)):
                    if warp == lane >> 5:
                        mine = upto
                    upto = upto + warps[warp]
                before[0, lane] = mine + other
                if lane == 0:
                    before[0, 128] = upto
                row = 0
                ti.simt.block.sync()
                # Every value before the first store, which might change what is read after it.
                values = ti.Vector.zero(ti.f32, 8)
                for k in ti.static(range(8)):
                    value = before[row, (lane >> 3) + k * 16] + run[across + k * 132]
                    values[k] = running + value
                running = running + before[row, 128]
                for k in ti.static(range(8)):
                    i = base + k * 128
                    if i < stop:
                        value = values[k]
                        out[i] = value
                ti.simt.block.sync()

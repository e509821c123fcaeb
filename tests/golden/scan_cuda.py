# scan: Running sum, product, minimum or maximum of a vector.
# problem: op='sum', mode='inclusive', dtype=f32
# schedule: chunks=4096, grain=1, unroll=8, team=256, items=16, block_dim=0
# Rendered by tikgen 0.1.0.
import taichi as ti


@ti.kernel
def scan(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    out: ti.types.ndarray(dtype=ti.f32, ndim=1),
    totals: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    count = x.shape[0]
    length = ((count - 1) // 16777216 + 1) * 4096
    used = (count - 1) // length + 1
    ti.loop_config(block_dim=256)
    for thread in range(used * 256):
        chunk = thread // 256
        lane = thread % 256
        start = chunk * length
        stop = start + ti.min(length, count - start)
        shared_total = ti.simt.block.SharedArray((256,), ti.f32)
        total = ti.f32(0.0)
        first = start + lane
        steps = (stop - first + 255) // 256
        for step in range(steps // 8):
            i = first + step * 2048
            total = total + x[i]
            total = total + x[i + 256]
            total = total + x[i + 512]
            total = total + x[i + 768]
            total = total + x[i + 1024]
            total = total + x[i + 1280]
            total = total + x[i + 1536]
            total = total + x[i + 1792]
        for step in range(steps - steps % 8, steps):
            i = first + step * 256
            total = total + x[i]
        shared_total[lane] = total
        ti.simt.block.sync()
        half = 128
        while half >= 1:
            if lane < half:
                other = lane + half
                total = total + shared_total[other]
                shared_total[lane] = total
            ti.simt.block.sync()
            half //= 2
        if lane == 0:
            totals[chunk] = total
    # One team combines what the chunks left.
    ti.loop_config(block_dim=256)
    for lane in range(256):
        before = ti.simt.block.SharedArray((2, 257), ti.f32)
        share = (used - 1) // 256 + 1
        start = ti.min(lane * share, used)
        stop = ti.min(start + share, used)
        total = ti.f32(0.0)
        for chunk in range(start, stop):
            total = total + totals[chunk]
        row = 0
        before[row, lane + 1] = total
        if lane == 0:
            before[0, lane] = ti.f32(0.0)
            before[1, lane] = ti.f32(0.0)
        ti.simt.block.sync()
        reach = 1
        while reach < 256:
            if lane >= reach:
                total = before[row, lane + 1 - reach] + total
            row = 1 - row
            before[row, lane + 1] = total
            ti.simt.block.sync()
            reach *= 2
        running = before[row, lane]
        for chunk in range(start, stop):
            total = totals[chunk]
            totals[chunk] = running
            running = running + total
    ti.loop_config(block_dim=256)
    for thread in range(used * 256):
        chunk = thread // 256
        lane = thread % 256
        start = chunk * length
        stop = start + ti.min(length, count - start)
        running = totals[chunk]
        before = ti.simt.block.SharedArray((2, 257), ti.f32)
        run = ti.simt.block.SharedArray((4224,), ti.f32)
        for tile in range((stop - start - 1) // 4096 + 1):
            base = start + tile * 4096
            loaded = ti.Vector.zero(ti.f32, 16)
            for k in ti.static(range(16)):
                i = base + k * 256 + lane
                loaded[k] = ti.select(i < stop, x[ti.min(i, stop - 1)], ti.f32(0.0))
            for k in ti.static(range(16)):
                place = k * 256 + lane
                run[place + place // 32] = loaded[k]
            ti.simt.block.sync()
            total = ti.f32(0.0)
            for k in ti.static(range(16)):
                place = lane * 16 + k
                place += place // 32
                total = total + run[place]
                run[place] = total
            row = 0
            before[row, lane + 1] = total
            if lane == 0:
                before[0, lane] = ti.f32(0.0)
                before[1, lane] = ti.f32(0.0)
            ti.simt.block.sync()
            reach = 1
            while reach < 256:
                if lane >= reach:
                    total = before[row, lane + 1 - reach] + total
                row = 1 - row
                before[row, lane + 1] = total
                ti.simt.block.sync()
                reach *= 2
            for k in ti.static(range(16)):
                place = k * 256 + lane
                i = base + place
                if i < stop:
                    value = before[row, place // 16] + run[place + place // 32]
                    value = running + value
                    out[i] = value
            running = running + before[row, 256]
            ti.simt.block.sync()

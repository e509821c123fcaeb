# reduce: Reduction of an array to one number, or along one axis.
# problem: op='sum', dim=1, axis=None, dtype=f32, accumulator=None, accuracy='fast'
# schedule: chunks=1024, grain=4096, unroll=1, team=256
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def reduce(
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    out: ti.types.ndarray(dtype=ti.f32, ndim=1),
    partial: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    ti.loop_config(block_dim=256)
    for chunk, lane in ti.ndrange(1024, 256):
        count = x.shape[0]
        length = ti.max((count - 1) // 1024 + 1, 4096)
        used = (count - 1) // length + 1
        if chunk < used:
            start = chunk * length
            stop = start + ti.min(length, count - start)
            shared_total = ti.simt.block.SharedArray((256,), ti.f32)
            total = ti.f32(0.0)
            first = start + lane
            steps = (stop - first + 255) // 256
            for step in range(steps):
                i = first + step * 256
                total += x[i]
            shared_total[lane] = total
            ti.simt.block.sync()
            half = 128
            while half >= 1:
                if lane < half:
                    other = lane + half
                    total += shared_total[other]
                    shared_total[lane] = total
                ti.simt.block.sync()
                half //= 2
            if lane == 0:
                partial[chunk] = total
    # One team combines what the chunks left.
    ti.loop_config(block_dim=256)
    for lane in range(256):
        count = x.shape[0]
        length = ti.max((count - 1) // 1024 + 1, 4096)
        used = (count - 1) // length + 1
        shared_total = ti.simt.block.SharedArray((256,), ti.f32)
        total = ti.f32(0.0)
        for step in range((used - lane + 255) // 256):
            chunk = lane + step * 256
            total += partial[chunk]
        shared_total[lane] = total
        ti.simt.block.sync()
        half = 128
        while half >= 1:
            if lane < half:
                other = lane + half
                total += shared_total[other]
                shared_total[lane] = total
            ti.simt.block.sync()
            half //= 2
        if lane == 0:
            out[0] = total

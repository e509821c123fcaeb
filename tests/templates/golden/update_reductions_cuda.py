# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="u' = lap(u); err = sum((u' - u) ** 2)", dim=2, dtype=f32, order=2, spacing=1.0, scalars=(), on_device=(), constants=None, boundary='interior', mask=None, where=None, vectors=None, layout='first', at=None, types=None, outputs=None, part=None, window=False
# schedule: loop='points', block_dim=128
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def update(
    u: ti.types.ndarray(dtype=ti.f32, ndim=2),
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=2),
    err: ti.types.ndarray(dtype=ti.f32, ndim=1),
    err_of_parts: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    ti.loop_config(block_dim=128)
    for chunk, lane in ti.ndrange(2048, 128):
        count = ti.max(u.shape[0] - 2, 0) * ti.max(u.shape[1] - 2, 0)
        length = ti.max((count - 1) // 2048 + 1, 128)
        used = (count - 1) // length + 1
        if chunk < used:
            start = chunk * length
            stop = start + ti.min(length, count - start)
            shared_err_so_far = ti.simt.block.SharedArray((128,), ti.f32)
            err_so_far = ti.f32(0.0)
            first = start + lane
            steps = (stop - first + 127) // 128
            for step in range(steps):
                point = first + step * 128
                i = 1 + point // ti.max(u.shape[1] - 2, 0)
                j = 1 + point % ti.max(u.shape[1] - 2, 0)
                row = u.shape[1]
                here = i * row + j
                new_u_next = (
                    u[0, here - row]
                    + u[0, here + row]
                    + u[0, here - 1]
                    + u[0, here + 1]
                    - ti.f32(4.0) * u[0, here]
                )
                u_next[0, here] = new_u_next
                err_so_far += (new_u_next - u[0, here]) ** 2
            shared_err_so_far[lane] = err_so_far
            ti.simt.block.sync()
            half = 64
            while half >= 1:
                if lane < half:
                    other = lane + half
                    err_so_far += shared_err_so_far[other]
                    shared_err_so_far[lane] = err_so_far
                ti.simt.block.sync()
                half //= 2
            if lane == 0:
                err_of_parts[chunk] = err_so_far
    # One team combines what the chunks left.
    ti.loop_config(block_dim=128)
    for lane in range(128):
        count = ti.max(u.shape[0] - 2, 0) * ti.max(u.shape[1] - 2, 0)
        length = ti.max((count - 1) // 2048 + 1, 128)
        used = (count - 1) // length + 1
        shared_err_so_far = ti.simt.block.SharedArray((128,), ti.f32)
        err_so_far = ti.f32(0.0)
        for step in range((used - lane + 127) // 128):
            err_so_far += err_of_parts[lane + step * 128]
        shared_err_so_far[lane] = err_so_far
        ti.simt.block.sync()
        half = 64
        while half >= 1:
            if lane < half:
                other = lane + half
                err_so_far += shared_err_so_far[other]
                shared_err_so_far[lane] = err_so_far
            ti.simt.block.sync()
            half //= 2
        if lane == 0:
            err[0] = err_so_far

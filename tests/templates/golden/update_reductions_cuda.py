# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="u' = lap(u); err = sum((u' - u) ** 2)", dim=2, dtype=f32, order=2, spacing=1.0, scalars=(), on_device=(), constants=None, boundary='interior', mask=None, where=None, vectors=None, layout='first', at=None, types=None, outputs=None, part=None, window=False
# schedule: loop='points', items=4, block_dim=128, parts=262144
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
    for part, thread in ti.ndrange(
        ti.min((ti.max((u.shape[0] - 3) // 4 + 1, 0) * ti.max(u.shape[1] - 2, 0) - 1) // 128 + 1, 262144), 128
    ):
        count = ti.max((u.shape[0] - 3) // 4 + 1, 0) * ti.max(u.shape[1] - 2, 0)
        used = ti.min((count - 1) // 128 + 1, count, 262144)
        if part < used:
            shared_err_so_far = ti.simt.block.SharedArray((128,), ti.f32)
            err_so_far = ti.f32(0.0)
            for step in range((count - 1 - part * 128 - thread) // 33554432 + 1):
                point = step * 33554432 + part * 128 + thread
                block = point // ti.max(u.shape[1] - 2, 0)
                j = 1 + point % ti.max(u.shape[1] - 2, 0)
                first = 1 + block * 4
                if first + 4 <= u.shape[0] - 1:
                    row = u.shape[1]
                    buffer_u_next = ti.Vector.zero(ti.f32, 4)
                    for lane in ti.static(range(4)):
                        i = first + lane
                        new_u_next = (
                            u[0, (i - 1) * row + j]
                            + u[0, (i + 1) * row + j]
                            + u[0, i * row + j - 1]
                            + u[0, i * row + j + 1]
                            - ti.f32(4.0) * u[0, i * row + j]
                        )
                        buffer_u_next[lane] = new_u_next
                        err_so_far += (new_u_next - u[0, i * row + j]) ** 2
                    for lane in ti.static(range(4)):
                        u_next[0, (first + lane) * row + j] = buffer_u_next[lane]
                else:
                    for i in range(first, ti.min(first + 4, u.shape[0] - 1)):
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
            shared_err_so_far[thread] = err_so_far
            ti.simt.block.sync()
            half = 64
            while half >= 1:
                if thread < half:
                    other = thread + half
                    err_so_far += shared_err_so_far[other]
                    shared_err_so_far[thread] = err_so_far
                ti.simt.block.sync()
                half //= 2
            if thread == 0:
                err_of_parts[part] = err_so_far
    # One team combines what the parts left.
    ti.loop_config(block_dim=1024)
    for thread in range(1024):
        count = ti.max((u.shape[0] - 3) // 4 + 1, 0) * ti.max(u.shape[1] - 2, 0)
        used = ti.min((count - 1) // 128 + 1, count, 262144)
        shared_err_so_far = ti.simt.block.SharedArray((1024,), ti.f32)
        err_so_far = ti.f32(0.0)
        steps = (used - thread + 1023) // 1024
        for step in range(steps // 4):
            place = thread + step * 4096
            err_so_far += err_of_parts[place]
            err_so_far += err_of_parts[place + 1024]
            err_so_far += err_of_parts[place + 2048]
            err_so_far += err_of_parts[place + 3072]
        for step in range(steps - steps % 4, steps):
            place = thread + step * 1024
            err_so_far += err_of_parts[place]
        shared_err_so_far[thread] = err_so_far
        ti.simt.block.sync()
        half = 512
        while half >= 1:
            if thread < half:
                other = thread + half
                err_so_far += shared_err_so_far[other]
                shared_err_so_far[thread] = err_so_far
            ti.simt.block.sync()
            half //= 2
        if thread == 0:
            err[0] = err_so_far

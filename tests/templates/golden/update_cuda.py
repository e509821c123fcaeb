# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="u' = lap(u)", dim=2, dtype=f32, order=2, spacing=1.0, scalars=(), on_device=(), constants=None, boundary='periodic', mask=None, where=None, vectors=None, layout='first', at=None, types=None, outputs=None, part=None, window=False
# schedule: loop='points', items=4, block_dim=128
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def update(
    u: ti.types.ndarray(dtype=ti.f32, ndim=2),
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    ti.loop_config(block_dim=128)
    for block, j in ti.ndrange((u.shape[0] - 1) // 4 + 1, u.shape[1]):
        first = block * 4
        if first + 4 <= u.shape[0]:
            row = u.shape[1]
            places = ti.Vector(
                [
                    ti.select(first - 1 < 0, first - 1 + u.shape[0], first - 1),
                    first,
                    first + 1,
                    first + 2,
                    first + 3,
                    ti.select(first + 4 >= u.shape[0], first + 4 - u.shape[0], first + 4),
                ]
            )
            buffer_u_next = ti.Vector.zero(ti.f32, 4)
            for lane in ti.static(range(4)):
                i = first + lane
                buffer_u_next[lane] = (
                    u[0, places[lane] * row + j]
                    + u[0, places[lane + 2] * row + j]
                    + u[0, i * row + ti.select(j - 1 < 0, j - 1 + u.shape[1], j - 1)]
                    + u[0, i * row + ti.select(j + 1 >= u.shape[1], j + 1 - u.shape[1], j + 1)]
                    - ti.f32(4.0) * u[0, i * row + j]
                )
            for lane in ti.static(range(4)):
                u_next[0, (first + lane) * row + j] = buffer_u_next[lane]
        else:
            for i in range(first, ti.min(first + 4, u.shape[0])):
                u_next[i, j] = (
                    u[ti.select(i < 1, u.shape[0] - 1, i - 1), j]
                    + u[ti.select(i + 1 < u.shape[0], i + 1, 0), j]
                    + u[i, ti.select(j < 1, u.shape[1] - 1, j - 1)]
                    + u[i, ti.select(j + 1 < u.shape[1], j + 1, 0)]
                    - ti.f32(4.0) * u[i, j]
                )

# update: Equations over fields on a regular grid, such as `u' = u + dt*lap(u)`.
# problem: equations="u' = lap(u)", dim=2, dtype=f32, order=2, spacing=1.0, scalars=(), on_device=(), constants=None, boundary='periodic', mask=None, vectors=None, layout='first', at=None, types=None, outputs=None
# schedule: loop='points', block_dim=128
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def update(
    u: ti.types.ndarray(dtype=ti.f32, ndim=2),
    u_next: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    ti.loop_config(block_dim=128)
    for i, j in ti.ndrange(u.shape[0], u.shape[1]):
        if 1 <= i < u.shape[0] - 1 and 1 <= j < u.shape[1] - 1:
            row = u.shape[1]
            here = i * row + j
            u_next[0, here] = (
                u[0, here - row]
                + u[0, here + row]
                + u[0, here - 1]
                + u[0, here + 1]
                - ti.f32(4.0) * u[0, here]
            )
        else:
            u_next[i, j] = (
                u[(i - 1) % u.shape[0], j]
                + u[(i + 1) % u.shape[0], j]
                + u[i, (j - 1) % u.shape[1]]
                + u[i, (j + 1) % u.shape[1]]
                - ti.f32(4.0) * u[i, j]
            )

# stencil: Weighted sum over a neighbourhood on a regular grid.
# problem: dim=3, dtype=f32, order=2, spacing=1.0, points=None, boundary='interior', storage='ndarray', update=False
# schedule: loop='sweep', block_x=64, block_y=4, sweep=32, ahead=2, blocks=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def stencil(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    y: ti.types.ndarray(dtype=ti.f32, ndim=3),
):
    ti.loop_config(block_dim=256)
    for slab, tile_j, tile_k, lane in ti.ndrange(
        (x.shape[0] - 3) // 32 + 1,
        (x.shape[1] - 3) // 4 + 1,
        (x.shape[2] - 2) // 64 + 1,
        256,
    ):
        j = 1 + tile_j * 4 + lane // 64
        k = tile_k * 64 + lane % 64
        if j < x.shape[1] - 1 and 1 <= k < x.shape[2] - 1:
            row = x.shape[2]
            plane = x.shape[1] * row
            start = 1 + slab * 32
            here = start * plane + j * row + k
            end = (x.shape[0] - 1) * plane + j * row + k
            behind1 = x[0, 0, here - plane]
            at = x[0, 0, here]
            ahead1 = x[0, 0, here + plane]
            ahead2 = x[0, 0, ti.min(here + 2 * plane, end)]
            stop = ti.min(start + 32, x.shape[0] - 1)
            for i in range(start, stop - 2):
                ahead3 = x[0, 0, here + 3 * plane]
                y[0, 0, here] = (
                    (
                        behind1
                        + x[0, 0, here - row]
                        + x[0, 0, here - 1]
                        + x[0, 0, here + 1]
                        + x[0, 0, here + row]
                        + ahead1
                    )
                    + ti.f32(-6.0) * at
                )
                behind1 = at
                at = ahead1
                ahead1 = ahead2
                ahead2 = ahead3
                here += plane
            for i in range(ti.max(stop - 2, start), stop):
                y[0, 0, here] = (
                    (
                        behind1
                        + x[0, 0, here - row]
                        + x[0, 0, here - 1]
                        + x[0, 0, here + 1]
                        + x[0, 0, here + row]
                        + ahead1
                    )
                    + ti.f32(-6.0) * at
                )
                behind1 = at
                at = ahead1
                ahead1 = ahead2
                here += plane

# stencil: Weighted sum over a neighbourhood on a regular grid.
# problem: dim=2, dtype=f32, order=2, spacing=1.0, points=None, boundary='zero', storage='ndarray', update=False
# schedule: loop='sweep', block_x=256, sweep=16, ahead=2, blocks=0
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def stencil(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
):
    ti.loop_config(block_dim=256)
    for slab, tile_j, lane in ti.ndrange(
        (x.shape[0] - 1) // 16 + 1,
        (x.shape[1] - 1) // 256 + 1,
        256,
    ):
        j = tile_j * 256 + lane
        if j < x.shape[1]:
            row = x.shape[1]
            start = slab * 16
            here = start * row + j
            depth = x.shape[0]
            behind1 = ti.select(start - 1 >= 0, x[0, here + (ti.max(start - 1, 0) - start) * row], ti.f32(0.0))
            at = x[0, here]
            ahead1 = ti.select(start + 1 < depth, x[0, here + (ti.min(start + 1, depth - 1) - start) * row], ti.f32(0.0))
            ahead2 = ti.select(start + 2 < depth, x[0, here + (ti.min(start + 2, depth - 1) - start) * row], ti.f32(0.0))
            if j & -32 >= 1 and (j | 31) + 1 < x.shape[1]:
                for i in range(start, ti.min(start + 16, x.shape[0])):
                    ahead3 = ti.select(i + 3 < depth, x[0, here + (ti.min(i + 3, depth - 1) - i) * row], ti.f32(0.0))
                    y[0, here] = (
                        (
                            behind1
                            + x[0, here - 1]
                            + x[0, here + 1]
                            + ahead1
                        )
                        + ti.f32(-4.0) * at
                    )
                    behind1 = at
                    at = ahead1
                    ahead1 = ahead2
                    ahead2 = ahead3
                    here += row
            else:
                to_j_minus1 = ti.max(j - 1, 0) - j
                has_j_minus1 = j - 1 >= 0
                to_j_plus1 = ti.min(j + 1, x.shape[1] - 1) - j
                has_j_plus1 = j + 1 < x.shape[1]
                for i in range(start, ti.min(start + 16, x.shape[0])):
                    ahead3 = ti.select(i + 3 < depth, x[0, here + (ti.min(i + 3, depth - 1) - i) * row], ti.f32(0.0))
                    y[0, here] = (
                        (
                            behind1
                            + ti.select(has_j_minus1, x[0, here + to_j_minus1], ti.f32(0.0))
                            + ti.select(has_j_plus1, x[0, here + to_j_plus1], ti.f32(0.0))
                            + ahead1
                        )
                        + ti.f32(-4.0) * at
                    )
                    behind1 = at
                    at = ahead1
                    ahead1 = ahead2
                    ahead2 = ahead3
                    here += row

"""Equations in Taichi as one writes them by hand, from its documentation."""

import taichi as ti


@ti.kernel
def gray_scott(
    u: ti.types.ndarray(ti.f32, 2),
    v: ti.types.ndarray(ti.f32, 2),
    un: ti.types.ndarray(ti.f32, 2),
    vn: ti.types.ndarray(ti.f32, 2),
):
    """Do a step on a torus."""
    for i, j in ti.ndrange(u.shape[0], u.shape[1]):
        up, down = (i - 1) % u.shape[0], (i + 1) % u.shape[0]
        left, right = (j - 1) % u.shape[1], (j + 1) % u.shape[1]
        r = u[i, j] * v[i, j] ** 2
        lu = u[up, j] + u[down, j] + u[i, left] + u[i, right] - 4 * u[i, j]
        lv = v[up, j] + v[down, j] + v[i, left] + v[i, right] - 4 * v[i, j]
        un[i, j] = u[i, j] + 1.0 * (0.16 * lu - r + 0.06 * (1 - u[i, j]))
        vn[i, j] = v[i, j] + 1.0 * (0.08 * lv + r - 0.122 * v[i, j])

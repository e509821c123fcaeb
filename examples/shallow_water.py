"""A dam breaks: the shallow-water equations, compared with the exact solution of Stoker.

Water 2 deep runs into water 1 deep; behind the front its depth is constant, and known. Fluxes are
those of Lax and Friedrichs. ``--plot FILE`` draws a round dam with matplotlib.
"""

import sys

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN, fast_math=False)
flow = tikgen.update(
    """
    p   = mx**2/h + h**2/2                     # flows of momentum; gravity is 1
    q   = my**2/h + h**2/2
    s   = mx*my/h
    h'  = h - dt*(dx(mx) + dy(my) - c/2*lap(h))
    mx' = mx - dt*(dx(p) + dy(s) - c/2*lap(mx))
    my' = my - dt*(dx(s) + dy(q) - c/2*lap(my))
    """,
    dim=2, dtype="f64", boundary="periodic", constants={"dt": 0.2, "c": 2.0},
)  # fmt: skip


def broken(behind: np.ndarray, steps: int) -> tuple[tikgen.Grid, np.ndarray]:
    """Return the grid, and the depth some steps after the water behind a dam was let go."""
    grid = tikgen.Grid(behind.shape, periodic=True)
    f = {"h": grid.field(1.0 + behind), "mx": grid.zeros("f64"), "my": grid.zeros("f64")}
    g = {f"{name}_next": grid.zeros("f64") for name in f}
    swap = grid.swap(*zip(f.values(), g.values(), strict=True))
    program = tikgen.Program([grid.bind(flow, **f, **g), swap])
    program.verify().raise_for_failure()
    program.run(steps)
    h = program["h"][:]  # On all processes.
    lost = 1 - h.sum() / (1.0 + behind).sum()
    grid.print(f"{grid.shape} points, {steps} steps: error of the mass {lost:.1e}")
    assert abs(lost) < 1e-12
    return grid, h


grid, h = broken(np.indices((1600, 4))[0] < 800, 1000)
depths = np.linspace(1, 2, 100_001)[1:-1]  # One of them is that behind the front,
speeds = 2 * (np.sqrt(2) - np.sqrt(depths))  # where the speeds behind and in front agree.
found = np.argmin(np.abs(speeds - (depths - 1) * np.sqrt((depths + 1) / depths / 2)))
depth, speed = depths[found], speeds[found]
front = 800 + 200 * speed * depth / (depth - 1)
found_front = 850 + np.argmin(np.abs(h[850:1200, 0] - (1 + depth) / 2))
grid.print(f"depth behind the front {h[820, 0]:.4f}: error {abs(h[820, 0] / depth - 1):.1e}")
grid.print(f"the front has come {front - 800:.0f} far: error {abs(found_front - front):.1f} points")
assert abs(h[820, 0] / depth - 1) < 1e-3 and abs(found_front - front) < 3
if "--plot" in sys.argv:
    import matplotlib.pyplot as plt

    i, j = np.ogrid[-200:200, -200:200]
    pictures = [broken(i**2 + j**2 < 60**2, steps)[1] for steps in (150, 450)]
    if grid.rank == 0:
        plt.imsave(sys.argv[-1], np.hstack(pictures), cmap="Blues_r")

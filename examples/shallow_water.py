"""A dam breaks: the shallow-water equations, compared with the exact solution of Stoker.

Water 2 deep runs into water 1 deep; behind the front its depth is constant, and known. Fluxes are
those of Lax and Friedrichs. ``--plot FILE`` draws a round dam with matplotlib.
"""

import sys
from collections.abc import Callable

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


def broken(grid: tikgen.Grid, behind: Callable[..., np.ndarray], steps: int) -> np.ndarray:
    """Return the depth some steps after the water behind a dam was let go."""
    f = {name: grid.zeros("f64") for name in ("h", "mx", "my")}
    g = {f"{name}_next": grid.zeros("f64") for name in f}
    f["h"] = grid.field(lambda i, j: 1 + behind(i, j), "f64")
    swap = grid.swap(*zip(f.values(), g.values(), strict=True))
    program = tikgen.Program([grid.bind(flow, **f, **g), swap])
    program.verify().raise_for_failure()
    before = program["h"][:].sum()
    program.run(steps)
    h = program["h"][:]  # On all processes.
    lost = 1 - h.sum() / before
    grid.print(f"{grid.shape} points, {steps} steps: error of the mass {lost:.1e}")
    assert abs(lost) < 1e-12
    return h


grid = tikgen.Grid((1600, 4), periodic=True)
h = broken(grid, lambda i, j: i < 800, 1000)[:, 0]
depths = np.linspace(1, 2, 100_001)[1:-1]  # One of them is that behind the front,
speeds = 2 * (np.sqrt(2) - np.sqrt(depths))  # where the speeds behind and in front agree.
found = np.argmin(np.abs(speeds - (depths - 1) * np.sqrt((depths + 1) / depths / 2)))
depth, speed = depths[found], speeds[found]
front = 800 + 200 * speed * depth / (depth - 1)
found_front = 850 + np.argmin(np.abs(h[850:1200] - (1 + depth) / 2))
grid.print(f"depth behind the front {h[820]:.4f}: error {abs(h[820] / depth - 1):.1e}")
grid.print(f"the front has come {front - 800:.0f} far: error {abs(found_front - front):.1f} points")
assert abs(h[820] / depth - 1) < 1e-3 and abs(found_front - front) < 3

if "--plot" in sys.argv:
    import matplotlib.pyplot as plt

    square = tikgen.Grid((400, 400), periodic=True)
    pictures = [
        broken(square, lambda i, j: (i - 200) ** 2 + (j - 200) ** 2 < 60**2, steps)
        for steps in (150, 450)
    ]
    if grid.rank == 0:
        plt.imsave(sys.argv[-1], np.hstack(pictures), cmap="Blues_r")

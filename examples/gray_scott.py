"""Patterns of two chemicals: the Gray-Scott equations as text, one kernel, one program.

``--plot FILE`` writes a strip of pictures; matplotlib draws them.
"""

import sys

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN, fast_math=False)

n = 192
grid = tikgen.Grid((n, n), periodic=True)
react = tikgen.update(
    """
    r  = u*v**2                                # two v and one u become three v
    u' = u + dt*(Du*lap(u) - r + F*(1 - u))
    v' = v + dt*(Dv*lap(v) + r - (F + k)*v)
    """,
    dim=2,
    boundary="periodic",
    constants={"dt": 1.0, "Du": 0.16, "Dv": 0.08, "F": 0.0545, "k": 0.062},
)
u, v, un, vn = grid.full(1), grid.zeros(), grid.zeros(), grid.zeros()
for i, j in np.random.default_rng(1).integers(n // 3, n // 2, (5, 2)):
    u[i : i + 10, j : j + 10], v[i : i + 10, j : j + 10] = 0.5, 0.25
program = tikgen.Program(
    [grid.bind(react, u=u, v=v, u_next=un, v_next=vn), grid.swap((u, un), (v, vn))], u=u, v=v
)
grid.print(program)
checked = program.verify(steps=3)
checked.raise_for_failure()
expected = program.reference(100)  # The same steps in NumPy.
program.run(100)
error = np.abs(program["v"][:] - expected["v"]).max()
grid.print(f"after 100 steps: error {error:.1e} to NumPy; {checked.worst:.0%} of the tolerance")
assert error < 1e-4
pictures = {}


def show(program: tikgen.Program) -> None:
    """Keep a picture, and tell how far the pattern has spread."""
    pictures[program.steps] = v = program["v"][:]  # On all processes.
    grid.print(f"step {program.steps:5}: v above 0.1 on {(v > 0.1).mean():.0%} of the torus")


ran = program.run(7900, every=2000, call=show)
grid.print(f"{ran.steps / ran.seconds:,.0f} steps/s, {program!r}")
radii = np.sqrt([(picture > 0.1).mean() for picture in pictures.values()])
steady = np.ptp(np.diff(radii)) / np.diff(radii).mean()
grid.print(f"the front spreads with a constant speed: error {steady:.0%}")
assert steady < 0.2

if "--plot" in sys.argv and grid.rank == 0:
    import matplotlib.pyplot as plt

    plt.imsave(sys.argv[-1], np.hstack([*pictures.values()]), cmap="magma")

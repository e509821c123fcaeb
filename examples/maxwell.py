"""A flash in a box of metal: Maxwell's equations in 3D on Yee's staggered grid, fields in place.

The walls reflect light, of speed 1: its energy stays, the magnetic field has no sources, and the
lowest mode of the box swings with its own frequency. ``--plot FILE`` draws the electric field.
"""

import sys

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN, fast_math=False)
n, dt = 48, 0.5  # Cells of size 1 along each axis.
h_at = {"hx": "face x", "hy": "face y", "hz": "face z"}
at = h_at | {"ex": "edge x", "ey": "edge y", "ez": "edge z"}
electric = """
    ex = ex + dt*(dy(hz) - dz(hy))
    ey = ey + dt*(dz(hx) - dx(hz))
    ez = ez + dt*(dx(hy) - dy(hx))"""
magnetic = """
    hx = hx - dt*(dy(ez) - dz(ey))
    hy = hy - dt*(dz(ex) - dx(ez))
    hz = hz - dt*(dx(ey) - dy(ex))"""
# Walls: where h has no slope, e stays 0; and e is 0 just outside of the arrays.
e_step = tikgen.update(electric, dim=3, scalars="dt", at=at, boundary="clamp")
h_step = tikgen.update(magnetic, dim=3, scalars="dt", at=at, boundary="zero")
divergence = tikgen.update("s = max(abs(div(hx, hy, hz)))", dim=3, at=h_at, boundary="zero")

grid = tikgen.Grid((n, n, n))
f = {name: grid.zeros() for name in at}
x, y, z = np.ogrid[:n, :n, :n]
f["ez"][1:, 1:] = 10 * np.exp(-((x - 18) ** 2 + (y - 20) ** 2 + (z - 24) ** 2)[1:, 1:] / 12)
lowest = np.sin(np.pi * x / n) * np.sin(np.pi * y / n)
program = tikgen.Program([grid.bind(h_step, **f, dt=dt), grid.bind(e_step, **f, dt=dt)])
program.verify(steps=2).raise_for_failure()
energies, swings, pictures, s = [], [], [], np.zeros(1, np.float32)
for _ in range(40):
    before = {name: f[name][:] for name in at}  # On all processes.
    swings.append((lowest * before["ez"]).mean())
    pictures.append(before["ez"][:, :, n // 2])
    program.run(1)  # The energy takes h half a step before and after e.
    energies.append(sum(np.vdot(before[a], f[a][:] if a in h_at else before[a]) for a in f))
    program.run(9)

grid.bind(divergence, **{a: f[a] for a in h_at}, s=s)()
exact = np.pi * np.sqrt(2) / n
w = 2 / dt * np.arcsin(dt * np.sqrt(2) * np.sin(np.pi / 2 / n))  # Its frequency on the grid.
wave = np.cos(w * dt * (10 * np.arange(40) + 0.5))
swing_error = swings / swings[0] - wave / wave[0]
grid.print(f"energy: error {np.ptp(energies) / energies[0]:.1e}; sources of h: error {s[0]:.1e}")
grid.print(f"lowest mode: error {np.abs(swing_error).max():.1e}, frequency {w / exact - 1:+.1e}")
assert np.ptp(energies) < 1e-5 * energies[0] and s[0] < 1e-4
assert np.abs(swing_error).max() < 1e-5
if "--plot" in sys.argv and grid.rank == 0:
    import matplotlib.pyplot as plt

    strip = np.kron(np.hstack(pictures[1:14:4]), np.ones((4, 4)))
    plt.imsave(sys.argv[-1], strip, cmap="RdBu", vmin=-0.3, vmax=0.3)

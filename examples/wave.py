"""A shot over layered rock: acoustic waves of order 8, and a sponge around the rock.

Receivers in a line record what comes back from the layers, at times that are known; and so are
standing waves, which show the order. ``--plot FILE`` draws the record with matplotlib.
"""

import sys

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN, fast_math=False)
# The next pressure replaces the old one, whose neighbours are not read. c is in points a step.
wave = "old = 2*p - old + c**2*(lap(p) + shot*now)"


def ricker(step: int) -> float:
    """Return the strength of the shot at a step."""
    a = (np.pi * (step - 70) / 50) ** 2
    return float((1 - 2 * a) * np.exp(-a))


grid = tikgen.Grid((300, 400))
i, j = np.indices(grid.shape)  # Depth and place.
speed = np.where(i < 120, 0.25, np.where(i + j / 8 < 240, 0.35, 0.5))
shot = np.exp(-((i - 50) ** 2 + (j - 200) ** 2) / 4)
c, shot, p, old = map(grid.field, np.array([speed, shot, 0 * shot, 0 * shot], np.float32))
edges = {"p": "zero", "old": tikgen.absorbing(40, 0.1, order=2)}  # The sponge is 40 points wide.
step = tikgen.update(wave, dim=2, order=8, scalars="now", boundary=edges)
bound = grid.bind(step, p=p, old=old, c=c, shot=shot, now=0)
program = tikgen.Program([tikgen.varying(bound, now=ricker), grid.swap((p, old))])
program.verify().raise_for_failure()
record = []
program.run(1600, every=4, call=lambda run: record.append(run["p"][50]))
direct = 4 * np.argmax(np.abs(record)[:150, 300]) - (70 + 100 / 0.25)
echo = 4 * (130 + np.argmax(np.abs(record)[130:200, 200])) - (70 + 2 * 70 / 0.25)
left = np.abs(program["p"][:]).max()
grid.print(f"arrivals: error {direct} and {echo} steps; pressure left at the end: {left:.3f}")
assert max(abs(direct), abs(echo)) < 8 and left < 0.02

exact = tikgen.update(wave, dim=2, order=8, scalars="now", boundary="periodic", dtype="f64")
errors = []  # On so few points each process computes all of them.
for n, steps in ((8, 500), (16, 8000)):  # A quarter of a period, with errors of time far smaller.
    p = np.sin(2 * np.pi * np.arange(n) / n)[:, None] * np.ones(8)
    old, no = p * np.cos(np.pi / 2 / steps), np.zeros((n, 8))
    bound = exact.bind(p=p, old=old, c=no + n / 4 / steps, shot=no, now=0)
    program = tikgen.Program([bound, tikgen.swap((p, old))])
    program.run(steps)
    errors.append(np.abs(program["p"]).max())
order = np.log2(errors[0] / errors[1])
grid.print(f"error {errors[1]:.1e} at {n} points a wave, order of accuracy {order:.2f}")
assert abs(order - 8) < 0.4

if "--plot" in sys.argv and grid.rank == 0:
    import matplotlib.pyplot as plt

    plt.imsave(sys.argv[-1], np.array(record), cmap="gray", vmin=-0.02, vmax=0.02)

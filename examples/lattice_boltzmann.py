"""Flow around a cylinder by the lattice Boltzmann method; ``--plot FILE`` writes a picture."""

import sys

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN)
cx, cy = [0, 1, 0, -1, 0, 1, -1, -1, 1], [0, 0, 1, 0, -1, 1, 1, -1, -1]
w, opposite = [4 / 9, *[1 / 9] * 4, *[1 / 36] * 4], [0, 3, 4, 1, 2, 7, 8, 5, 6]
# What comes from a solid point is what went there: walls lie half way between points.
text = """
    each q in f: g.q = where(solid[-cx.q, -cy.q], f.opposite.q, f.q[-cx.q, -cy.q])
    rho = sum(g.q for q in f)
    u.x = sum(cx.q*g.q for q in f)/rho
    u.y = sum(cy.q*g.q for q in f)/rho
    each q in f:
        along = cx.q*u.x + cy.q*u.y
        steady = w.q*rho*(1 + 3*along + 4.5*along**2 - 1.5*dot(u, u))
        f'.q = g.q + (steady - g.q)/tau + 3*w.q*cx.q*force
"""
lists = {"cx": cx, "cy": cy, "w": w, "opposite": opposite}
kinds = {"vectors": {"f": 9, "g": 9, "u": 2}, "types": {"solid": "i8"}, "constants": lists}
flow = tikgen.update(text, 2, "tau force", boundary="periodic", **kinds)


def run(solid, u, tau, force, steps, **calls):
    """Return f after some steps, which begin with a flow of speed u along x."""
    along = np.reshape(cx, (9, 1, 1)) * u
    f = np.reshape(w, (9, 1, 1)) * (1 + 3 * along + 4.5 * along**2 - 1.5 * u**2 + 0 * solid)
    f, after = f.astype(np.float32), np.empty(f.shape, np.float32)
    bound = flow.bind(f=f, f_next=after, solid=solid, tau=tau, force=force)
    program = tikgen.Program([bound, tikgen.swap((f, after))], f=f)
    program.verify(steps=3).raise_for_failure()
    program.run(steps, **calls)
    return program["f"]


n, tau, force = 22, 0.5 + np.sqrt(3 / 16), 1.5e-4  # For this tau the parabola is exact.
i, j = np.indices((4, n))
f = run(((j == 0) | (j == n - 1)).astype(np.int8), 0 * j, tau, force, 4000)
exact = force / 2 / ((tau - 0.5) / 3) * (j - 0.5) * (n - 1.5 - j)
error = np.abs(np.tensordot(cx, f, 1) / f.sum(0) - force / 2 - exact)[:, 1:-1].max() / exact.max()
i, j = np.indices((360, 120))
solid = ((i - 60) ** 2 + (j - 60) ** 2 <= 100).astype(np.int8)
record, waving = [], 0.1 + 0.02 * np.sin(2 * np.pi * j / 120)
save = {"every": 20, "call": lambda p: record.append(np.dot(cy, p["f"][:, 100, 60]))}
f = run(solid, waving, 0.53, 3e-6, 8000, **save)
waves = np.abs(np.fft.rfft(np.array(record)[150:] * np.hanning(250)))  # From step 3000 on.
strouhal = waves.argmax() / 5000 * 21 / 0.095
print(f"flow between walls: error {error:.1e}; Strouhal number {strouhal:.2f}, 0.2 is known")
assert error < 1e-3 and abs(strouhal - 0.2) < 0.03
if "--plot" in sys.argv:
    import matplotlib.pyplot as plt

    (_, uxy), (uyx, _) = (np.gradient(np.tensordot(c, f, 1) / f.sum(0)) for c in (cx, cy))
    plt.imsave(sys.argv[-1], np.where(solid, 0, uyx - uxy).T, cmap="RdBu", vmin=-0.02, vmax=0.02)

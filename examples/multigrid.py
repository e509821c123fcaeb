"""Multigrid for a Poisson equation in 2D: a program of V-cycles, and views from grid to grid.

A grid has every second point in common with the next coarser one: `r[1::2, 1::2]`, which is a view.
The right-hand side belongs to a known solution. ``--plot FILE`` draws residuals.
"""

import sys

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN, fast_math=False)
walls = {"dim": 2, "dtype": "f64", "boundary": "zero"}
begin = tikgen.update("u = f/5", outputs="u", **walls)  # A damped Jacobi step from u = 0.
smooth = tikgen.update("u' = u + (f + lap(u))/5", **walls)
remain = tikgen.update("r = f + lap(u); most = max(abs(r))", outputs="r", **walls)
# The mean of a point and its neighbours, times 4: coarse points lie twice as far apart.
restrict = tikgen.update("f = 2*r + (north + south + west + east)/2", outputs="f", **walls)
halfway = tikgen.update("u = u + (p + q)/2", **walls)
amid = tikgen.update("u = u + (p + q + s + t)/4", **walls)


def cycle(f, u, most, is_finest=True):
    """Return the steps of a V-cycle for `u`, which lies within a layer of zeros."""
    inner, (v, r) = u[1:-1, 1:-1], np.zeros((2, *f.shape))
    steps = [smooth.bind(u=inner, f=f, u_next=v), smooth.bind(u=v, f=f, u_next=inner)]
    before = steps if is_finest else [begin.bind(f=f, u=inner), *steps]
    if len(f) == 1:
        return before
    g, e = np.zeros((len(f) // 2,) * 2), np.zeros((len(f) // 2 + 2,) * 2)
    sides = {"north": r[:-1:2, 1::2], "south": r[2::2, 1::2]}
    sides |= {"west": r[1::2, :-1:2], "east": r[1::2, 2::2]}
    return [
        *before,
        remain.bind(u=inner, f=f, r=r, most=most),
        restrict.bind(r=r[1::2, 1::2], **sides, f=g),
        *cycle(g, e, np.zeros(1), is_finest=False),
        # Points that the coarse grid has too, those between two of its points, and between four.
        halfway.bind(u=inner[1::2, 1::2], p=e[1:-1, 1:-1], q=e[1:-1, 1:-1]),
        halfway.bind(u=inner[::2, 1::2], p=e[:-1, 1:-1], q=e[1:, 1:-1]),
        halfway.bind(u=inner[1::2, ::2], p=e[1:-1, :-1], q=e[1:-1, 1:]),
        amid.bind(u=inner[::2, ::2], p=e[:-1, :-1], q=e[:-1, 1:], s=e[1:, :-1], t=e[1:, 1:]),
        *steps,
    ]


errors, residuals = [], []
for n in (127, 255, 511):  # Points along each axis, between walls at 0.
    i = np.arange(1, n + 1) / (n + 1)
    waves = np.sin(np.pi * i)[:, None]
    f = waves * (np.pi**2 * (i - i**3) + 6 * i) / (n + 1) ** 2
    u, most = np.zeros((n + 2, n + 2)), np.zeros(1)
    program = tikgen.Program(cycle(f, u, most), most=most, enough=1e-8 * f.max())
    residuals.append([])
    ran = program.run(
        until="most < enough",
        most=30,
        every=1,
        call=lambda run: residuals[-1].append(run["most"][0]),
    )
    assert ran.reached
    errors.append(np.abs(u[1:-1, 1:-1] - waves * (i - i**3)).max())
    print(f"{n} x {n} points: {ran.steps} cycles, {1e3 * ran.seconds / ran.steps:.2f} ms each")
order = np.log2(errors[-2] / errors[-1])
print(f"largest error {errors[-1]:.1e}, order of accuracy {order:.3f}")
assert abs(order - 2) < 0.05

if "--plot" in sys.argv:
    import matplotlib.pyplot as plt

    for found, style in zip(residuals, (":", "--", "-"), strict=True):
        plt.semilogy(np.array(found) / found[0], style)
    plt.title("Residual after each cycle: 127² points (dotted), 255² (dashed), 511²")
    plt.savefig(sys.argv[-1])

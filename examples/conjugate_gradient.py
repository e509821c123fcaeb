"""Conjugate gradients on a Poisson equation in 3D: no matrix, and no number the host waits for.

Scalar products come from the pass that computes their vectors; step lengths are arrays of one
element. The right-hand side belongs to a known solution. ``--plot FILE`` draws residuals.
"""

import sys

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN, fast_math=False)
walls = {"dim": 3, "dtype": "f64", "boundary": "zero"}
laplace = tikgen.update("q = -lap(p); pq = sum(p*q)", outputs="q", **walls)
go = tikgen.update(
    "x = x + a*p; r = r - a*q; rr_next = sum(r*r)", scalars="a", on_device="a", **walls
)
turn = tikgen.update("p = r + b*p", scalars="b", on_device="b", **walls)
square = tikgen.reduce("rr = sum(r*r)", "f64", dim=3)
errors, squares = [], []
for n in (31, 63):  # Points along each axis, between walls at 0.
    i = np.arange(1, n + 1) / (n + 1)
    waves = np.sin(np.pi * i)[:, None, None] * np.sin(2 * np.pi * i)[:, None]
    solution = waves * (i - i**3)
    # Minus its Laplacian, times the square of the distance between points.
    right = waves * (5 * np.pi**2 * (i - i**3) + 6 * i) / (n + 1) ** 2
    grid = tikgen.Grid(right.shape, halo=1)
    x, q, r, p = grid.zeros("f64"), grid.zeros("f64"), grid.field(right), grid.field(right)
    rr, rr_next, pq, a, b = np.zeros((5, 1))
    grid.bind(square, r=r, rr=rr)()
    program = tikgen.Program(
        [
            grid.bind(laplace, p=p, q=q, pq=pq),
            "a = rr / pq",
            grid.bind(go, x=x, r=r, p=p, q=q, a=a, rr_next=rr_next),
            "b = rr_next / rr; rr = rr_next",
            grid.bind(turn, p=p, r=r, b=b),
        ],
        rr=rr, rr_next=rr_next, pq=pq, enough=1e-20 * rr[0],
    )  # fmt: skip
    program.verify(steps=1).raise_for_failure()
    squares.append([])
    ran = program.run(
        until="rr < enough", most=999, every=1, call=lambda run: squares[-1].append(run["rr"][0])
    )
    assert ran.reached
    errors.append(np.abs(x[:] - solution).max())
    grid.print(f"{n}^3 points: {ran.steps} steps, {1e3 * ran.seconds / ran.steps:.2f} ms each")
order = np.log2(errors[0] / errors[1])
grid.print(f"largest error {errors[1]:.1e}, order of accuracy {order:.3f}")
assert abs(order - 2) < 0.05

if "--plot" in sys.argv and grid.rank == 0:
    import matplotlib.pyplot as plt

    plt.semilogy(np.sqrt(squares[0]), "--", np.sqrt(squares[1]))
    plt.title("Norm of the residual at each step: 31³ points (dashed) and 63³")
    plt.savefig(sys.argv[-1])

"""Implicit heat conduction in 2D with a template of one's own: systems along rows and columns.

Peaceman and Rachford's method takes half a step implicitly along each axis in turn, so that a step
may be hundreds of times as long as an explicit one.
"""

from pathlib import Path

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN)
template = tikgen.load_template(Path(__file__).parent / "implicit" / "tridiagonal")
print(tikgen.verify(template, archs=["cpu"], max_examples=10, raise_on_failure=True))
solve = [tikgen.build(template, axis=axis, dtype="f64") for axis in (0, 1)]
# The explicit half, along one axis; walls at 0 lie half a cell beyond the outermost points.
walls = {"dim": 2, "dtype": "f64", "boundary": "antisymmetric", "scalars": "r"}
explicit = [
    tikgen.update(f"right = u + r*{d}(u)", outputs="right", **walls) for d in ("dxx", "dyy")
]

n, time = 256, 0.05
h = 1 / n
place = (np.arange(n) + 0.5) * h
mode = np.sin(np.pi * place)[:, None] * np.sin(2 * np.pi * place)
rate = 4 * (np.sin(np.pi * h / 2) ** 2 + np.sin(np.pi * h) ** 2) / h**2  # Of the grid.
errors = []
for steps in (8, 16, 32):
    r = time / steps / 2 / h**2
    u, right, sides = mode.copy(), np.empty((n, n)), np.full((n, n), -r)
    mains = [np.full((n, n), 1 + 2 * r) for _ in solve]
    for axis, main in enumerate(mains):
        ends = main.swapaxes(0, axis)
        ends[0] = ends[-1] = 1 + 3 * r
    half = [
        part
        for axis in (0, 1)
        for part in (
            explicit[1 - axis].bind(u=u, right=right, r=r),
            solve[axis].bind(lower=sides, main=mains[axis], upper=sides, right=right, x=u),
        )
    ]
    ran = tikgen.Program(half).run(steps)
    errors.append(np.abs(u - mode * np.exp(-rate * time)).max() / np.exp(-rate * time))
    length = f"{steps} steps, {8 * r:.0f} times as long as an explicit one may be"
    print(f"{length}: error {errors[-1]:.1e}, {1e3 * ran.seconds / steps:.2f} ms each")
order = np.log2(errors[-2] / errors[-1])
print(f"order of accuracy in time {order:.3f}")
assert abs(order - 2) < 0.05

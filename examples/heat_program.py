"""A whole simulation as one program: steps in native code, a stop criterion, a checkpoint.

The heat equation on a torus cools down to its mean. The initial field is a wave, an eigenfunction
of the difference operator, so that its exact decay is known.
"""

import math
import tempfile
from pathlib import Path

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN)

n = 96
x = 2 * math.pi * np.arange(n) / n
u = (np.sin(x)[:, None] * np.cos(x)).astype(np.float32)
un = np.zeros_like(u)
squares = np.zeros_like(u)
energy = np.zeros(1, np.float32)
start = float(np.square(u).sum())
ratio = 0.2  # dt / h^2, stable up to 1/4.

step = tikgen.build("stencil", dim=2, update=True, boundary="periodic")
square = tikgen.elementwise("y = x*x", dim=2)
total = tikgen.build("reduce", op="sum")
program = tikgen.Program(
    [
        step.bind(u, un, ratio),
        tikgen.swap((u, un)),
        square.bind(u, squares),
        total.bind(squares.ravel(), energy),
    ],
    u=u,
    un=un,
    energy=energy,
    enough=start / 100,
)
print(program)
print("native code" if program.is_native else f"from Python: {program.why_not_native}")
program.verify().raise_for_failure()

ran = program.run(until="energy < enough", check_every=10, most=100_000)
print(f"{ran.steps} steps, {1e6 * ran.seconds / ran.steps:.1f} us each; cold: {ran.reached}")

with tempfile.TemporaryDirectory() as folder:
    program.save(Path(folder) / "cold.npz")
    program.run(500)
    program.load(Path(folder) / "cold.npz")

decay = 1 - ratio * 8 * math.sin(math.pi / n) ** 2
exact = decay**program.steps * np.sin(x)[:, None] * np.cos(x)
error = np.abs(program["u"] - exact).max()
print(f"largest error against the exact decay: {error:.1e}")
assert error < 1e-5

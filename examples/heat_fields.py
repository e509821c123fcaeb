"""A simulation of one's own, with its own fields and time loop, in which tikgen updates the field.

The heat equation u_t = laplace(u) on the unit square with cold walls. The initial field is an
eigenfunction of the difference operator, so its exact decay is known.
"""

import math

import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN)

n = 64  # Cells along a side; the walls are the first and the last point.
steps = 1000
ratio = 0.2  # dt / h^2, stable up to 1/4.

u = ti.field(ti.f32, shape=(n + 1, n + 1))
u_next = ti.field(ti.f32, shape=(n + 1, n + 1))


@ti.kernel
def initialise():
    for i, j in u:
        u[i, j] = ti.sin(ti.math.pi * i / n) * ti.sin(ti.math.pi * j / n)


# y = x + scale * laplacian(x), on fields; the walls, the halo of the stencil, stay untouched.
advance = tikgen.build("stencil", dim=2, dtype="f32", storage="field", update=True)

initialise()
for _ in range(steps // 2):
    advance(u, u_next, ratio)
    advance(u_next, u, ratio)

# One step multiplies this eigenfunction by 1 - 8 ratio sin(pi h / 2)^2.
exact = (1 - 8 * ratio * math.sin(math.pi / (2 * n)) ** 2) ** steps
centre = u[n // 2, n // 2]
error = abs(centre / exact - 1)
print(f"temperature at the centre {centre:.6f}, exact {exact:.6f}, relative error {error:.1e}")

assert error < 1e-4

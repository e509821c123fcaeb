"""The life of kernels: what was rendered, compiled and launched, and how long it took.

It writes trace.json, which https://ui.perfetto.dev shows, trace.html and trace.png.
"""

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN)


@ti.kernel
def add(field: ti.template(), delta: ti.i32):
    for i in field:
        field[i] += delta


short, long = ti.field(ti.i32, shape=16), ti.field(ti.i32, shape=128)
x = np.random.default_rng().random((64, 64), dtype=np.float32)
y = np.zeros_like(x)

with tikgen.trace(all_kernels=True) as trace:
    add(short, 40)
    add(short, 2)  # The same template signature: what was compiled is used again.
    add(long, 42)  # Another field is another signature, and a new instance.
    total = long.to_numpy().sum()  # Taichi compiles a kernel of its own for this.
    laplacian = tikgen.build("stencil", dim=2, dtype="f32")
    for _ in range(1000):
        laplacian(x, y)

print(trace)
trace.save("trace.json")
trace.html("trace.html")
trace.timeline("trace.png")

instances = [e for e in trace.events if e.stage == "instantiate" and e.subject.name == "add"]
error = np.abs(y - laplacian.reference(x, np.zeros_like(x))).max()
print(f"add was instantiated {len(instances)} times; largest error of the stencil: {error:.1e}")

assert len(instances) == 2
assert total == 128 * 42
assert error < 1e-5

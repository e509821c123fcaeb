"""A NumPy array and a device array with the same content, and as few copies as possible.

Give an arch as argument: cpu, vulkan or cuda.
"""

import asyncio
import sys

import numpy as np
import taichi as ti

import tikgen
from tikgen.ring import UnifiedBuffer, kernel

ti.init(arch=getattr(ti, sys.argv[1] if len(sys.argv) > 1 else "cpu"), log_level=ti.ERROR)
halve = tikgen.build("map", expr="y = 0.5*x")


@kernel
def add_one(x, y):
    for i in x:
        y[i] = x[i] + 1.0


async def main():
    x = UnifiedBuffer((1000,), dtype=np.float32)
    x.allocate()
    x.host[:] = np.random.default_rng().standard_normal(1000)
    x.mark_host_dirty()
    await x.ensure_on_device()

    y = UnifiedBuffer((1000,), dtype=np.float32).allocate()
    halve(x.device, y.device)  # A kernel of a template takes the device array...
    y.mark_device_dirty()
    z = UnifiedBuffer((1000,), dtype=np.float32).allocate()
    add_one(y, z)  # ...and one of ring.kernel the buffer, which it marks as written.

    error = float(np.abs(z.host - (0.5 * x.host + 1)).max())
    print(f"x was copied to the device {x.transfers.to_device} times, error {error:.1e}")
    assert error < 1e-6
    for buffer in (x, y, z):
        buffer.free()


asyncio.run(main())

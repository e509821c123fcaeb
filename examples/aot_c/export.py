"""Export a step of the heat equation, and write where it starts and what NumPy makes of it.

Usage: python export.py [folder] [arch ...]
"""

import sys
from pathlib import Path

import numpy as np

import tikgen
from tikgen.demo.heat import NumpyHeat, initial_field

N = 32  # Grid points along an axis of the cube, less its cold walls.
STEPS = 100

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build")
archs = sys.argv[2:] or ["x64", "vulkan"]

# One explicit step in time: y = x + scale * laplacian(x). The walls are left alone. The shape is
# known, and so small that GPUs do best with a thread for each point.
step = tikgen.build(
    "stencil",
    dim=3,
    dtype="f32",
    boundary="interior",
    update=True,
    shape=(N + 2,) * 3,
    schedule={"loop": "points", "row_buffer": 0, "rows": 1},
)
# To v and back again, launched by one call.
there_and_back = [
    ("step", {"x": "u", "y": "v", "scale": "ratio"}),
    ("step", {"x": "v", "y": "u", "scale": "ratio"}),
]
folder.mkdir(parents=True, exist_ok=True)
bundle = tikgen.aot.export(
    {"step": step}, folder / "heat", archs, graphs={"two_steps": there_and_back}, verify=True
)
print(bundle, *bundle.failures, sep="\n")

heat = NumpyHeat(initial_field(N).astype(np.float32))
np.pad(heat.field, 1).tofile(folder / "start.f32")
for _ in range(STEPS):
    heat.step()
np.pad(heat.field, 1).tofile(folder / "expected.f32")

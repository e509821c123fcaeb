"""Running sum."""

from functools import partial

import numpy as np

from works.work import Target, Work

M = 2**20

scan = partial(
    Work,
    kind="scan",
    title="scan sum",
    template="scan",
    problem={"op": "sum"},
    # Numbers of either sign: the running sum stays where f32 resolves it.
    inputs=lambda sizes, rng: {"x": rng.uniform(-1, 1, sizes["n0"]).astype(np.float32)},
    rtol=1e-3,
)

WORKS = (
    scan(size="16 M", machine="cpu", sizes={"n0": 16 * M}, targets=(Target("numpy", 1),)),
    scan(size="128 M", machine="gpu", sizes={"n0": 128 * M}, targets=(Target("torch", 1),)),
    scan(size="1 M", machine="lavapipe", sizes={"n0": M}),
)

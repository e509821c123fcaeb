"""Histogram over 256 bins; their edges are exact in f32, so every count is."""

from functools import partial

from works.work import Target, Work

M = 2**20

histogram = partial(
    Work,
    kind="histogram",
    title="histogram",
    template="histogram",
    problem={"bins": 256},
    inputs=lambda sizes, rng: {"lo": 0.0, "hi": 1.0},
)

WORKS = (
    histogram(
        size="16 M",
        machine="cpu",
        sizes={"n": 16 * M},
        targets=(Target("taichi", 5), Target("numpy", 10)),
    ),
    histogram(size="128 M", machine="gpu", sizes={"n": 128 * M}, targets=(Target("torch", 1),)),
    histogram(size="1 M", machine="lavapipe", sizes={"n": M}),
)

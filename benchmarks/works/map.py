"""Elementwise: copy, and axpy into a third array."""

from functools import partial

from works.work import Target, Work

M = 2**20

copy = partial(Work, kind="copy", title="copy", template="map", problem={"expr": "y = x"})
axpy = partial(
    Work,
    kind="axpy",
    title="axpy",
    template="map",
    problem={"expr": "z = a*x + y"},
    inputs=lambda sizes, rng: {"a": 2.5},
)

WORKS = (
    copy(size="16 M", machine="cpu", sizes={"n0": 16 * M}),
    axpy(
        size="16 M",
        machine="cpu",
        sizes={"n0": 16 * M},
        targets=(Target("taichi", 4), Target("numba", 1 / 1.1)),
    ),
    copy(size="128 M", machine="gpu", sizes={"n0": 128 * M}, targets=(Target("copy", 0.95),)),
    axpy(size="128 M", machine="gpu", sizes={"n0": 128 * M}, targets=(Target("copy", 0.95),)),
    copy(size="1 M", machine="lavapipe", sizes={"n0": M}),
    axpy(size="1 M", machine="lavapipe", sizes={"n0": M}),
)

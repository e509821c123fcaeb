"""Transposition of a square matrix."""

from functools import partial

from works.work import Target, Work

transpose = partial(
    Work, kind="transpose", title="transpose", template="transpose", problem={"perm": (1, 0)}
)

WORKS = (
    transpose(
        size="4096^2",
        machine="cpu",
        sizes={"n0": 4096, "n1": 4096},
        targets=(Target("taichi", 2), Target("numpy", 2)),
    ),
    transpose(
        size="8192^2",
        machine="gpu",
        sizes={"n0": 8192, "n1": 8192},
        targets=(Target("copy", 0.85),),
    ),
    transpose(size="1024^2", machine="lavapipe", sizes={"n0": 1024, "n1": 1024}),
)

"""Product of two square matrices."""

from functools import partial

from works.work import Target, Work

gemm = partial(
    Work,
    kind="gemm",
    title="gemm",
    template="gemm",
    problem={},
    inputs=lambda sizes, rng: {"alpha": 1.0, "beta": 0.0},
    rtol=1e-4,
    limit="fma",
)


def square(n: int) -> dict[str, int]:
    return {"m": n, "n": n, "k": n}


WORKS = (
    gemm(
        size="1024",
        machine="cpu",
        sizes=square(1024),
        targets=(Target("taichi", 15), Target("numpy", 1 / 3)),
    ),
    gemm(size="4096", machine="gpu", sizes=square(4096), targets=(Target("torch", 0.5),)),
    gemm(size="256", machine="lavapipe", sizes=square(256)),
)

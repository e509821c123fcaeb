"""Laplacians: 7 points in 3D, and 9 points, of fourth order, in 2D."""

from functools import partial

from works.work import Target, Work

in_3d = partial(
    Work, kind="stencil3d", title="stencil 7-point", template="stencil", problem={"dim": 3}
)
in_2d = partial(
    Work,
    kind="stencil2d",
    title="stencil 2D order 4",
    template="stencil",
    problem={"dim": 2, "order": 4},
)


def cube(n: int) -> dict[str, int]:
    return {"n0": n, "n1": n, "n2": n}


WORKS = (
    in_3d(
        size="200^3",
        machine="cpu",
        sizes=cube(200),
        targets=(Target("taichi", 15), Target("c", 1 / 1.4)),
    ),
    in_3d(
        size="100^3",
        machine="cpu",
        sizes=cube(100),
        targets=(Target("taichi", 15), Target("c", 1 / 2)),
    ),
    in_2d(
        size="4096^2",
        machine="cpu",
        sizes={"n0": 4096, "n1": 4096},
        targets=(Target("taichi", 8), Target("c", 1 / 1.4)),
    ),
    in_3d(
        size="512^3",
        machine="gpu",
        sizes=cube(512),
        targets=(Target("bandwidth", 2.9e12), Target("torch_compile", 1)),
    ),
    in_3d(size="64^3", machine="lavapipe", sizes=cube(64)),
    in_2d(size="512^2", machine="lavapipe", sizes={"n0": 512, "n1": 512}),
)

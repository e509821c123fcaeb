"""Points that a mask leaves alone, and equations that read the mask."""

from __future__ import annotations

import numpy as np
import pytest

import tikgen
from test_template_update import launched


@pytest.mark.parametrize(
    ("loop", "shape"),
    [("function", (1031,)), ("function", (5, 67)), ("points", (5, 67)), ("points", (3, 4, 41))],
    ids=str,
)
def test_points_of_a_mask_are_left_alone(
    loop: str, shape: tuple[int, ...], ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu" and loop == "function":
        pytest.skip("real functions belong to cpu")
    text = "u' = u + 1/c*lap(u); v = v + u; q = 2*u'; w' = 2*v"
    params = {"dim": len(shape), "boundary": "clamp", "schedule": {"loop": loop}}
    kernel = tikgen.update(text, mask="solid", types={"solid": "i8"}, **params)
    assert kernel.signature.names == ("u", "c", "v", "w", "solid", "u_next", "q", "w_next")
    u, v, q, w = rng.uniform(-1, 1, (4, *shape)).astype(np.float32)
    solid = rng.choice(np.int8([0, 0, 0, 1, -128]), shape)
    # Nothing that is computed at a point of the mask matters.
    c = np.where(solid, 0, 4).astype(np.float32)
    found = launched(kernel, u=u, c=c, v=v, q=q, w=w, solid=solid)
    free = tikgen.update(text, **params)
    new = launched(free, u=u, c=np.full_like(u, 4), v=v)
    kept = solid != 0
    assert 0.2 < kept.mean() < 0.6
    for name, value, before, after in zip("vuqw", found, (v, u, q, w), new, strict=True):
        assert (value[kept] == before[kept]).all(), name
        np.testing.assert_allclose(value[~kept], after[~kept], atol=1e-6, err_msg=name)
    assert "if solid" not in kernel.source.text


@pytest.mark.parametrize("loop", ["function", "points"])
@pytest.mark.parametrize("dtype", [None, "i16"])
def test_equations_read_the_mask_and_its_neighbours(
    loop: str, dtype: str | None, ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu" and loop == "function":
        pytest.skip("real functions belong to cpu")
    kernel = tikgen.update(
        "u' = where(solid[1, 0] != 0, -u, u[1, 0]); q = solid; m = sum(where(solid == 0, u, 0))",
        dim=2,
        mask="solid",
        types={"solid": dtype} if dtype else None,
        boundary={"u": "clamp", "solid": ("value", 1)},
        schedule={"loop": loop},
    )
    assert kernel.signature.names == ("solid", "u", "u_next", "q", "m")
    u, q = rng.integers(-9, 9, (2, 5, 67)).astype(np.float32)
    solid = rng.integers(0, 2, u.shape).astype(np.int16 if dtype else np.uint8)
    next_u, next_q, m = launched(kernel, u=u, q=q, solid=solid, m=np.zeros(1, np.float32))
    beyond = np.pad(solid, [(0, 1), (0, 0)], constant_values=1)[1:]
    expected = np.where(beyond != 0, -u, np.pad(u, [(0, 1), (0, 0)], "edge")[1:])
    np.testing.assert_array_equal(next_u, np.where(solid, u, expected))
    np.testing.assert_array_equal(next_q, np.where(solid, q, 0))
    assert m[0] == u[solid == 0].sum()

"""The next values of fields that lie on walls: a rule says them on the lower wall, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from test_template_update import launched

AT = {"p": "centre", "ux": "face x", "uy": "face y"}
# The Coriolis force and constant ones, which are not 0 on walls.
FORCED = """
ux' = ux + dt*(f*avgx(avgy(uy)) + fx - dx(p))
uy' = uy + dt*(fy - f*avgx(avgy(ux)) - dy(p))
p' = p - dt*(dx(ux') + dy(uy'))
"""
STEPPED = FORCED.splitlines()[1:3]
NUMBERS = {"dt": 0.25, "f": 0.5, "fx": 0.75, "fy": -0.375}


def doubled(x: np.ndarray, axis: int, on_walls: bool) -> np.ndarray:
    """Return an array and its mirror image: even between walls, and odd on walls."""
    x = np.moveaxis(x, axis, 0)
    image = np.concatenate([np.zeros_like(x[:1]), -x[:0:-1]]) if on_walls else x[::-1]
    return np.moveaxis(np.concatenate([x, image]), 0, axis)


def mirrored(x: np.ndarray, place: str) -> np.ndarray:
    """Return an array on a periodic domain of twice the size along each axis."""
    return doubled(doubled(x, 0, place == "face x"), 1, place == "face y")


def odd(n: int, on_walls: bool) -> np.ndarray:
    """Return the sign of what changes it at walls: 0 on them."""
    signs = np.repeat([1.0, -1.0], n)
    if on_walls:
        signs[[0, n]] = 0
    return signs


def stepped(p: np.ndarray, ux: np.ndarray, uy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the velocities after a step on the periodic domain of twice the size."""
    p, ux, uy = mirrored(p, "centre"), mirrored(ux, "face x"), mirrored(uy, "face y")
    n, m = (extent // 2 for extent in p.shape)

    def below(x: np.ndarray, axis: int) -> np.ndarray:
        return np.roll(x, 1, axis)

    def above(x: np.ndarray, axis: int) -> np.ndarray:
        return np.roll(x, -1, axis)

    along_y = (uy + above(uy, 1)) / 2
    along_x = (ux + above(ux, 0)) / 2
    at_ux = odd(n, True)[:, None], odd(m, False)[None]
    at_uy = odd(n, False)[:, None], odd(m, True)[None]
    dt, f = NUMBERS["dt"], NUMBERS["f"]
    turned = f * at_ux[0] * at_ux[1] * (along_y + below(along_y, 0)) / 2
    new_ux = ux + dt * (turned + NUMBERS["fx"] * at_ux[0] - (p - below(p, 0)))
    turned = f * at_uy[0] * at_uy[1] * (along_x + below(along_x, 1)) / 2
    new_uy = uy + dt * (NUMBERS["fy"] * at_uy[1] - turned - (p - below(p, 1)))
    return new_ux[:n, :m], new_uy[:n, :m]


@pytest.mark.parametrize("loop", ["function", "points"])
def test_forces_do_not_move_rigid_walls(loop: str, ti_arch: str, rng: np.random.Generator) -> None:
    if ti_arch != "cpu" and loop == "function":
        pytest.skip("real functions belong to cpu")
    schedule = {"loop": loop}
    kernel = tikgen.update(
        "\n".join(STEPPED), 2, scalars="dt f fx fy", boundary="wall", at=AT, schedule=schedule
    )
    for shape in [(1, 1), (2, 3), (1, 37), (37, 1), (5, 71), (23, 64)]:
        p, ux, uy = rng.uniform(-1, 1, (3, *shape)).astype(np.float32)
        ux[0], uy[:, 0] = 0, 0
        found = launched(kernel, p=p, ux=ux, uy=uy, **NUMBERS)
        assert not found[0][0].any() and not found[1][:, 0].any()
        for own, wanted in zip(found, stepped(p, ux, uy), strict=True):
            np.testing.assert_allclose(own, wanted, atol=2e-6, err_msg=str(shape))


@pytest.mark.parametrize("loop", ["function", "points"])
def test_a_number_of_the_call_is_the_value_on_a_wall(
    loop: str, ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu" and loop == "function":
        pytest.skip("real functions belong to cpu")

    def at(number: Any) -> Any:
        return {"p": "clamp", "u": {"x-": tikgen.dirichlet(number, at="wall"), "x+": "wall"}}

    given = {"dim": 2, "at": {"p": "centre", "u": "face x"}, "schedule": {"loop": loop}}
    text = "u' = u + dt*(1 - dx(p)); fastest = max(abs(u'))"
    over_face = rng.uniform(-1, 1, 67).astype(np.float32)
    for number, value in (("piston", 2.5), ("piston", over_face), (-1.5, None)):
        scalars = "dt piston" if isinstance(value, float) else "dt"
        kernel = tikgen.update(text, boundary=at(number), scalars=scalars, **given)
        for n in (1, 2, 9):
            p, u = rng.uniform(-1, 1, (2, n, 67)).astype(np.float32)
            named = {} if value is None else {"piston": value}
            new, fastest = launched(
                kernel, p=p, u=u, dt=0.25, fastest=np.zeros(1, np.float32), **named
            )
            wanted = np.array(u + 0.25 * (1 - np.diff(p, axis=0, prepend=p[:1])))
            wanted[0] = number if value is None else value
            np.testing.assert_allclose(new, wanted, atol=1e-6)
            assert fastest == np.abs(new).max()


def test_points_of_a_mask_are_left_alone_on_a_wall(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.update(
        "u = u + 1", 1, boundary={"u": "antisymmetric"}, at={"u": "face x"}, mask="solid"
    )
    u = rng.uniform(1, 2, 37).astype(np.float32)
    for solid in (np.zeros(37, np.uint8), np.ones(37, np.uint8)):
        (found,) = launched(kernel, u=u, solid=solid)
        assert found[0] == (u[0] if solid[0] else 0)
        np.testing.assert_allclose(found[1:], u[1:] + 1 - solid[1:], atol=1e-6)

"""Template update: arrays that hold a part of a larger grid, with ghost points around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from spread import spread
from tikgen.errors import ParameterError

pytestmark = pytest.mark.usefixtures("ti_arch", "without_fast_math")
SHAPE = (23, 70)
# First and last point of a part, and its ghost points, along each axis: at a corner of the grid,
# in the middle, at the other end.
PARTS = {
    "a corner": ((0, 9, 0, 2), (0, 40, 0, 3)),
    "the middle": ((9, 17, 2, 2), (20, 41, 3, 2)),
    "the end": ((17, 23, 4, 0), (41, 70, 2, 0)),
    "one row": ((11, 12, 2, 2), (0, 70, 0, 0)),
}
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "coordinates": (
        "u' = u + dt*(lap(u) + u[-1, 2]) + 0.01*x*j; m = min(u' - i)",
        {"boundary": {"x": "reflect", "y-": tikgen.dirichlet(1.5), "y+": "antisymmetric"}},
    ),
    "nothing but the point": ("u' = dt*u*y; m = max(u'*x)", {"spacing": (0.5, 0.25)}),
    "layers": (
        "u' = u + dt*lap(u); m = max(u')",
        {"boundary": {"x": tikgen.absorbing(13), "y": tikgen.absorbing(32, 0.3)}},
    ),
}


def ended(part: tuple[tuple[int, int, int, int], ...]) -> tuple[slice, ...]:
    """Return the points of a part, ghost points included."""
    return tuple(slice(start - low, stop + high) for start, stop, low, high in part)


@spread("text, part", [*TEXTS], [*PARTS])
def test_a_part_is_computed_as_the_whole(text: str, part: str, rng: np.random.Generator) -> None:
    equations, options = TEXTS[text]
    whole = tikgen.update(equations, dim=2, scalars="dt", **options)
    u = rng.random(SHAPE, dtype=np.float32)
    expected, m = np.zeros_like(u), np.zeros(1, np.float32)
    whole(u=u, dt=0.1, u_next=expected, m=m)
    own = PARTS[part]
    numbers = tuple(
        (low, high, start - low, n) for (start, _, low, high), n in zip(own, SHAPE, strict=True)
    )
    kernel = tikgen.update(equations, dim=2, scalars="dt", part=numbers, **options)
    held = np.ascontiguousarray(u[ended(own)])
    found, m = np.full_like(held, np.nan), np.zeros(1, np.float32)
    kernel(u=held, dt=0.1, u_next=found, m=m)
    wanted = np.full_like(u, np.nan)
    inner = tuple(slice(start, stop) for start, stop, *_ in own)
    wanted[inner] = expected[inner]
    np.testing.assert_array_equal(found, wanted[ended(own)])  # Ghost points are left alone.
    i = np.ogrid[inner][0]
    after = expected[inner]
    reduced = {"coordinates": (after - i).min(), "layers": None}.get(text, (after * (i / 2)).max())
    if reduced is not None:
        np.testing.assert_allclose(m, reduced, rtol=1e-6)


def test_numbers_that_do_not_fit_are_refused() -> None:
    def update(part: Any) -> None:
        tikgen.update("u' = u + lap(u)", dim=2, boundary="zero", part=part)

    with pytest.raises(ParameterError, match="numbers for 1 axes, and dim is 2"):
        update(((0, 0, 0, 5),))
    with pytest.raises(ParameterError, match="ghost points of 0 or more"):
        update(((0, -1, 0, 5), (0, 0, 0, 5)))
    with pytest.raises(ParameterError, match="extent of 1 or more"):
        update(((0, 0, 0, 0), (0, 0, 0, 5)))
    with pytest.raises(ParameterError, match="part"):
        update(((0, 0, 0, 2**40), (0, 0, 0, 5)))


@pytest.mark.parametrize(
    ("text", "boundary", "part", "problem"),
    [
        ("a = u[-2]", "clamp", (1, 0, 5, 20), "1 ghost point at x-, and u is read 2 points away"),
        ("u' = lap(u)", "clamp", (2, 1, 5, 20), r"1 ghost point at x\+, and u is read 2 points"),
        ("a = u[-2]", "periodic", (0, 2, 5, 20), "0 ghost points at x-, and u is read 2 points"),
        # The mirror image of what lies below.
        ("a = u[-2]", "reflect", (0, 1, 0, 20), r"1 ghost point at x\+"),
        ("a = u[-2]", "clamp", (2, 0, 5, 20), ""),
        ("a = u[-2]; b = w[1]", "clamp", (2, 1, 5, 20), ""),
        ("a = u[-2]", "clamp", (0, 1, 0, 20), ""),
        ("a = u[-2]", "periodic", (0, 0, 0, 20), ""),
        ("a = 2*u", "interior", (1, 0, 0, 20), ""),
    ],
)
def test_fewer_ghost_points_than_are_read_are_refused(
    text: str, boundary: str, part: Any, problem: str
) -> None:
    if not problem:
        tikgen.update(text, 1, boundary=boundary, order=4, part=(part,))
        return
    with pytest.raises(ParameterError, match=problem):
        tikgen.update(text, 1, boundary=boundary, order=4, part=(part,))


def test_the_index_of_a_part_is_that_of_its_first_element(ti_arch: str) -> None:
    # Rows 10 to 19 of 40.
    kernel = tikgen.update("r = i + u[1] - u", 1, boundary="clamp", part=((1, 1, 9, 40),))
    u, r = np.zeros(12, np.float32), np.full(12, -1, np.float32)
    kernel(u=u, r=r)
    assert r.tolist() == [-1, *range(10, 20), -1]


def test_what_is_read_of_a_grid_is_known() -> None:
    def use(text: str, **options: Any) -> Any:
        kernel = tikgen.update(text, dim=2, **options)
        return kernel.template.grid_use(kernel.problem)

    plain = use("u' = u[-2, 0] + u[0, 1]*k; s = sum(u)", boundary="clamp", scalars="k")
    assert plain.arrays["u"].reach == ((2, 0), (0, 1))
    assert not plain.arrays["u"].is_diagonal
    assert plain.arrays["u"].periodic == (frozenset([False]),) * 2
    assert plain.arrays["u_next"].reach == ((0, 0), (0, 0))
    assert plain.totals == {"s": "sum"}
    # The mirror image of what lies outside may lie on the other side.
    assert use("u' = u[-2, 0]", boundary="reflect").arrays["u"].reach == ((2, 2), (0, 0))
    assert use("u' = dxy(u)", boundary="periodic").arrays["u"].is_diagonal
    vector = use("s' = div(v)*s", vectors={"v": 2}, boundary={"v": "periodic", "s": "zero"})
    assert vector.arrays["v"].first_axis == 1
    assert vector.arrays["v"].reach == ((1, 1), (1, 1))
    inflow = use(
        "u' = lap(u)", boundary={"x-": tikgen.dirichlet("at_inlet"), "x+": "zero", "y": "zero"}
    )
    assert inflow.faces == {"at_inlet": 0}

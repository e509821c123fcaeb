"""Template map: arrays that hold a part of a larger grid, with ghost points around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.errors import ParameterError
from tikgen.template.catalogue import find_template
from tikgen.verification.check import Trial

pytestmark = pytest.mark.usefixtures("ti_arch", "without_fast_math")


@pytest.mark.parametrize(
    ("shape", "ghosts"),
    [
        ((31,), ((2, 3),)),
        ((9, 20), ((1, 0), (0, 4))),
        ((5, 6, 7), ((0, 2), (1, 1), (3, 0))),
        ((3, 4), ((2, 2), (1, 1))),  # Nothing but ghost points.
        ((70, 3, 2, 80), ((1, 0), (0, 1), (1, 0), (2, 3))),  # Several chunks, and rows with a rest.
    ],
)
def test_ghost_points_are_left_alone(
    shape: tuple[int, ...], ghosts: tuple[tuple[int, int], ...], rng: np.random.Generator
) -> None:
    pairs = zip(shape, ghosts, strict=True)
    inner = tuple(slice(low, max(low, n - high)) for n, (low, high) in pairs)
    part = tuple((low, high, 5, 99) for low, high in ghosts)
    x, y = rng.random((2, *shape), dtype=np.float32)
    w = np.full(shape, np.nan, np.float32)
    expected = y.copy()
    expected[inner] = y[inner] + np.float32(0.5) * x[inner]
    text = "y = y + a*x; w = 2*x; top = max(w); s = sum(x*y)"
    plain = {"dim": len(shape), "part": part}
    found = {n: np.zeros(1, np.float32) for n in ("top", "s")}
    tikgen.elementwise(text, **plain)(a=0.5, x=x, y=y, w=w, **found)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(w[inner], 2 * x[inner])
    assert np.isnan(w).sum() == w.size - w[inner].size
    np.testing.assert_allclose(found["s"], np.vdot(x[inner], y[inner]), rtol=1e-5)
    assert found["top"] == (2 * x[inner]).max(initial=-np.inf)
    for loop in ("rows", "points", *(["flat"] if ARCH == "cpu" else [])):
        w[...] = np.nan
        tikgen.elementwise("w = x*x", **plain, schedule={"loop": loop})(x=x, w=w)
        np.testing.assert_array_equal(w[inner], x[inner] ** 2)
        assert np.isnan(w).sum() == w.size - w[inner].size


def test_numbers_that_do_not_fit_are_refused() -> None:
    def double(**params: Any) -> None:
        tikgen.elementwise("y = 2*x", dim=2, **params)

    with pytest.raises(ParameterError, match="numbers for 1 axes, and dim is 2"):
        double(part=((0, 0, 0, 5),))
    with pytest.raises(ParameterError, match="ghost points of 0 or more"):
        double(part=((0, -1, 0, 5), (0, 0, 0, 5)))
    with pytest.raises(ParameterError, match="loop"):
        double(part=((0, 1, 0, 5), (0, 0, 0, 5)), schedule={"loop": "blocks"})


def test_what_is_read_of_a_grid_is_known() -> None:
    kernel = tikgen.elementwise("y = a*x; s = sum(y)", dim=2)
    use = kernel.template.grid_use(kernel.problem)
    assert use is not None
    assert use.dim == 2
    assert {name: each.written for name, each in use.arrays.items()} == {"x": False, "y": True}
    assert all(each.reach == ((0, 0), (0, 0)) for each in use.arrays.values())
    assert use.totals == {"s": "sum"}


@pytest.mark.parametrize(
    "schedule", [{"loop": "rows", "unroll": 2}, {"loop": "points"}, {"loop": "flat"}], ids=str
)
@pytest.mark.parametrize("baked", [False, True])
def test_nothing_is_written_where_there_are_ghost_points_alone(
    schedule: dict[str, Any], baked: bool, ti_arch: str
) -> None:
    if schedule["loop"] == "flat" and ti_arch != "cpu":
        pytest.skip("flat loops belong to cpu")
    map_ = find_template("map")
    for part in (((2, 0, 2, 9), (0, 2, 0, 9)), ((0, 2, 0, 9), (0, 3, 0, 9))):
        text = "z = x + y" if schedule["loop"] == "rows" else "z = x + y; t = sum(x)"
        params = {"expr": text, "dim": 2, "part": part, **schedule}
        for sizes in ({"n0": 1, "n1": 1}, {"n0": 3, "n1": 1}, {"n0": 3, "n1": 2}):
            outcome = Trial(map_, params, sizes=sizes, baked=baked).run()
            assert outcome.ok, outcome.message

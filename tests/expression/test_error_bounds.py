"""Error bounds hold in every order in which fast math may compute an expression."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tikgen
from tikgen.dtypes import DType
from tikgen.expression import Expression

F = np.float32
Values = dict[str, np.ndarray]


def sums(terms: list[np.ndarray]) -> list[np.ndarray]:
    """Return the sums of four terms in every order, one after the other and in pairs."""
    found = []
    for a, b, c, d in itertools.permutations(terms):
        found += [((a + b) + c) + d, (a + b) + (c + d)]
    return found


# An expression, its factor and its terms, with the signs that they have.
WAYS: dict[str, Callable[[Values], list[np.ndarray]]] = {
    "w*(a - b) + w*(c - d)": lambda v: [
        v["w"] * total for total in sums([v["a"], -v["b"], v["c"], -v["d"]])
    ],
    "(a - b)/w + (c - d)/w": lambda v: [
        total / v["w"] for total in sums([v["a"], -v["b"], v["c"], -v["d"]])
    ],
    "a - b + c - d": lambda v: sums([v["a"], -v["b"], v["c"], -v["d"]]),
    "w*(a + b) - w*(c + d)": lambda v: sums(
        [v["w"] * v[n] * s for n, s in zip("abcd", (1, 1, -1, -1), strict=True)]
    ),
}


@pytest.mark.parametrize("text", WAYS)
@given(seed=st.integers(0, 2**32 - 1))
def test_terms_may_be_added_in_any_order_and_factors_taken_out(text: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = {name: rng.uniform(-1, 1, 50).astype(F) for name in "abcw"}
    # The sum nearly cancels, so that the bound cannot hide behind its value.
    v["d"] = (v["a"] - v["b"] + v["c"] if "- d" in text else v["a"] + v["b"] - v["c"]).astype(F)
    expression = Expression.parse(text)
    exact = np.asarray(expression.evaluate(**{n: x.astype(np.float64) for n, x in v.items()}))
    bound = expression.error_bound(v, DType.f32)
    for way in WAYS[text](v):
        assert (np.abs(way.astype(np.float64) - exact) <= bound + 1e-12).all()


def test_a_quotient_by_a_huge_number_may_be_zero() -> None:
    values = {"x": np.full(3, 100, F), "y": np.array([2.0**126, 2.0**126 * 1.5, -(2.0**127)], F)}
    quotient = 100 / values["y"].astype(np.float64)
    bound = Expression.parse("x / y").error_bound(values, DType.f32)
    assert (bound >= np.abs(quotient)).tolist() == [False, True, True]
    assert (bound < 2 * np.abs(quotient)).all()
    wide = {name: value.astype(np.float64) for name, value in values.items()}
    assert (Expression.parse("x / y").error_bound(wide, DType.f64) < 1e-40).all()


def test_a_divergence_that_vanishes_is_within_its_bound(ti_arch: str) -> None:
    at = {"bx": "face x", "by": "face y"}
    kernel = tikgen.update("q = dx(bx) + dy(by)", dtype="f64", order=4, boundary="periodic", at=at)
    shape = (90, 80)
    psi = np.random.default_rng().uniform(-1, 1, shape)
    weights = {0: 9 / 8, -1: -9 / 8, 1: -1 / 24, -2: 1 / 24}
    bx, by = (
        sign * sum(w * np.roll(psi, step, axis) for step, w in weights.items())
        for axis, sign in ((1, 1), (0, -1))
    )
    q = np.full(shape, np.nan)
    given = {"bx": bx, "by": by, "q": np.full(shape, np.nan)}
    kernel(bx=bx, by=by, q=q)
    wanted = kernel.reference(**given)
    allowed = kernel.template.tolerance(kernel.problem, given, {"q": wanted})["q"]
    assert np.abs(q).max() < 1e-13
    assert (np.abs(q - wanted) <= allowed).all()

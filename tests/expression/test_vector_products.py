"""Lengths of vectors and vector products in equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples
from tikgen.errors import ExpressionError
from tikgen.expression import Equations

VECTORS = {"v": 3, "w": 3, "q": 2, "f": 9}


def shown(text: str, **grid: Any) -> str:
    found = Equations.parse(text).on(3, vectors=VECTORS, **grid).assignments
    return str(found).replace("\u00b7", ".")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r = norm(q)", "r = sqrt(q.x * q.x + q.y * q.y)"),
        ("r = norm(f)", shown("r = sqrt(sum(f.n*f.n for n in f))")),
        ("r = norm(grad(p) + v)", shown("r = sqrt(dot(grad(p) + v, grad(p) + v))")),
        ("r = cross(q, 2*q)", "r = q.x * (2 * q.y) - q.y * (2 * q.x)"),
        (
            "v' = cross(v, w)",
            "v_next.x = v.y * w.z - v.z * w.y; v_next.y = v.z * w.x - v.x * w.z; "
            "v_next.z = v.x * w.y - v.y * w.x",
        ),
        ("r = cross(q, c)", "r = q.x * 2"),  # A 0 of a list leaves its term out.
    ],
)
def test_products_are_written_out(text: str, expected: str) -> None:
    assert shown(text, constants={"c": (0.0, 2.0)}) == expected


@settings(max_examples=examples(100, 25), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from((2, 3)))
def test_products_are_those_of_numpy(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, size))
    text = "each n in a: d.n = a.n + 2*b.n\nr = norm(d - c)\n"
    text += "s' = cross(cross(a, b), c)" if size == 3 else "z = cross(a, b - c)"
    update = Equations.parse(text).on(1, vectors=dict.fromkeys("abcds", size))
    rows = zip("abc", (a, b, c), strict=True)
    values = {f"{n}\u00b7{'xyz'[k]}": x for n, row in rows for k, x in enumerate(row)}
    found = update.assignments.evaluate(**{n: values[n] for n in update.assignments.inputs})
    assert np.isclose(found["r"], np.linalg.norm(a + 2 * b - c), rtol=1e-13)
    if size == 3:
        product = [found[f"s_next\u00b7{k}"] for k in "xyz"]
        assert np.allclose(product, np.cross(np.cross(a, b), c), rtol=1e-12, atol=1e-12)
    else:
        assert np.isclose(found["z"], a[0] * (b - c)[1] - a[1] * (b - c)[0], atol=1e-13)


REFUSED = {
    "r = cross(v, w)": "cross() gives a vector here; assign it to one",
    "r = cross(f, f)": "cross() takes vectors of 2 or 3 components; got 9",
    "r = cross(v)": "cross() takes two vectors",
    "r = dot(v)": "dot() takes two vectors",
    "r = norm(u)": "norm() takes one vector; abs(u) is the magnitude of a number",
    "r = norm(v, w)": "norm() takes one vector",
    "v' = cross(v, q)": "takes vectors of one size",
    "v' = cross(q, q)": "is a number, and what it is assigned to has 3 components",
    "r = length(v)": "calls 'length', which is not a function",
}


@pytest.mark.parametrize(("text", "problem"), REFUSED.items())
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        shown(text)
    assert problem in str(caught.value)


def test_known_functions_are_all_there_are() -> None:
    with pytest.raises(ExpressionError) as caught:
        shown("r = nothing(u)")
    known = str(caught.value).partition(" Known: ")[2].split("\n")[0].split(", ")
    assert {"grad", "dot", "cross", "norm", "sum", "div", "curl", "lap", "log1p"} <= {*known}


def test_a_force_on_a_current(ti_arch: str, rng: np.random.Generator) -> None:
    text = "v' = v + dt*cross(J, B); r = norm(v')"
    kernel = tikgen.update(text, dim=1, scalars="dt", vectors=dict.fromkeys(("v", "J", "B"), 3))
    v, current, field = rng.random((3, 3, 20), dtype=np.float32)
    after, length = np.empty_like(v), np.empty(20, np.float32)
    kernel(v=v, J=current, B=field, dt=0.5, v_next=after, r=length)
    exact = v + 0.5 * np.cross(current, field, axis=0)
    assert np.allclose(after, exact, atol=1e-6)
    assert np.allclose(length, np.linalg.norm(exact, axis=0), rtol=1e-5)
